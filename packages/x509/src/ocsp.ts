// OCSP responses (RFC 6960 4.2). A response is signed by the CA itself or by a responder that holds a
// certificate from it; the responder is named by the hash of its key, which is shorter than its name and survives
// renaming. Every time in an answer is GeneralizedTime.

import { hash } from "node:crypto";
import { schemeFor } from "./algorithms.ts";
import { REVOCATION_REASONS, type RevocationReason } from "./crl.ts";
import * as der from "./der.ts";
import { keyBits } from "./keys.ts";
import { nonceExtension } from "./ocsp-request.ts";
import { OID } from "./oids.ts";
import { signBytes, signBytesSync, type SigningKey } from "./signatures.ts";

type CertificateStatus =
  | { readonly status: "good" | "unknown" }
  | { readonly status: "revoked"; readonly revokedAt: Date; readonly reason: RevocationReason };

export type SingleAnswer = CertificateStatus & {
  /** The CertID of the request, byte for byte. */
  readonly certId: Buffer;
  readonly thisUpdate: Date;
  readonly nextUpdate?: Date | undefined;
};

interface OcspAnswer {
  readonly producedAt: Date;
  readonly answers: readonly SingleAnswer[];
  readonly nonce?: Buffer | undefined;
}

/** Who signs. Make it once and keep it: it holds everything that is the same in every answer. */
export interface OcspResponder {
  readonly signer: SigningKey;
  /** `[2] EXPLICIT KeyHash`, SHA-1 by definition. */
  readonly id: Buffer;
  /** `[0] EXPLICIT SEQUENCE OF Certificate`, or nothing. */
  readonly certificates: Buffer;
}

/** `certificates` holds the responder's own certificate when the CA has delegated to it. */
export function makeResponder(
  signer: SigningKey,
  publicKey: Buffer,
  certificates: readonly Buffer[],
): OcspResponder {
  const keyHash = hash("sha1", keyBits(publicKey), "buffer");
  return {
    signer,
    id: der.explicit(2, der.octetString(keyHash)),
    certificates: certificates.length === 0 ? Buffer.alloc(0) : der.explicit(0, der.sequenceOf(certificates)),
  };
}

export async function signOcspResponse(answer: OcspAnswer, responder: OcspResponder): Promise<Buffer> {
  const tbs = encodeResponseData(answer, responder);
  return wrapResponse(tbs, await signBytes(tbs, responder.signer), responder);
}

export function signOcspResponseSync(answer: OcspAnswer, responder: OcspResponder): Buffer {
  const tbs = encodeResponseData(answer, responder);
  return wrapResponse(tbs, signBytesSync(tbs, responder.signer), responder);
}

function encodeResponseData({ producedAt, answers, nonce }: OcspAnswer, { id }: OcspResponder): Buffer {
  return der.sequence(
    id,
    der.generalizedTime(producedAt),
    der.sequenceOf(answers.map(encodeSingle)),
    nonce === undefined ? Buffer.alloc(0) : der.explicit(1, der.sequence(nonceExtension(nonce).der)),
  );
}

function encodeSingle(answer: SingleAnswer): Buffer {
  const { certId, thisUpdate, nextUpdate } = answer;
  const parts = [certId, encodeStatus(answer), der.generalizedTime(thisUpdate)];
  if (nextUpdate !== undefined) parts.push(der.explicit(0, der.generalizedTime(nextUpdate)));
  return der.sequenceOf(parts);
}

const GOOD = der.tlv(der.contextTag(0));
const UNKNOWN = der.tlv(der.contextTag(2));

function encodeStatus(answer: CertificateStatus): Buffer {
  if (answer.status !== "revoked") return answer.status === "good" ? GOOD : UNKNOWN;
  const at = der.generalizedTime(answer.revokedAt);
  if (answer.reason === "UNSPECIFIED") return der.explicit(1, at);
  return der.explicit(1, at, der.explicit(0, der.enumerated(REVOCATION_REASONS[answer.reason])));
}

const SUCCESSFUL = der.enumerated(0);

function wrapResponse(tbs: Buffer, signature: Buffer, { signer, certificates }: OcspResponder): Buffer {
  const { identifier } = schemeFor(signer.algorithm);
  const basic = der.sequence(tbs, identifier, der.bitString(signature), certificates);
  const bytes = der.sequence(der.oid(OID.ocspBasic), der.octetString(basic));
  return der.sequence(SUCCESSFUL, der.explicit(0, bytes));
}

/** OCSPResponseStatus; 4 is not used. */
const ERROR_CODES = {
  malformedRequest: 1,
  internalError: 2,
  tryLater: 3,
  sigRequired: 5,
  unauthorized: 6,
} as const;
type OcspErrorStatus = keyof typeof ERROR_CODES;

/** Errors are not signed: anybody may say "try later". */
export const ocspError = (status: OcspErrorStatus): Buffer =>
  der.sequence(der.enumerated(ERROR_CODES[status]));

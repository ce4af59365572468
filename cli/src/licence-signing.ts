/** Signing a licence on a machine that reaches no server: the format is the contract's, the key comes from a file. */
import { createPrivateKey, randomUUID, sign, type KeyObject } from "node:crypto";
import { licences } from "@keyward/server";
import { Failure, UsageError } from "./failure.ts";

export interface OfflineTerms {
  readonly orgId: string | null;
  readonly plan: string;
  readonly features: readonly licences.LicenceFeature[];
  readonly days: number;
}

const DAY_MS = 86_400_000;

function readKey(pem: string): KeyObject {
  let key: KeyObject;
  try {
    key = createPrivateKey(pem);
  } catch {
    throw new Failure("The key file does not hold a private key in PEM.");
  }
  if (key.asymmetricKeyType !== "ed25519")
    throw new Failure("The key file holds a key of another kind; licences are signed with Ed25519.");
  return key;
}

export function signOffline(
  terms: OfflineTerms,
  pem: string,
  now: Date,
): { document: string; payload: licences.LicencePayload } {
  const key = readKey(pem);
  const payload = licences.licencePayload.safeParse({
    id: randomUUID(),
    orgId: terms.orgId,
    plan: terms.plan,
    features: [...new Set(terms.features)].sort(),
    notBefore: now.toISOString(),
    notAfter: new Date(now.getTime() + terms.days * DAY_MS).toISOString(),
    issuedAt: now.toISOString(),
  });
  if (!payload.success) {
    throw new UsageError(
      payload.error.issues
        .map((issue) => `${issue.path.join(".") || "licence"}: ${issue.message}`)
        .join("\n"),
    );
  }
  const text = licences.licenceTextToSign(payload.data);
  return { document: licences.joinLicence(text, sign(null, Buffer.from(text), key)), payload: payload.data };
}

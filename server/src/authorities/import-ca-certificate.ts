/**
 * A CA certificate from an external parent. The key must be ours and the chain must verify; and what the key has issued must
 * stay verifiable. It is put into the inventory as well: the expiry of a CA is the one that hurts most, and alerts
 * look there.
 */
import type { KeyObject } from "node:crypto";
import type { MemberActor } from "../platform/actor.ts";
import type { Clock } from "../platform/clock.ts";
import type { Tx } from "../platform/db/index.ts";
import { newId } from "../platform/ids.ts";
import { badRequest } from "../platform/problem.ts";
import { certificateImported } from "../certificates/events.ts";
import type { AuthorityRow } from "./model.ts";
import type { Authorities } from "./service.ts";
import { addAuthorityCertificate, type AuthorityKeyRow } from "./store.ts";

import type { CertificateRoom } from "./prune-ca-certificates.ts";
import { requireStorable } from "../inventory/index.ts";
import { inventoryFacts, type InventoryFacts, addCertificate, linkSuccessor } from "../signing/index.ts";
import { asRefusal, findingOf, refused } from "../certificates/index.ts";
import { certificatesFromPem, verifyChain, type Certificate } from "@keyward/x509";

export interface OwnKey {
  readonly row: AuthorityKeyRow;
  readonly privateKey: KeyObject;
  readonly isNew: boolean;
}

interface CaCertificateImportNeeds {
  readonly room: CertificateRoom;
  readonly clock: Clock;
  readonly authorities: Authorities;
  ownKey(row: AuthorityRow): Promise<OwnKey>;
  /** The certificate itself, unless it has been replaced or revoked already. */
  withoutSuccessor(id: string): Promise<string | undefined>;
}

export interface GivenCaCertificate {
  readonly certificate: string;
  readonly certificateChain: string;
}

interface ImportedCaCertificate {
  readonly id: string;
  readonly facts: InventoryFacts;
  readonly der: Buffer;
  readonly chain: readonly Buffer[];
}

/** The chain above a certificate from elsewhere, checked up to its last member. */
async function chainAbove(certificate: Certificate, text: string, now: Date): Promise<Certificate[]> {
  const given = text.trim() === "" ? [] : certificatesFromPem(text);
  const above = given.filter((each) => !each.der.equals(certificate.der));
  // Without a chain only the certificate itself can be checked: its dates, and that we understand all of it.
  const top = above.at(-1) ?? certificate;
  const answer = await verifyChain({ leaf: certificate, intermediates: above, roots: [top], at: now });
  if (answer.isValid) return answer.chain.slice(1);
  throw refused(
    answer.problems.map(({ code, message, subject }) =>
      findingOf(code, "certificateChain", `${subject}: ${message}`),
    ),
  );
}

async function readGiven(given: GivenCaCertificate, row: AuthorityRow, key: OwnKey, now: Date) {
  const [certificate] = certificatesFromPem(given.certificate);
  if (!certificate?.publicKey.equals(key.row.publicKey))
    throw badRequest("The certificate is for another key than this authority's.");
  const { basicConstraints: constraints, keyUsage: usages } = certificate.extensions;
  if (constraints?.isCa !== true || usages?.includes("key_cert_sign") === false)
    throw badRequest("The certificate is not an authority's.");
  if (row.hasManagedCrl && usages?.includes("crl_sign") === false)
    throw badRequest(
      "The certificate does not allow its key to sign revocation lists (crl_sign), so clients would refuse those that this authority's certificates name. Have it issued with crl_sign, or set disableManagedCrlDistributionPointUrl first.",
    );
  const facts = inventoryFacts(certificate.tbs);
  requireStorable(facts);
  return { certificate, facts, above: await chainAbove(certificate, given.certificateChain, now) };
}

export function createCaCertificateImport(needs: CaCertificateImportNeeds) {
  const { clock, authorities } = needs;

  const enlist = (tx: Tx, row: AuthorityRow, { id, facts, der, chain }: ImportedCaCertificate): void => {
    addCertificate(tx, {
      id,
      projectId: row.projectId,
      profileId: null,
      applicationId: null,
      authorityId: null,
      authorityKeyId: null,
      authorityCertificateId: null,
      renewedFromId: null,
      renewAt: null,
      crlShard: null,
      source: "imported",
      at: clock.now(),
      facts,
      details: { ...facts.details, friendlyName: row.name },
      der,
      chain,
      dataKeyId: null,
      sealedKey: null,
    });
    tx.emit(certificateImported({ orgId: row.orgId, projectId: row.projectId, certificateId: id }));
  };

  return async (actor: MemberActor, authorityId: string, given: GivenCaCertificate): Promise<void> => {
    const row = await authorities.find(actor, authorityId, "issue-ca-certificate");
    const key = await needs.ownKey(row);
    const { certificate, facts, above } = await readGiven(given, row, key, clock.now()).catch(
      (error: unknown) => {
        throw asRefusal(error, "certificate");
      },
    );
    await needs.room.make(row);
    const line = await authorities.lineOf(row, [certificate, ...above]);
    const { der, serialNumber, notBefore, notAfter } = certificate;
    const chain = above.map((each) => each.der);
    const id = newId(clock.millis());
    // Signed by a CA here, it is in the inventory already.
    const listed = line.find((each) => each.projectId === row.projectId && each.isFirst)?.id;
    const { activeCertificateId } = row;
    const replacedId =
      activeCertificateId === null ? undefined : await needs.withoutSuccessor(activeCertificateId);
    await authorities.change(actor, "issue-ca-certificate", row, async (tx) => {
      await needs.room.leave(tx, row.id);
      const own = {
        id,
        authorityId: row.id,
        keyId: key.row.id,
        serialNumber,
        notBefore,
        notAfter,
        der,
        chain,
      };
      addAuthorityCertificate(tx, own, null, clock.now());
      if (listed === undefined) enlist(tx, row, { id, facts, der, chain });
      if (replacedId !== undefined && replacedId !== listed)
        await linkSuccessor(tx, replacedId, listed ?? id, clock.now());
    });
  };
}

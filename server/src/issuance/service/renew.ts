/**
 * A certificate that replaces another. Its names may change, so the right to them is checked again; and using
 * a key again must not become a way of reading it.
 */
import type { Actor, MemberActor } from "../../platform/actor.ts";
import type { Clock } from "../../platform/clock.ts";
import type { Keyring } from "../../platform/crypto/index.ts";
import type { Db } from "../../platform/db/index.ts";
import { badRequest, notFound } from "../../platform/problem.ts";
import { orgOf, type Ability, type Permissions } from "../../permissions/index.ts";
import type { RenewInput } from "../contract.ts";
import { attributesAgain, namesOf, replacedBy } from "../model.ts";
import type { IssuanceInput, IssuanceRequests } from "./issuance-requests.ts";
import {
  type Issuer,
  type Issuers,
  type IssuanceRequest,
  type CertificateTemplate,
  openCertificateKey,
} from "../../signing/index.ts";
import { attributesOf, type CertificateRow, findCertificate } from "../../inventory/index.ts";
import type { Profiles, ProfileRow } from "../../profiles/index.ts";

interface RenewingNeeds {
  readonly db: Db;
  readonly clock: Clock;
  readonly keyring: Keyring;
  readonly permissions: Permissions;
  readonly profiles: Profiles;
  readonly issuers: Issuers;
  readonly requests: IssuanceRequests;
}

/** A certificate to be replaced, and the profile it was issued under if that still exists. */
export interface Renewable {
  readonly row: CertificateRow;
  readonly profile: ProfileRow | null;
  readonly idempotency: IssuanceRequest["idempotency"];
  /** Checked with the content of the new one, before it is issued. */
  readonly allow?: (template: CertificateTemplate) => Promise<void>;
  /** May the caller see the old key? */
  readonly showsKey?: boolean;
  readonly requireStill?: () => Promise<unknown>;
}

function refuseIfOver(row: CertificateRow): void {
  if (row.revokedAt !== null) throw badRequest("A revoked certificate cannot be renewed.");
  if (row.renewedById !== null)
    throw badRequest(`The certificate was renewed already, by ${row.renewedById}.`);
}

type Names = Pick<ReturnType<typeof namesOf>, "commonName" | "altNames">;
const isSameNames = (one: Names, other: Names): boolean =>
  one.commonName === other.commonName &&
  JSON.stringify([...one.altNames].sort()) === JSON.stringify([...other.altNames].sort());

export function createRenewing(needs: RenewingNeeds) {
  const { db, clock, keyring, permissions, profiles, issuers, requests } = needs;

  const issuerFor = async ({ row, profile }: Renewable): Promise<Issuer | null> => {
    if (profile) return requests.issuerOf(profile);
    if (row.source === "imported")
      throw badRequest(
        "The certificate was issued elsewhere and belongs to no profile: nothing here can renew it.",
      );
    return row.authorityId === null ? null : issuers.require(row.authorityId, row.projectId);
  };

  const issuanceOf = async (actor: Actor, old: Renewable, input: RenewInput): Promise<IssuanceInput> => {
    const { row, profile } = old;
    const source = input.renewalKeySource ?? (input.csr ? "csr" : "new");
    const key = source === "reuse" ? await openCertificateKey(keyring, row) : undefined;
    if (source === "reuse" && !key) throw badRequest("The private key is not kept here: renew with a csr.");
    const csr = await requests.readCsr(source === "csr" ? input.csr : undefined);
    if (source === "csr" && !csr) throw badRequest("Renewal by request needs csr.");
    if (source === "new" && row.sealedKey === null)
      throw badRequest("The private key was made elsewhere: renew with a csr.");
    return {
      actor,
      projectId: row.projectId,
      orgId: row.orgId,
      profile,
      applicationId: row.applicationId,
      issuer: await issuerFor(old),
      rules: profile?.policyRules ?? {},
      attributes: attributesAgain(row, input.attributes ?? {}, csr !== undefined),
      csr,
      key,
      showsKey: source !== "reuse" || old.showsKey === true,
      context: {
        friendlyName: row.details.friendlyName,
        metadata: row.details.metadata,
        renewedFromId: row.id,
        // The renewal setting of this certificate holds for its successors too.
        ...(row.details.autoRenewal === undefined
          ? {}
          : {
              autoRenewal: row.details.autoRenewal,
              renewBeforeSeconds: row.details.renewBeforeSeconds,
            }),
      },
      replaced: replacedBy(row),
      idempotency: old.idempotency,
      ...(old.requireStill ? { requireStill: old.requireStill } : {}),
    };
  };

  /** Renews as an actor: the caller, or the server itself when it is due. */
  const renewRow = async (actor: Actor, old: Renewable, input: RenewInput) => {
    // A retry finds its own renewal; without an Idempotency-Key it can be refused right away.
    if (!old.idempotency) refuseIfOver(old.row);
    const issuance = await issuanceOf(actor, old, input);
    const earlier = await requests.replayed(issuance, input.removeRootsFromChain);
    if (earlier) return earlier;
    refuseIfOver(old.row);
    if (old.allow) await old.allow((await requests.requestOf({ ...issuance, isDryRun: true })).template);
    return requests.issueFor(issuance, input.removeRootsFromChain);
  };

  const mayReadKey = (ability: Ability, row: CertificateRow): boolean =>
    ability.can("read-private-key", "certificates", attributesOf(row, clock.now()));

  return {
    renewRow,

    async judge(actor: MemberActor, id: string): Promise<void> {
      const row = await db.read((q) => findCertificate(q, orgOf(actor), id));
      if (!row) throw notFound("The certificate", id);
      const attributes = attributesOf(row, clock.now());
      const wanted = { action: "read", subject: "certificates", attributes };
      await permissions.requireInProject(actor, row.projectId, wanted);
    },

    async renew(
      actor: MemberActor,
      id: string,
      input: RenewInput,
      idempotency: (what: string) => IssuanceRequest["idempotency"],
    ) {
      const row = await db.read((q) => findCertificate(q, orgOf(actor), id));
      if (!row) throw notFound("The certificate", id);
      const attributes = attributesOf(row, clock.now());
      const asked = (action: string, named: ReturnType<typeof namesOf>) =>
        permissions.requireInProject(actor, row.projectId, {
          action,
          subject: "certificates",
          attributes: named,
        });
      const ability = await asked("read", attributes);
      const required = async () => {
        if (row.profileId !== null) return profiles.find(actor, row.profileId, "issue-cert");
        await asked("create", attributes);
        return null;
      };
      const profile = await required();
      const showsKey = mayReadKey(ability, row);
      const isKeyMoved = input.renewalKeySource === "reuse" && !showsKey;
      const allow = async (template: CertificateTemplate): Promise<void> => {
        const named = namesOf(template, row.details.friendlyName);
        if (!profile) await asked("create", named);
        // The right to read a key depends on names: under another name it would be shown to others than before.
        if (isKeyMoved && !isSameNames(named, attributes)) await asked("read-private-key", attributes);
      };
      const { view, requestId } = await renewRow(
        actor,
        {
          row,
          profile,
          idempotency: idempotency(`renew:${id}`),
          showsKey,
          requireStill: required,
          ...(profile && !isKeyMoved ? {} : { allow }),
        },
        input,
      );
      if (input.renewalKeySource === "reuse" && view.privateKey !== undefined)
        await requests.noteKeyRead(actor, row);
      return { ...view, certificateRequestId: requestId };
    },
  };
}

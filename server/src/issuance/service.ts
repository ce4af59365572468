/**
 * Issuing under a profile, signing a CSR, renewing. Permission first,
 * then the request, then the policy's findings; the rest is done by signing.
 */
import { createHash } from "node:crypto";
import type { MemberActor } from "../platform/actor.ts";
import type { Clock } from "../platform/clock.ts";
import type { Keyring } from "../platform/crypto/index.ts";
import type { Db } from "../platform/db/index.ts";
import { idIn, type Named } from "../platform/http/index.ts";
import { badRequest, notFound } from "../platform/problem.ts";
import type { Permissions } from "../permissions/index.ts";
import type { IssueInput, RenewInput, SignInput } from "./contract.ts";
import { namesOf } from "./model.ts";
import { createIssuanceRequests, type IssuanceInput } from "./service/issuance-requests.ts";
import { createRenewing } from "./service/renew.ts";
import type { Applications } from "../applications/index.ts";
import type { Authorities } from "../authorities/index.ts";
import type { Issuers, Signing, IssuanceRequest } from "../signing/index.ts";
import type { Profiles, ProfileRow } from "../profiles/index.ts";

interface IssuanceNeeds {
  readonly db: Db;
  readonly clock: Clock;
  readonly keyring: Keyring;
  readonly permissions: Permissions;
  readonly profiles: Profiles;
  readonly applications: Applications;
  readonly authorities: Authorities;
  readonly issuers: Issuers;
  readonly signing: Signing;
}

export type Issuance = ReturnType<typeof createIssuance>;

const digestOf = (input: unknown): Buffer => createHash("sha256").update(JSON.stringify(input)).digest();

export function createIssuance(needs: IssuanceNeeds) {
  const { profiles, issuers } = needs;
  const requests = createIssuanceRequests(needs);
  const renewing = createRenewing({ ...needs, requests });

  const applicationOf = async (
    actor: MemberActor,
    profile: ProfileRow,
    id: string | null | undefined,
  ): Promise<string | null> => {
    if (!id) return null;
    const application = await needs.applications.find(actor, id, "read");
    if (application.projectId !== profile.projectId) throw notFound("The application", id);
    if (!(await needs.applications.uses(id, profile.id)))
      throw badRequest(
        `The profile ${profile.slug} is not attached to the application ${application.name}: attach it first.`,
      );
    return id;
  };

  const keyed = (
    actor: MemberActor,
    what: string,
    key: string | undefined,
    input: unknown,
  ): IssuanceRequest["idempotency"] =>
    key === undefined ? undefined : { key: `${actor.id}:${what}:${key}`, digest: digestOf(input) };

  const issuanceOf = async (
    actor: MemberActor,
    input: IssueInput,
    key: string | undefined,
  ): Promise<IssuanceInput> => {
    const profile = await profiles.find(actor, input.profileId, "issue-cert");
    const applicationId = await applicationOf(actor, profile, input.applicationId);
    const [csr, issuer] = [await requests.readCsr(input.csr), await requests.issuerOf(profile)];
    return {
      actor,
      projectId: profile.projectId,
      orgId: profile.orgId,
      profile,
      applicationId,
      issuer,
      rules: profile.policyRules,
      attributes: input.attributes ?? {},
      csr,
      key: undefined,
      showsKey: true,
      context: { friendlyName: input.friendlyName, metadata: input.metadata },
      idempotency: keyed(actor, "issue", key, input),
      requireStill: () => profiles.find(actor, input.profileId, "issue-cert"),
    };
  };

  /** A CA that the caller may sign under at all; the right to the names is checked when they are known. */
  const requireSigner = async (actor: MemberActor, caId: string) => {
    const authority = await needs.authorities.find(actor, caId, "read");
    const wanted = { action: "create", subject: "certificates" };
    await needs.permissions.requireInProject(actor, authority.projectId, wanted);
    return authority;
  };

  return {
    judgeIssue: async (actor: MemberActor, { body }: Named): Promise<void> => {
      const profileId = idIn(body["profileId"]);
      if (profileId !== undefined) await profiles.find(actor, profileId, "issue-cert");
    },

    judgeSigning: async (actor: MemberActor, { body }: Named): Promise<void> => {
      const [profileId, caId] = [idIn(body["certificateTemplateId"]), idIn(body["caId"])];
      if (profileId !== undefined) await profiles.find(actor, profileId, "issue-cert");
      else if (caId !== undefined) await requireSigner(actor, caId);
    },

    judgeRenewal: renewing.judge,

    async issue(actor: MemberActor, input: IssueInput, idempotencyKey: string | undefined) {
      const issuance = await issuanceOf(actor, input, idempotencyKey);
      if (input.dryRun) return { certificate: null, dryRun: await requests.dryRun(issuance) };
      const { view, requestId } = await requests.issueFor(
        issuance,
        input.removeRootsFromChain || input.attributes?.removeRootsFromChain === true,
      );
      return {
        certificate: view,
        certificateRequestId: requestId,
        status: "issued" as const,
        message: "The certificate was issued.",
      };
    },

    renew: (actor: MemberActor, id: string, input: RenewInput, idempotencyKey: string | undefined) =>
      renewing.renew(actor, id, input, (what) => keyed(actor, what, idempotencyKey, input)),

    renewRow: renewing.renewRow,

    /** For clients that name a CA instead of a profile; there is no policy, so `create` on certificates is required. */
    async sign(actor: MemberActor, input: SignInput, idempotencyKey: string | undefined) {
      if (input.certificateTemplateId) {
        const attributes = {
          ttl: input.ttl,
          notBefore: input.notBefore,
          notAfter: input.notAfter,
          commonName: input.commonName,
        };
        const asked: IssueInput = {
          profileId: input.certificateTemplateId,
          csr: input.csr,
          attributes,
          removeRootsFromChain: false,
          ...(input.friendlyName === undefined ? {} : { friendlyName: input.friendlyName }),
          dryRun: false,
        };
        return (await requests.issueFor(await issuanceOf(actor, asked, idempotencyKey), false)).view;
      }
      if (!input.caId) throw badRequest("Send caId or certificateTemplateId.");
      const authority = await requireSigner(actor, input.caId);
      const csr = await requests.readCsr(input.csr);
      const attributes = {
        ttl: input.ttl,
        notBefore: input.notBefore,
        notAfter: input.notAfter,
        commonName: input.commonName,
      };
      const issuance: IssuanceInput = {
        actor,
        projectId: authority.projectId,
        orgId: authority.orgId,
        profile: null,
        applicationId: null,
        issuer: await issuers.require(authority.id, authority.projectId),
        rules: {},
        attributes,
        csr,
        key: undefined,
        showsKey: true,
        context: { friendlyName: input.friendlyName },
        idempotency: keyed(actor, "sign", idempotencyKey, input),
      };
      const { template } = await requests.requestOf(issuance);
      await needs.permissions.requireInProject(actor, authority.projectId, {
        action: "create",
        subject: "certificates",
        attributes: namesOf(template, input.friendlyName),
      });
      return (await requests.issueFor(issuance, false)).view;
    },
  };
}

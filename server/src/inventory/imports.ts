/** Imported certificates: listed, watched and alerted on like our own. */
import type { MemberActor } from "../platform/actor.ts";
import type { Clock } from "../platform/clock.ts";
import type { Keyring } from "../platform/crypto/index.ts";
import type { Db } from "../platform/db/index.ts";
import { idIn } from "../platform/http/index.ts";
import { newId } from "../platform/ids.ts";
import { badRequest, notFound } from "../platform/problem.ts";
import type { Permissions } from "../permissions/index.ts";
import { certificateImported } from "../certificates/events.ts";
import type { ImportInput } from "./contract.ts";
import type { Applications } from "../applications/index.ts";
import {
  inventoryFacts,
  type InventoryFacts,
  certificateKeyContext,
  addCertificate,
} from "../signing/index.ts";
import {
  findingOf,
  judged,
  refused,
  chainToPem,
  type CertificateScope,
  noteCertificateProject,
} from "../certificates/index.ts";
import type { Profiles } from "../profiles/index.ts";
import {
  certificatesFromPem,
  certificateToPem,
  exportPkcs8,
  exportPkcs8Pem,
  importPrivateKey,
  keysMatch,
} from "@keyward/x509";

type ImportPlace = Pick<ImportInput, "profileId" | "applicationId" | "projectId">;

interface CertificateImportNeeds {
  readonly db: Db;
  readonly clock: Clock;
  readonly keyring: Keyring;
  readonly permissions: Permissions;
  readonly scope: CertificateScope;
  readonly profiles: Profiles;
  readonly applications: Applications;
}

export type CertificateImports = ReturnType<typeof createImports>;

/** PostgreSQL holds neither NUL nor half of a surrogate pair, and an old certificate's BMPString may have both. */
const isStorable = (text: string): boolean => !/\0|\p{Surrogate}/u.test(text);

/** Ten times what is issued here, and several times what the largest public sites have in one certificate. */
const MOST_NAMES = 1000;

/** Every list, search and rule that meets a certificate goes through all of its names. */
function requireFewNames(field: string, count: number): void {
  if (count <= MOST_NAMES) return;
  const message = `A certificate from elsewhere may have ${MOST_NAMES} names here; this one has ${count}.`;
  throw refused([findingOf("name.count", field, message)]);
}

/**
 * Refused rather than replaced: a name with a NUL in it was made to be read as another name, and the inventory shows
 * no name that the certificate does not have.
 */
export function requireStorable({ commonName, altNames, details }: InventoryFacts): void {
  requireFewNames("altNames", altNames.length);
  const subject = Object.entries(details["subject"] ?? {}) as [string, string | string[] | undefined][];
  requireFewNames("subject", subject.flatMap(([, value]) => value ?? []).length);
  const texts: (readonly [string, string])[] = [
    ["commonName", commonName],
    ...altNames.map(({ value }, at) => [`altNames.${at}`, value] as const),
    ...subject.flatMap(([name, value]) =>
      [value ?? []].flat().map((text) => [`subject.${name}`, text] as const),
    ),
  ];
  const findings = texts
    .filter(([, text]) => !isStorable(text))
    .map(([field]) =>
      findingOf("name.characters", field, "A name must not contain NUL or half of a surrogate pair."),
    );
  if (findings.length > 0) throw refused(findings);
}

function readImport(input: ImportInput) {
  const [certificate, ...rest] = certificatesFromPem(input.certificatePem);
  if (!certificate) throw badRequest("certificatePem holds no certificate.");
  const above = input.chainPem ? certificatesFromPem(input.chainPem) : [];
  const chain = [...rest, ...above].map(({ der }) => der).filter((der) => !der.equals(certificate.der));
  const key = input.privateKeyPem ? importPrivateKey(input.privateKeyPem) : undefined;
  if (key && !keysMatch(key, certificate.publicKey))
    throw badRequest("The private key belongs to another certificate.");
  const facts = inventoryFacts(certificate.tbs);
  requireStorable(facts);
  return { certificate, chain, key, facts };
}

export function createImports({
  db,
  clock,
  keyring,
  permissions,
  scope,
  profiles,
  applications,
}: CertificateImportNeeds) {
  const placeOf = async (actor: MemberActor, input: ImportPlace) => {
    // Under a profile it counts as one of those that were issued there, and clients that ask for the profile's latest
    // certificate get it with its key: the importer needs the right to issue there.
    const profile = input.profileId ? await profiles.find(actor, input.profileId, "issue-cert") : undefined;
    const application = input.applicationId
      ? await applications.find(actor, input.applicationId, "read")
      : undefined;
    const project = await scope.projectOf(
      actor,
      profile?.projectId ?? application?.projectId ?? input.projectId,
    );
    if (application && application.projectId !== project.id)
      throw notFound("The application", application.id);
    return { project, profileId: profile?.id ?? null, applicationId: application?.id ?? null };
  };

  /** The target project and profile, if the caller may import there. */
  const enter = async (actor: MemberActor, input: ImportPlace) => {
    const place = await placeOf(actor, input);
    const wanted = { action: "import", subject: "certificates" };
    await permissions.requireInProject(actor, place.project.id, wanted);
    return place;
  };

  return {
    judge: (actor: MemberActor, { profileId, applicationId, projectId }: Readonly<Record<string, unknown>>) =>
      enter(actor, {
        profileId: idIn(profileId),
        applicationId: idIn(applicationId),
        projectId: typeof projectId === "string" ? projectId : undefined,
      }),

    async import(actor: MemberActor, input: ImportInput) {
      const { project, profileId, applicationId } = await enter(actor, input);
      const { certificate, chain, key, facts } = judged("certificatePem", () => readImport(input));
      const names = {
        commonName: facts.commonName,
        altNames: facts.altNames.map(({ value }) => value),
        serialNumber: facts.serialNumber,
        friendlyName: input.friendlyName ?? "",
      };
      await permissions.requireInProject(actor, project.id, {
        action: "import",
        subject: "certificates",
        attributes: names,
      });
      const id = newId(clock.millis());
      const dataKey = key && (await keyring.dataKeyOf({ projectId: project.id }));
      const at = clock.now();
      await db.write(async (tx) => {
        noteCertificateProject(tx, project.id);
        addCertificate(tx, {
          id,
          projectId: project.id,
          profileId,
          applicationId,
          authorityId: null,
          authorityKeyId: null,
          authorityCertificateId: null,
          renewedFromId: null,
          renewAt: null,
          crlShard: null,
          source: "imported",
          at,
          facts,
          details: { ...facts.details, friendlyName: input.friendlyName },
          der: certificate.der,
          chain,
          dataKeyId: dataKey?.keyId ?? null,
          sealedKey: key && dataKey ? dataKey.encrypt(exportPkcs8(key), certificateKeyContext(id)) : null,
        });
        tx.audit(actor, {
          event: "import-certificate",
          orgId: project.orgId,
          projectId: project.id,
          metadata: { certificateId: id, serialNumber: facts.serialNumber, commonName: facts.commonName },
        });
        tx.emit(certificateImported({ orgId: project.orgId, projectId: project.id, certificateId: id }));
      });
      return {
        certificate: certificateToPem(certificate.der).trimEnd(),
        certificateChain: chainToPem(chain),
        serialNumber: facts.serialNumber,
        certificateId: id,
        ...(key ? { privateKey: exportPkcs8Pem(key).trimEnd() } : {}),
      };
    },
  };
}

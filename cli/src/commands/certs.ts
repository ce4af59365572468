import { access, constants, readFile, stat, writeFile } from "node:fs/promises";
import { isIP } from "node:net";
import { join } from "node:path";
import { certificateInventory, certificateProfiles, certificateRevocation, issuance } from "@keyward/server";
import type { Client, Reply } from "../client.ts";
import type { Arguments, Call, Command } from "../command.ts";
import { Failure, UsageError } from "../failure.ts";
import { facts, plain, table } from "../printing.ts";

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;
const project = {
  type: "string",
  value: "<project>",
  about: "Id or slug; else the organisation's certificate project",
} as const;
const profile = {
  type: "string",
  value: "<profile>",
  about: "Id or slug of the certificate profile",
} as const;
const out = {
  type: "string",
  value: "<folder>",
  about: "Write cert.pem, chain.pem and key.pem there instead of printing",
} as const;

async function profileId(client: Client, given: Arguments): Promise<string> {
  const ref = given.required("profile");
  if (UUID.test(ref)) return ref;
  const projectId = given.text("project");
  const query = projectId === undefined ? {} : { projectId };
  return (await client.call(certificateProfiles.getProfileBySlug, { params: { slug: ref }, query }))
    .certificateProfile.id;
}

/** `dns_name:a.example.com`; without a type, what the value looks like. */
function altName(text: string) {
  const [, type, value] = /^(dns_name|ip_address|email|uri|upn):(.+)$/.exec(text) ?? [];
  const guessed =
    isIP(text) > 0
      ? "ip_address"
      : /^[a-z][a-z0-9+.-]*:\/\//i.test(text)
        ? "uri"
        : text.includes("@")
          ? "email"
          : "dns_name";
  return {
    type: (type ?? guessed) as "dns_name" | "ip_address" | "email" | "uri" | "upn",
    value: value ?? text,
  };
}

interface Issued {
  readonly certificate: string;
  readonly certificateChain: string;
  readonly privateKey?: string | undefined;
  readonly serialNumber: string;
  readonly certificateId: string;
}

const FILES = ["cert.pem", "chain.pem", "key.pem"];

/** Before anything is issued: a certificate whose key finds no place is lost. */
async function requirePlace(folder: string | undefined): Promise<void> {
  if (folder === undefined) return;
  const isThere = (path: string) =>
    access(path).then(
      () => true,
      () => false,
    );
  const isFolder = await stat(folder).then(
    (found) => found.isDirectory(),
    () => false,
  );
  if (!isFolder) throw new UsageError(`--out: there is no folder ${folder}.`);
  await access(folder, constants.W_OK | constants.X_OK).catch(() => {
    throw new UsageError(`--out: nothing can be written to ${folder}.`);
  });
  for (const name of FILES)
    if (await isThere(join(folder, name)))
      throw new UsageError(`--out: ${join(folder, name)} exists, and nothing is written over it.`);
}

async function readRequest(file: string): Promise<string> {
  try {
    return await readFile(file, "utf8");
  } catch {
    throw new UsageError(`--csr: ${file} cannot be read.`);
  }
}

/** The key is for its owner alone, and never replaces a file that is there. */
async function writeFiles(issued: Issued, folder: string): Promise<void> {
  const { certificate, certificateChain, privateKey } = issued;
  // The key first: of the rest the server has a copy.
  if (privateKey) await writeFile(join(folder, "key.pem"), `${privateKey}\n`, { flag: "wx", mode: 0o600 });
  await writeFile(join(folder, "cert.pem"), `${certificate}\n`, { flag: "wx" });
  await writeFile(join(folder, "chain.pem"), `${certificateChain}\n`, { flag: "wx" });
}

async function deliver(issued: Issued, { arguments: given, answer, world }: Call): Promise<void> {
  const folder = given.text("out");
  const pem = [issued.certificate, issued.certificateChain, issued.privateKey]
    .filter((part) => part)
    .join("\n");
  if (folder === undefined) return answer(issued, () => pem);
  try {
    await writeFiles(issued, folder);
  } catch (error) {
    // It is issued, and nobody can have its key a second time: better shown than lost.
    world.print(given.has("json") ? JSON.stringify(issued, null, 2) : pem);
    throw new Failure(
      `The certificate ${issued.certificateId} was issued but not written to ${folder}: ${(error as Error).message}. It is printed instead.`,
    );
  }
  const { certificateId: id, serialNumber: serial } = issued;
  answer(issued, () => facts({ id, serial, written: folder }));
}

const issue: Command = {
  words: ["certs", "issue"],
  about: "Issue a certificate under a profile, with a key made by the server or for your own request",
  options: {
    profile,
    project,
    "common-name": { type: "string", value: "<name>", about: "The subject's common name" },
    san: {
      type: "string",
      value: "<name>",
      about: "Alternative name; the type is guessed or given as dns_name:…",
      multiple: true,
    },
    ttl: { type: "string", value: "<duration>", about: "90d, 12h, 30m" },
    "key-algorithm": { type: "string", value: "<name>", about: "EC_prime256v1, RSA_2048, Ed25519, …" },
    csr: { type: "string", value: "<file>", about: "Certify this request; the key stays with you" },
    "dry-run": { type: "boolean", about: "Say what would be found, and issue nothing" },
    out,
  },
  async run(call) {
    const { client, arguments: given, answer } = call;
    const [commonName, ttl, keyAlgorithm, file] = [
      given.text("common-name"),
      given.text("ttl"),
      given.text("key-algorithm"),
      given.text("csr"),
    ];
    const sans = given.texts("san");
    await requirePlace(given.text("out"));
    const body = {
      profileId: await profileId(client, given),
      dryRun: given.has("dry-run"),
      ...(file === undefined ? {} : { csr: await readRequest(file) }),
      attributes: {
        ...(commonName === undefined ? {} : { commonName }),
        ...(ttl === undefined ? {} : { ttl }),
        ...(keyAlgorithm === undefined ? {} : { keyAlgorithm }),
        ...(sans.length === 0 ? {} : { altNames: sans.map(altName) }),
      },
    };
    const reply = await client.call(issuance.issueCertificate, { body });
    const { dryRun, certificate } = reply;
    if (dryRun || certificate === null) {
      const rows = (dryRun?.findings ?? []).map((each) => [
        each.severity,
        each.field,
        each.code,
        each.message,
      ]);
      return answer(
        reply,
        () =>
          `${dryRun?.wouldIssue ? "It would be issued." : "It would be refused."}\n${table(["severity", "field", "rule", "message"], rows)}`,
      );
    }
    await deliver(certificate, call);
  },
};

const COLUMNS = ["id", "common name", "status", "ends", "serial"];

const list: Command = {
  words: ["certs", "list"],
  about: "Certificates of a profile, newest first",
  options: {
    profile,
    project,
    status: { type: "string", value: "<status>", about: "active, expired or revoked" },
    search: { type: "string", value: "<text>", about: "Part of a name or of the serial number" },
    limit: { type: "string", value: "<number>", about: "1 to 100; 20 if absent" },
    offset: { type: "string", value: "<number>", about: "How many to skip" },
  },
  async run({ client, arguments: given, answer }) {
    const query = Object.fromEntries(
      ["status", "search", "limit", "offset"].flatMap((name) =>
        given.text(name) === undefined ? [] : [[name, given.text(name) ?? ""]],
      ),
    );
    const params = { id: await profileId(client, given) };
    const { certificates } = await client.call(certificateInventory.listProfileCertificates, {
      params,
      query,
    });
    answer(certificates, () =>
      table(
        COLUMNS,
        certificates.map((each) => [each.id, each.cn, each.status, each.notAfter, each.serialNumber]),
      ),
    );
  },
};

const show: Command = {
  words: ["certs", "show"],
  about: "One certificate",
  operands: ["<id>"],
  options: {
    id: { type: "string", value: "<id>", about: "Its id" },
    pem: { type: "boolean", about: "Print it and its chain as PEM" },
  },
  async run({ client, arguments: given, answer }) {
    const params = { id: given.operandOr(0, "id") };
    if (given.has("pem")) {
      const body = await client.call(certificateInventory.getCertificateBody, { params });
      return answer(body, () => [body.certificate, body.certificateChain].filter((part) => part).join("\n"));
    }
    const { certificate } = await client.call(certificateInventory.getCertificate, { params });
    answer(certificate, () =>
      facts({
        id: certificate.id,
        "common name": certificate.commonName,
        "alternative names": certificate.altNames,
        status: certificate.status,
        serial: certificate.serialNumber,
        begins: certificate.notBefore,
        ends: certificate.notAfter,
        revoked: certificate.revokedAt,
        authority: certificate.caName,
        profile: certificate.profileName,
        key: certificate.keyAlgorithm,
        "renewed by": certificate.renewedByCertificateId,
        sha256: certificate.fingerprintSha256,
      }),
    );
  },
};

const renew: Command = {
  words: ["certs", "renew"],
  about: "Replace a certificate by one with the same names and lifetime",
  operands: ["<id>"],
  options: {
    id: { type: "string", value: "<id>", about: "Its id" },
    "same-key": { type: "boolean", about: "Keep the key that the server holds" },
    csr: { type: "string", value: "<file>", about: "Certify the key of this request" },
    out,
  },
  async run(call) {
    const { client, arguments: given } = call;
    const file = given.text("csr");
    await requirePlace(given.text("out"));
    const body = {
      ...(given.has("same-key") ? { renewalKeySource: "reuse" as const } : {}),
      ...(file === undefined ? {} : { csr: await readRequest(file) }),
    };
    const renewed = await client.call(issuance.renewCertificate, {
      params: { id: given.operandOr(0, "id") },
      body,
    });
    await deliver(renewed, call);
  },
};

const revoke: Command = {
  words: ["certs", "revoke"],
  about: "Revoke a certificate, for good or on hold",
  operands: ["<id>"],
  options: {
    id: { type: "string", value: "<id>", about: "Its id" },
    reason: {
      type: "string",
      value: "<reason>",
      about: "KEY_COMPROMISE, SUPERSEDED, CERTIFICATE_HOLD, …; UNSPECIFIED if absent",
    },
  },
  async run({ client, arguments: given, answer }) {
    const body = certificateRevocation.revokeCertificate.body.safeParse({
      revocationReason: given.text("reason")?.toUpperCase(),
    });
    if (!body.success)
      throw new UsageError("--reason is none of the reasons that a certificate can be revoked for.");
    const reply = await client.call(certificateRevocation.revokeCertificate, {
      params: { id: given.operandOr(0, "id") },
      body: body.data,
    });
    answer(reply, () => facts({ serial: reply.serialNumber, revoked: reply.revokedAt }));
  },
};

/** Page by page: each answer is small, however many there are. */
async function printObjects({ client, world }: Call, projectId: string, filters: Record<string, string>) {
  let cursor: string | null = null;
  do {
    const query: Record<string, string> = {
      ...filters,
      limit: "1000",
      ...(cursor === null ? {} : { cursor }),
    };
    const page: Reply<typeof certificateInventory.searchCertificates> = await client.call(
      certificateInventory.searchCertificates,
      { params: { projectId }, query },
    );
    for (const each of page.certificates) world.print(JSON.stringify(each));
    cursor = page.nextCursor;
  } while (cursor !== null);
}

const exportAll: Command = {
  words: ["certs", "export"],
  about: "Every certificate of a project, one per line: JSON objects or CSV",
  options: {
    project: { type: "string", value: "<project>", about: "Id or slug of the project" },
    status: { type: "string", value: "<status>", about: "active, expired or revoked" },
    search: { type: "string", value: "<text>", about: "Part of a name or of the serial number" },
    format: { type: "string", value: "<format>", about: "json (default) or csv" },
  },
  async run(call) {
    const { client, world, arguments: given } = call;
    const filters = Object.fromEntries(
      ["status", "search"].flatMap((name) =>
        given.text(name) === undefined ? [] : [[name, given.text(name) ?? ""]],
      ),
    );
    const projectId = given.required("project");
    const format = given.text("format") ?? "json";
    if (format === "json") return printObjects(call, projectId, filters);
    if (format !== "csv") throw new UsageError("--format must be json or csv.");
    if (given.has("json")) throw new UsageError("Give --json or --format csv, not both.");
    const asked = { params: { projectId }, query: { ...filters, format } };
    for await (const line of client.lines(certificateInventory.exportCertificates, asked))
      world.print(line.replace(/^[^]*?(?=\r?$)/, plain));
  },
};

export const certificateCommands: readonly Command[] = [issue, list, show, renew, revoke, exportAll];

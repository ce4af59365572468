import { readFile, writeFile } from "node:fs/promises";
import { licences as contract } from "@keyward/server";
import type { Reply } from "../client.ts";
import type { Arguments, Call, Command } from "../command.ts";
import { Failure, UsageError } from "../failure.ts";
import { signOffline, type OfflineTerms } from "../licence-signing.ts";
import { facts, table } from "../printing.ts";

const DEFAULT_PLAN = "enterprise";
const DEFAULT_DAYS = 365;

function holderOf(given: Arguments): string | null {
  const orgId = given.text("org");
  if ((orgId !== undefined) === given.has("instance"))
    throw new UsageError("Give either --org <id> or --instance.");
  return orgId?.toLowerCase() ?? null;
}

function featuresOf(given: Arguments): contract.LicenceFeature[] {
  const text = given.text("features");
  if (text === undefined) return [...contract.LICENCE_FEATURES];
  const names = text
    .split(",")
    .map((name) => name.trim())
    .filter((name) => name !== "");
  return names.map(
    (name) => contract.LICENCE_FEATURES.find((known) => known === name) ?? unknownFeature(name),
  );
}

function unknownFeature(name: string): never {
  throw new UsageError(`There is no feature ${name}. Known: ${contract.LICENCE_FEATURES.join(", ")}`);
}

function termsOf(given: Arguments): OfflineTerms {
  const days = given.wholeNumber("days") ?? DEFAULT_DAYS;
  if (days < 1 || days > 36_500) throw new UsageError("--days must be from 1 to 36500.");
  return {
    orgId: holderOf(given),
    plan: given.text("plan") ?? DEFAULT_PLAN,
    features: featuresOf(given),
    days,
  };
}

async function readText(path: string): Promise<string> {
  try {
    return await readFile(path, "utf8");
  } catch (error) {
    throw new Failure(`${path} cannot be read: ${(error as Error).message}`);
  }
}

/** Where the document goes when it is made: to a file, or to where the next program in the pipe reads it. */
async function deliver(
  { arguments: given, answer, world }: Call,
  document: string,
  licence: unknown,
): Promise<void> {
  const path = given.text("out");
  if (path === undefined) return answer(licence, () => document);
  try {
    await writeFile(path, `${document}\n`, { mode: 0o600 });
  } catch (error) {
    throw new Failure(`${path} cannot be written: ${(error as Error).message}`);
  }
  if (given.has("json")) answer(licence, () => document);
  else world.complain(`The licence was written to ${path}.`);
}

const issue: Command = {
  words: ["licence", "issue"],
  about: "Sign a licence for an organisation or for the whole instance",
  options: {
    org: { type: "string", value: "<id>", about: "For this organisation" },
    instance: { type: "boolean", about: "For every organisation of the instance" },
    plan: { type: "string", value: "<name>", about: `Its plan (${DEFAULT_PLAN})` },
    features: {
      type: "string",
      value: "<a,b>",
      about: `What it unlocks (all: ${contract.LICENCE_FEATURES.join(",")})`,
    },
    days: { type: "string", value: "<n>", about: `How long it holds, from now (${DEFAULT_DAYS})` },
    key: {
      type: "string",
      value: "<file>",
      about: "Sign here, with licence-signing-key.pem of the data folder",
    },
    out: { type: "string", value: "<file>", about: "Write the document to a file" },
    install: { type: "boolean", about: "With --key: install it on the server for your organisation" },
  },
  notes: "Without --key the server signs and installs it, which takes an instance admin's token.",
  async run(call) {
    const { client, arguments: given, world } = call;
    const terms = termsOf(given);
    const keyFile = given.text("key");
    if (keyFile === undefined) {
      const { orgId: organizationId, plan, days } = terms;
      const features = [...terms.features];
      const { licence } = await client.call(contract.issueLicence, {
        body: { organizationId, plan, features, days },
      });
      return deliver(call, licence.document, licence);
    }
    if (given.has("install") && given.text("out") !== undefined)
      throw new UsageError("Give either --out or --install.");
    const { document, payload } = signOffline(terms, await readText(keyFile), world.now());
    if (!given.has("install")) return deliver(call, document, { ...payload, document });
    const { licence } = await client.call(contract.installLicence, { body: { document } });
    call.answer(licence, () => shown(licence));
  },
};

type Standing = Reply<typeof contract.getLicence>["licence"];

const shown = (licence: Standing): string =>
  facts({
    status: licence.status,
    plan: licence.plan,
    id: licence.id,
    for: licence.scope,
    features: licence.features.join(", ") || "-",
    "active now": licence.activeFeatures.join(", ") || "-",
    from: licence.notBefore,
    until: licence.notAfter,
  });

async function showFile({ arguments: given, answer }: Call, path: string): Promise<void> {
  const parsed = contract.parseLicence((await readText(path)).trim());
  if (!parsed) throw new Failure(`${path} is not a Keyward licence document, or it was altered.`);
  if (given.has("all")) throw new UsageError("Give either --file or --all.");
  const { id, orgId, plan, features, notBefore, notAfter, issuedAt } = parsed.payload;
  const about = {
    plan,
    id,
    for: orgId ?? "the whole instance",
    features: features.join(", ") || "-",
    from: notBefore,
    until: notAfter,
    issued: issuedAt,
  };
  answer(parsed.payload, () => `${facts(about)}\nIts signature is checked where it is installed, not here.`);
}

const show: Command = {
  words: ["licence", "show"],
  about: "The licence of your organisation, a document in a file, or all of the instance",
  options: {
    file: { type: "string", value: "<file>", about: "Read a licence document without a server" },
    all: { type: "boolean", about: "Every licence of the instance (instance admin)" },
  },
  async run(call) {
    const { client, arguments: given, answer } = call;
    const path = given.text("file");
    if (path !== undefined) return showFile(call, path);
    if (!given.has("all")) {
      const { licence } = await client.call(contract.getLicence);
      return answer(licence, () => shown(licence));
    }
    const { licences, totalCount } = await client.call(contract.listLicences, { query: { limit: "1000" } });
    const rows = licences.map((each) => [
      each.id,
      each.status,
      each.plan,
      each.organizationId ?? "(instance)",
      each.notAfter,
    ]);
    answer(licences, () => table(["id", "status", "plan", "organisation", "until"], rows));
    if (licences.length < totalCount) call.world.complain(`The newest ${licences.length} of ${totalCount}.`);
  },
};

const revoke: Command = {
  words: ["licence", "revoke"],
  about: "End a licence now; its document cannot be installed again",
  operands: ["<id>"],
  options: {
    id: { type: "string", value: "<id>", about: "This licence (instance admin)" },
    own: { type: "boolean", about: "All licences of your own organisation" },
  },
  async run({ client, arguments: given, answer }) {
    if (given.has("own")) {
      const { licence } = await client.call(contract.removeLicence);
      return answer(licence, () => shown(licence));
    }
    const { licence } = await client.call(contract.revokeLicence, {
      params: { licenceId: given.operandOr(0, "id") },
    });
    answer(licence, () => `Revoked ${licence.id} at ${licence.revokedAt ?? "an unknown moment"}.`);
  },
};

export const licenceCommands: readonly Command[] = [issue, show, revoke];

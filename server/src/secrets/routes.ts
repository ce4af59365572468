import type { MemberActor } from "../platform/actor.ts";
import { Raw, serve, type Route, inProject, inProjectAnyOf } from "../platform/http/index.ts";
import type { ReplyControl } from "../platform/http/serve.ts";
import { orgOf } from "../permissions/index.ts";
import * as contract from "./contract.ts";
import * as v3 from "./contract.v3.ts";
import { toView } from "./model.ts";
import { lengthOf, streamOf, writeLargeList, writeList } from "./service/large-answers.ts";
import type { NotModified, OneSecret, SameAnswer, SecretList, SecretReads } from "./service/read-secrets.ts";
import type { SecretMoves } from "./service/move-secrets.ts";
import type { SecretWrites } from "./service/write-secrets.ts";

interface SecretServices {
  readonly reads: SecretReads;
  readonly writes: SecretWrites;
  readonly moves: SecretMoves;
}

function notModified(reply: ReplyControl, { etag }: NotModified): Raw {
  reply.header("etag", etag);
  reply.status(304);
  return new Raw("");
}

interface WrittenAnswer {
  readonly etag: string;
  readonly isNotModified: false;
  readonly body: Buffer | Buffer[];
}

/** Secrets per write request; each may have a hundred tags and as much metadata. */
const AT_ONCE = 200;

/** Serialised here and not by the door, so that the same bytes can be sent again. */
async function written(list: SecretList): Promise<WrittenAnswer> {
  const { etag, isNotModified } = list;
  if (list.isLarge) return { etag, isNotModified, body: await writeLargeList(list) };
  const isLong =
    list.imports.reduce((sum, block) => sum + block.secrets.length, list.secrets.length) > AT_ONCE;
  const body = isLong ? Buffer.concat(await writeLargeList(list)) : writeList(list);
  list.keep(body);
  return { etag, isNotModified, body };
}

function listed(
  { actor, reply }: { readonly actor: MemberActor; readonly reply: ReplyControl },
  list: WrittenAnswer | SameAnswer | NotModified,
) {
  if (list.isNotModified) return notModified(reply, list);
  reply.header("etag", list.etag);
  reply.header("content-type", "application/json");
  if (!Array.isArray(list.body)) return new Raw(list.body);
  reply.header("content-length", String(lengthOf(list.body)));
  return new Raw(streamOf(orgOf(actor), list.body));
}

function one(reply: ReplyControl, found: OneSecret | SameAnswer | NotModified) {
  if (found.isNotModified) return notModified(reply, found);
  reply.header("etag", found.etag);
  reply.header("content-type", "application/json");
  if (found.body !== undefined) return new Raw(found.body);
  const body = Buffer.from(JSON.stringify({ secret: toView(found.secret) }));
  found.keep(body);
  return new Raw(body);
}

/** An upsert creates what does not exist. */
const PUT_SECRETS = inProjectAnyOf(
  { action: "edit", subject: "secrets" },
  { action: "create", subject: "secrets" },
);

export const secretRoutes = (services: SecretServices): Route[] => [
  ...readRoutes(services),
  ...writeRoutes(services),
  ...olderRoutes(services),
];

const readRoutes = ({ reads }: SecretServices): Route[] => [
  serve(contract.listSecrets, async ({ actor, query, headers, reply }) =>
    listed({ actor, reply }, await reads.list(actor, query, headers["if-none-match"], written)),
  ),
  serve(contract.getSecret, async ({ actor, params, query, headers, reply }) =>
    one(reply, await reads.get(actor, params.secretName, query, headers["if-none-match"])),
  ),
  serve(contract.getSecretById, async ({ actor, params, query }) => ({
    secret: toView(await reads.getById(actor, params.secretId, query)),
  })),
];

const writeRoutes = ({ writes, moves: moves }: SecretServices): Route[] => [
  serve(
    contract.createSecret,
    async ({ actor, params, body }) => ({
      secret: toView(await writes.create(actor, params.secretName, body)),
    }),
    inProject("create", "secrets"),
  ),
  serve(
    contract.updateSecret,
    async ({ actor, params, body }) => ({
      secret: toView(await writes.update(actor, params.secretName, body)),
    }),
    inProject("edit", "secrets"),
  ),
  serve(
    contract.deleteSecret,
    async ({ actor, params, body }) => ({
      secret: toView(await writes.delete(actor, params.secretName, body)),
    }),
    inProject("delete", "secrets"),
  ),
  serve(
    contract.createSecrets,
    async ({ actor, body }) => ({
      secrets: (await writes.createMany(actor, body)).map(toView),
    }),
    inProject("create", "secrets"),
  ),
  serve(
    contract.updateSecrets,
    async ({ actor, body }) => ({
      secrets: (await writes.updateMany(actor, body)).map(toView),
    }),
    PUT_SECRETS,
  ),
  serve(
    contract.deleteSecrets,
    async ({ actor, body }) => ({
      secrets: (await writes.deleteMany(actor, body)).map(toView),
    }),
    inProject("delete", "secrets"),
  ),
  serve(contract.moveSecrets, ({ actor, body }) => moves.move(actor, body), inProject("create", "secrets")),
  serve(contract.copySecrets, ({ actor, body }) => moves.copy(actor, body), inProject("create", "secrets")),
];

const olderRoutes = ({ reads, writes, moves: moves }: SecretServices): Route[] => [
  serve(v3.listRawSecrets, async ({ actor, query, headers, reply }) =>
    listed({ actor, reply }, await reads.list(actor, query, headers["if-none-match"], written)),
  ),
  serve(v3.getRawSecret, async ({ actor, params, query, headers, reply }) =>
    one(reply, await reads.get(actor, params.secretName, query, headers["if-none-match"])),
  ),
  serve(
    v3.createRawSecret,
    async ({ actor, params, body }) => ({
      secret: toView(await writes.create(actor, params.secretName, body)),
    }),
    inProject("create", "secrets"),
  ),
  serve(
    v3.updateRawSecret,
    async ({ actor, params, body }) => ({
      secret: toView(await writes.update(actor, params.secretName, body)),
    }),
    inProject("edit", "secrets"),
  ),
  serve(
    v3.deleteRawSecret,
    async ({ actor, params, body }) => ({
      secret: toView(await writes.delete(actor, params.secretName, body)),
    }),
    inProject("delete", "secrets"),
  ),
  serve(
    v3.createRawSecrets,
    async ({ actor, body }) => ({
      secrets: (await writes.createMany(actor, body)).map(toView),
    }),
    inProject("create", "secrets"),
  ),
  serve(
    v3.updateRawSecrets,
    async ({ actor, body }) => ({
      secrets: (await writes.updateMany(actor, body)).map(toView),
    }),
    PUT_SECRETS,
  ),
  serve(
    v3.deleteRawSecrets,
    async ({ actor, body }) => ({
      secrets: (await writes.deleteMany(actor, body)).map(toView),
    }),
    inProject("delete", "secrets"),
  ),
  serve(v3.moveRawSecrets, ({ actor, body }) => moves.move(actor, body), inProject("create", "secrets")),
];

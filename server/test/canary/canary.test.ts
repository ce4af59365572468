/**
 * S-52, S-46, E-04: known marks in every place where a secret can be typed, and every secret the server itself hands
 * out; then a walk through the whole published interface, good requests and bad ones; then a search for each of them
 * in everything that a secret must never reach. Names that callers gave (keys, paths, titles) are no secrets.
 */
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { after, before, describe, it } from "node:test";
import { openReceiver, type Receiver } from "../alert-receiver.ts";
import { aProfile, aRoot } from "../certificates.ts";
import { openStream, until, type StreamReader } from "../event-streams.ts";
import { clientOf, type Answer } from "../harness.ts";
import { createTestDatabase, stopOwnPostgres, withClient, type TestDatabase } from "../postgres.ts";
import { startServer, type ServerProcess } from "../process.ts";

/** A secret, and where it came from. */
const canaries = new Map<string, string>();
let marks = 0;
function mark(where: string): string {
  const text = `cAnArY${(marks += 1)}x${randomBytes(9).toString("hex")}`;
  canaries.set(text, where);
  return text;
}

/** The forms in which bytes hide in text. Base64 has three, by where in a group of three bytes the mark begins. */
function disguises(secret: string): string[] {
  const bytes = Buffer.from(secret);
  const inBase64 = [0, 1, 2].map((shift) =>
    Buffer.concat([Buffer.alloc(shift), bytes.subarray(0, bytes.length - ((bytes.length + shift) % 3))])
      .toString("base64")
      .slice(shift === 0 ? 0 : 4),
  );
  // What is handed out as base64 (keys, tokens) is bytes, and a table would show those in hexadecimal.
  const meant = Buffer.from(secret, "base64");
  const asBytes = meant.length >= 16 ? [meant.subarray(0, 16).toString("hex")] : [];
  return [secret, bytes.toString("hex"), ...asBytes, ...inBase64.filter((text) => text.length >= 12)];
}

const GIVEN_OUT =
  /^(accessToken|token|inviteToken|clientSecret|privateKey|password|secret|keystore|signingSecret)$/;
/** What has to be among them: otherwise the walk did not get there, and nothing was shown. */
const KINDS = ["accessToken", "token", "inviteToken", "clientSecret", "privateKey", "key of a calendar"];
/** Secrets that the server made and answered. */
function harvest(value: unknown, where: string): void {
  if (typeof value !== "object" || value === null) return;
  for (const [key, inner] of Object.entries(value)) {
    if (typeof inner !== "string") harvest(inner, where);
    else if (key === "url" && inner.includes("?key="))
      canaries.set(new URL(inner).searchParams.get("key") ?? "", `key of a calendar of ${where}`);
    else if (GIVEN_OUT.test(key) && inner.length >= 16 && !/^https?:/.test(inner)) {
      // Of a PEM or a JWT the middle is enough, and only the middle is secret.
      const lines = inner.split("\n");
      const body = inner.startsWith("-----BEGIN") ? (lines[2] ?? inner) : (inner.split(".").at(-1) ?? inner);
      if (body.length >= 16 && !inner.includes("BEGIN CERTIFICATE")) canaries.set(body, `${key} of ${where}`);
    }
  }
}

interface Operation {
  readonly method: string;
  readonly path: string;
  readonly parameters: readonly { readonly name: string; readonly in: string; readonly required: boolean }[];
  readonly body: unknown;
}

const SECRET_FIELD =
  /^(secretValue|secretComment|value|password|newPassword|currentPassword|integrationKey|signingSecret|secret|secretReminderNote)$/;
/** An example in which everything that may be secret is marked. */
function marked(value: unknown, where: string, field = ""): unknown {
  if (Array.isArray(value)) return value.map((item) => marked(item, where, field));
  if (typeof value === "object" && value !== null)
    return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, marked(inner, where, key)]));
  // The value of a filter or of an identity's metadata is a name, not a secret.
  return typeof value === "string" && SECRET_FIELD.test(field) && !/\/alerts|\/identities/.test(where)
    ? mark(`${field} of ${where}`)
    : value;
}

describe("no secret is found where none may be", () => {
  let database: TestDatabase;
  let server: ServerProcess;
  const errors: string[] = [];
  const refusals: string[] = [];
  const streams: StreamReader[] = [];
  let receiver: Receiver;
  const statuses: Record<string, number> = {};
  let token = "";
  let projectId = "";

  const note = (answer: Answer, where: string): Answer => {
    statuses[answer.status] = (statuses[answer.status] ?? 0) + 1;
    if (answer.status === 200) harvest(answer.body, where);
    else refusals.push(`${where}: ${JSON.stringify(answer.body)} ${JSON.stringify([...answer.headers])}`);
    return answer;
  };
  const send = async (
    method: string,
    path: string,
    body?: unknown,
    as: string | undefined = token,
  ): Promise<Answer> =>
    note(
      await clientOf(server.base, as).call(method, path, body === undefined ? {} : { body }),
      `${method} ${path}`,
    );

  before(async () => {
    database = await createTestDatabase();
    receiver = await openReceiver();
    const { host, port, user } = database.server;
    const rootKey = randomBytes(32).toString("base64");
    canaries.set(rootKey, "the root key");
    server = await startServer({
      DATABASE_URL: `postgres://${user}@localhost:${port}/${database.connection.database}?host=${encodeURIComponent(host)}&sslmode=disable`,
      KEYWARD_ROOT_KEY: rootKey,
      KEYWARD_LOG_LEVEL: "debug",
      KEYWARD_METRICS_TOKEN: mark("the metrics token"),
      KEYWARD_ALLOW_PRIVATE_TARGETS: "127.0.0.0/8",
    });
    server.child.stderr?.on("data", (chunk: Buffer) => errors.push(chunk.toString()));
  });
  after(async () => {
    for (const stream of streams) stream.close();
    await server.stop();
    await receiver.close();
    await database.drop();
    await stopOwnPostgres();
  });

  it("marks are used through a walk of the whole interface", async () => {
    const password = mark("the first password");
    const booted = await send(
      "POST",
      "/api/v1/admin/bootstrap",
      { email: "owner@example.com", password, organization: "Canary" },
      "",
    );
    token = booted.body.identity.credentials.token as string;
    projectId = (await send("POST", "/api/v1/projects", { projectName: "Canary" })).body.project.id as string;
    const pki = (await send("POST", "/api/v1/projects", { projectName: "Pki", type: "cert-manager" })).body
      .project.id as string;
    streams.push(await openStream(server.base, token, { projectId }));
    await send("POST", "/api/v3/auth/login", { email: "owner@example.com", password }, "");
    await send(
      "POST",
      "/api/v3/auth/login",
      { email: "owner@example.com", password: mark("a wrong password") },
      "",
    );

    const at = { projectId, environment: "dev", secretPath: "/" };
    for (const name of ["PLAIN", "SECOND"]) {
      await send("POST", `/api/v4/secrets/${name}`, {
        ...at,
        secretValue: mark("a value"),
        secretComment: mark("a comment"),
        secretMetadata: [{ key: "k", value: mark("encrypted metadata"), isEncrypted: true }],
      });
      await send("PATCH", `/api/v4/secrets/${name}`, { ...at, secretValue: mark("a changed value") });
    }
    // Things that go wrong with a secret in hand.
    await send("POST", "/api/v4/secrets/PLAIN", {
      ...at,
      secretValue: mark("a value of a name that is taken"),
    });
    await send("POST", "/api/v4/secrets/a%20b", { ...at, secretValue: mark("a value of a bad name") });
    await send("POST", "/api/v4/secrets/X", {
      ...at,
      secretValue: { nested: mark("a value of the wrong type") },
    });
    await send("POST", "/api/v4/secrets/X", {
      ...at,
      environment: "nowhere",
      secretValue: mark("a value for nowhere"),
    });
    await send(
      "POST",
      "/api/v4/secrets/X",
      { ...at, secretValue: mark("a value without rights") },
      "not.a.token",
    );
    await send("PATCH", "/api/v4/secrets/batch", {
      ...at,
      secrets: [{ secretKey: "NOBODY", secretValue: mark("a value of an unknown key") }],
    });
    await send(
      "POST",
      "/api/v1/auth/universal-auth/login",
      { clientId: randomBytes(16).toString("hex"), clientSecret: mark("a wrong client secret") },
      "",
    );
    await send(
      "POST",
      "/api/v1/admin/bootstrap",
      { email: "x", password: mark("a password for nothing"), organization: "" },
      "",
    );
    for (const raw of [
      `{"secretValue":"${mark("a value in broken JSON")}`,
      `${mark("a value that is no JSON")}`,
    ])
      note(
        await clientOf(server.base, token).call("POST", "/api/v4/secrets/X", { rawBody: raw }),
        "broken JSON",
      );
    await send(
      "GET",
      `/api/v4/secrets/PLAIN?projectId=${projectId}&environment=dev`,
      undefined,
      mark("a token that is none"),
    );

    await send("POST", "/api/v1/cert-manager/alerts", {
      projectId: pki,
      name: "hooks",
      eventType: "issuance",
      filters: [],
      channels: [
        {
          channelType: "webhook",
          config: {
            url: `${receiver.url}/${mark("a webhook address")}`,
            signingSecret: mark("a signing secret"),
          },
        },
        {
          channelType: "slack",
          config: { webhookUrl: `https://hooks.slack.com/services/${mark("a slack address")}` },
        },
        { channelType: "pagerduty", config: { integrationKey: randomBytes(16).toString("hex") } },
      ],
    });
    const client = clientOf(server.base, token);
    const profile = await aProfile(client, pki, (await aRoot(client, pki)).id);
    const issued = await send("POST", "/api/v1/cert-manager/certificates", {
      profileId: profile.id,
      attributes: { commonName: "canary.example.com", ttl: "30d" },
    });
    await send(
      "POST",
      `/api/v1/cert-manager/certificates/${issued.body.certificate.certificateId}/keystore`,
      {
        format: "pkcs12",
        password: mark("the password of a keystore"),
      },
    );
    const made = await send("POST", "/api/v1/cert-manager/alerts/calendars", {
      projectId: pki,
      name: "calendar",
    });
    const { pathname, search } = new URL(made.body.calendar.url);
    for (const key of [search, `${search}x`, `?key=${mark("a wrong key of a calendar")}`])
      note(await clientOf(server.base).get(`${pathname}${key}`), "a calendar");
    const { identity } = (await send("POST", "/api/v1/identities", { name: "canary" })).body;
    const universal = `/api/v1/auth/universal-auth/identities/${identity.id}`;
    const { clientId } = (await send("POST", universal, {})).body.identityUniversalAuth;
    const { clientSecret } = (await send("POST", `${universal}/client-secrets`, {})).body;
    await send("POST", "/api/v1/auth/universal-auth/login", { clientId, clientSecret }, "");
    await walk(pki);
    await until(() => receiver.received.length > 0, "a webhook");
    await streams[0]?.hears(4);
    assert.ok((statuses[200] ?? 0) > 60, `too little of the interface answered: ${JSON.stringify(statuses)}`);
    assert.equal(
      statuses[500],
      undefined,
      refusals.filter((line) => line.includes('"statusCode":500')).join("\n"),
    );
    assert.ok(canaries.size > 40, `only ${canaries.size} secrets were used`);
    const kinds = [...canaries.values()];
    assert.deepEqual(
      KINDS.filter((kind) => !kinds.some((where) => where.startsWith(`${kind} of`))),
      [],
      "secrets that the walk was never given",
    );
  });

  /** Every operation of the published document: what makes first, what looks and changes next, what deletes last. */
  async function walk(pki: string): Promise<void> {
    const { paths } = (await clientOf(server.base).get("/api/docs/json")).body as {
      paths: Record<string, Record<string, never>>;
    };
    const operations: Operation[] = Object.entries(paths).flatMap(([path, methods]) =>
      Object.entries(
        methods as Record<
          string,
          {
            parameters?: Operation["parameters"];
            requestBody?: { content: Record<string, { example?: unknown }> };
          }
        >,
      ).map(([method, { parameters = [], requestBody }]) => ({
        method: method.toUpperCase(),
        path,
        parameters,
        body: requestBody?.content["application/json"]?.example ?? {},
      })),
    );
    const known = new Map<string, string>([
      ["environment", "dev"],
      ["secretName", "PLAIN"],
      ["secretPath", "/"],
      ["path", "/"],
      ["slug", "dev"],
    ]);
    const learn = (value: unknown, parent: string): void => {
      if (Array.isArray(value)) return learn(value[0], parent.replace(/s$/, ""));
      if (typeof value !== "object" || value === null) return;
      for (const [key, inner] of Object.entries(value)) {
        if (key === "id" && typeof inner === "string")
          for (const name of [`${parent}Id`, "id"]) known.set(name, inner);
        else if (typeof inner === "string" && /Id$|Slug$/.test(key)) known.set(key, inner);
        else learn(inner, key);
      }
    };
    const fill = (value: unknown, project: string, field = ""): unknown => {
      if (Array.isArray(value)) return value.map((item) => fill(item, project, field.replace(/s$/, "")));
      if (typeof value === "object" && value !== null)
        return Object.fromEntries(
          Object.entries(value).map(([key, inner]) => [key, fill(inner, project, key)]),
        );
      if (/^(projectId|workspaceId)$/.test(field)) return project;
      return typeof value === "string" && /Id$/.test(field) ? (known.get(field) ?? value) : value;
    };
    const rank = ({ method, path }: Operation): number =>
      method === "DELETE" || /logout|revoke|password|select-organization/.test(path)
        ? 2
        : method === "POST"
          ? 0
          : 1;
    for (const operation of [...operations].sort((a, b) => rank(a) - rank(b))) {
      if (/subscribe|\/admin\/bootstrap/.test(operation.path)) continue;
      const project = /cert-manager|pki/.test(operation.path) ? pki : projectId;
      const path = operation.path.replace(/\{(\w+)\}/g, (_, name: string) =>
        encodeURIComponent(
          /^(projectId|workspaceId)$/.test(name)
            ? project
            : (known.get(name) ?? randomBytes(8).toString("hex")),
        ),
      );
      const query = operation.parameters
        .filter((one) => one.in === "query" && (one.required || one.name === "projectId"))
        .map(
          ({ name }) =>
            `${name}=${encodeURIComponent(name === "projectId" ? project : (known.get(name) ?? "dev"))}`,
        );
      const body =
        operation.method === "GET"
          ? undefined
          : marked(fill(operation.body, project), `${operation.method} ${operation.path}`);
      const isSuicide =
        operation.method === "DELETE" &&
        /\/identities\/|\/organization|\/projects\/[^/]+$/.test(path) &&
        !/licence/.test(path);
      if (isSuicide) continue;
      const answer = await send(
        operation.method,
        query.length > 0 ? `${path}?${query.join("&")}` : path,
        body,
      );
      if (answer.status === 200) learn(answer.body, "");
    }
  }

  function searchIn(place: string, text: string): string[] {
    const found: string[] = [];
    for (const [secret, where] of canaries)
      for (const form of disguises(secret))
        if (text.includes(form))
          found.push(
            `${where} is in ${place}: …${text.slice(Math.max(0, text.indexOf(form) - 80), text.indexOf(form) + 20)}…`,
          );
    return found;
  }

  it("not in the log, at its most talkative", () => {
    assert.ok(server.lines.length > 50, "the log was not at debug");
    assert.deepEqual(searchIn("the log", server.lines.join("\n") + errors.join("\n")), []);
  });

  it("not in the answer to a request that was refused", () => {
    assert.ok(refusals.length > 10);
    assert.deepEqual(
      refusals.flatMap((line) => searchIn("a refusal", line)),
      [],
    );
  });

  it("not in events", () =>
    assert.deepEqual(
      streams.flatMap(({ raw }) => searchIn("an event", raw)),
      [],
    ));

  it("not in webhooks", () => {
    assert.ok(receiver.received.length > 0, "no webhook came");
    assert.deepEqual(
      receiver.received.flatMap(({ body, headers }) => searchIn("a webhook", body + JSON.stringify(headers))),
      [],
    );
  });

  it("not in metrics or the status", async () => {
    const { body } = await clientOf(server.base).get("/metrics", {
      token: [...canaries].find(([, where]) => where === "the metrics token")?.[0],
    });
    assert.match(body, /keyward_http_requests_total/);
    assert.deepEqual(searchIn("the metrics", body), []);
    assert.deepEqual(
      searchIn("the status", JSON.stringify((await clientOf(server.base).get("/api/status")).body)),
      [],
    );
  });

  it("not in any table, the audit log among them, except encrypted or hashed", async () => {
    const { database: name } = database.connection;
    const found = await withClient(database.server, name, async (client) => {
      const tables = await client.query<{ name: string }>(
        "SELECT quote_ident(tablename) AS name FROM pg_tables WHERE schemaname = 'public'",
      );
      const leaks: string[] = [];
      let rows = 0;
      for (const { name: table } of tables.rows) {
        const dump = await client.query<{ row: string }>(`SELECT t::text AS row FROM ${table} t`);
        rows += dump.rows.length;
        leaks.push(...searchIn(`the table ${table}`, dump.rows.map(({ row }) => row).join("\n")));
      }
      assert.ok(rows > 200, `the tables hold only ${rows} rows`);
      return leaks;
    });
    assert.deepEqual(found, []);
  });

  it("the search itself finds a mark in every disguise", () => {
    const secret = mark("a test of the search");
    for (const text of [
      secret,
      Buffer.from(`ab${secret}cd`).toString("hex"),
      ...["", "a", "ab"].map((before) => Buffer.from(`${before}${secret}!`).toString("base64")),
    ])
      assert.notDeepEqual(searchIn("here", text), [], text);
    const key = randomBytes(48);
    canaries.set(key.toString("base64"), "a key");
    assert.notDeepEqual(
      searchIn("here", `\\x00${key.toString("hex")}`),
      [],
      "the bytes of a key in a column",
    );
    canaries.delete(key.toString("base64"));
    canaries.delete(secret);
  });
});

// The limit: a bare node:http server that does the unavoidable database statements of a request over pg, on the same
// database, and answers the same bytes. No parsing of the body beyond JSON, no permission, no validation, no routing.
// What Keyward reaches of its rate is what everything else costs.
import {
  createCipheriv,
  createDecipheriv,
  createPublicKey,
  generateKeyPairSync,
  randomUUID,
  sign,
  verify,
} from "node:crypto";
import http from "node:http";
import pg from "pg";

const context = JSON.parse(process.env.LIMIT_CONTEXT);
const pool = new pg.Pool({ ...context.connection, max: 10, pipeline: true });
const audit = {
  name: "audit",
  text: "INSERT INTO audit_log (id, at, org_id, project_id, event, actor_type, actor_id, actor_name, ip, user_agent, request_id, metadata) VALUES ($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11,$12)",
};
const LOGIN_LOOK = `SELECT u.id, i.org_id, o.slug, i.name, l.locked_until, c.id AS secret_id, c.uses, c.uses_limit, c.expires_at, c.is_revoked
  FROM universal_auths u JOIN identities i ON i.id = u.identity_id JOIN organizations o ON o.id = i.org_id
  LEFT JOIN client_secrets c ON c.universal_auth_id = u.id AND c.digest = $2
  LEFT JOIN lockouts l ON l.subject_id = i.id AND l.method = 'universal-auth' AND l.address = $3 WHERE u.client_id = $1`;
const INSERT_TOKEN = `INSERT INTO access_tokens (id, identity_id, auth_method, name, client_secret_id, ttl, max_ttl, period, uses_limit, expires_at, created_at, updated_at)
  VALUES ($1,$2,'universal-auth',NULL,$3,2592000,2592000,0,0,$4,$5,$5)`;
const INSERT_IDENTITY = `WITH identity AS (
    INSERT INTO identities (id, org_id, project_id, name, metadata, created_at, updated_at) VALUES ($1,$2,$3,$4,'[]',$5,$5)
  ), places AS (
    INSERT INTO memberships (id, org_id, project_id, identity_id, created_at, updated_at) VALUES ($6,$2,NULL,$1,$5,$5), ($7,$2,$3,$1,$5,$5)
  ) INSERT INTO membership_roles (id, membership_id, role) VALUES ($8,$6,'no-access'), ($9,$7,'no-access')`;

async function write(statements) {
  const client = await pool.connect();
  try {
    await Promise.all([
      client.query("BEGIN"),
      ...statements.map((statement) => client.query(statement)),
      client.query("COMMIT"),
    ]);
  } finally {
    client.release();
  }
}

const auditRow = (event, at) => ({
  ...audit,
  values: [
    randomUUID(),
    at,
    context.orgId,
    null,
    event,
    "identity",
    context.identityId,
    "bench",
    "127.0.0.1",
    "",
    "req",
    "{}",
  ],
});

const work = {
  async login() {
    await pool.query({
      name: "look",
      text: LOGIN_LOOK,
      values: [context.clientId, Buffer.alloc(32), "127.0.0.1"],
    });
    const at = new Date();
    await write([
      {
        name: "token",
        text: INSERT_TOKEN,
        values: [randomUUID(), context.identityId, null, new Date(at.getTime() + 2_592_000_000), at],
      },
      auditRow("login", at),
    ]);
  },
  async identity({ name }) {
    const at = new Date();
    const values = [
      randomUUID(),
      context.orgId,
      context.projectId,
      name,
      at,
      randomUUID(),
      randomUUID(),
      randomUUID(),
      randomUUID(),
    ];
    await write([{ name: "identity", text: INSERT_IDENTITY, values }, auditRow("create-identity", at)]);
  },
  async nothing() {},
};

/**
 * A limit as data: the statements of a request, in a transaction if it changes something. "$uuid", "$now", "$n", "$pick"
 * and "$sealed" stand for a new id, the time, the request's number, one of the context's ids in turn and as many bytes
 * as the ciphertext of a short value.
 */
const sealed = Buffer.alloc(64, 1);
const picks = context.picks ?? [];
let turn = 0;
const special = {
  $uuid: () => randomUUID(),
  $now: () => new Date(),
  $n: (body) => `N${body.n}`,
  $sealed: () => sealed,
  $pick: () => picks[(turn += 1) % picks.length],
};
const valueOf = (value, body) => (typeof value === "string" && special[value] ? special[value](body) : value);
function program({ reads = [], writes = [], decrypts = 0, verifies = 0, signs = 0, keys = 0, event }) {
  const prepared = (statements, kind) =>
    statements.map(([text, values], index) => ({ name: `${event}-${kind}-${index}`, text, values }));
  const [looks, changes] = [prepared(reads, "read"), prepared(writes, "write")];
  const filled = (statement, body, ids) => ({
    ...statement,
    values: statement.values.map((value) => (value === "$same" ? ids : valueOf(value, body))),
  });
  return async (body) => {
    const same = randomUUID();
    for (const look of looks) await pool.query(filled(look, body, same));
    for (let n = 0; n < decrypts; n += 1) decryptOne();
    for (let n = 0; n < keys; n += 1) newPair();
    for (let n = 0; n < verifies; n += 1) verifyOne();
    for (let n = 0; n < signs; n += 1) sign("sha256", toBeSigned, signer);
    if (changes.length === 0) return;
    await write([...changes.map((change) => filled(change, body, same)), auditRow(event, new Date())]);
  };
}
const newPair = () => generateKeyPairSync("ec", { namedCurve: "prime256v1" });
const signer = newPair().privateKey;
const toBeSigned = Buffer.alloc(500, 4);
/** The key of a request is a new one each time: reading it belongs to believing it. */
const holder = createPublicKey(signer).export({ format: "der", type: "spki" });
const proof = sign("sha256", toBeSigned, signer);
const verifyOne = () =>
  verify("sha256", toBeSigned, createPublicKey({ key: holder, format: "der", type: "spki" }), proof);
const key = Buffer.alloc(32, 2);
const iv = Buffer.alloc(12, 3);
const [ciphertext, tag] = (() => {
  const cipher = createCipheriv("aes-256-gcm", key, iv);
  return [
    Buffer.concat([cipher.update("a value of a usual size, forty letters"), cipher.final()]),
    cipher.getAuthTag(),
  ];
})();
function decryptOne() {
  const decipher = createDecipheriv("aes-256-gcm", key, iv);
  decipher.setAuthTag(tag);
  return decipher.update(ciphertext, undefined, "utf8") + decipher.final("utf8");
}
for (const [name, described] of Object.entries(context.programs ?? {}))
  work[name] = program({ ...described, event: name });

const server = http.createServer((request, response) => {
  const name = request.url.slice(1);
  const chunks = [];
  request.on("data", (chunk) => chunks.push(chunk));
  request.on("end", async () => {
    try {
      const body = chunks.length > 0 ? JSON.parse(Buffer.concat(chunks).toString()) : {};
      await work[name](body);
      const answer = Buffer.from(context.answers[name]);
      response.writeHead(200, { "content-type": "application/json", "content-length": answer.length });
      response.end(answer);
    } catch (error) {
      response.writeHead(500, { "content-length": 0 });
      response.end();
      console.error(error.message);
    }
  });
});
server.listen(0, "127.0.0.1", () => console.log(`http://127.0.0.1:${server.address().port}`));
process.on("SIGTERM", async () => {
  server.close();
  server.closeAllConnections();
  await pool.end();
});

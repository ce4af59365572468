import assert from "node:assert/strict";
import { generateKeyPairSync } from "node:crypto";
import { mkdtemp, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { createPrivateKey } from "node:crypto";
import { systemActor } from "../platform/actor.ts";
import { steppedClock } from "../platform/clock.ts";
import { openKeyring } from "../platform/crypto/index.ts";
import { openDatabase, type Database } from "../platform/db/index.ts";
import { newId } from "../platform/ids.ts";
import { silentLog, type Log } from "../platform/log.ts";
import { createTail, type Tail } from "../platform/outbox/index.ts";
import { createPermissions } from "../permissions/index.ts";
import { createTestDatabase, stopOwnPostgres, withClient, type TestDatabase } from "../../test/postgres.ts";
import { parseLicence } from "./contract.ts";
import { isSignedByOneOf, publicDerOf, publicKeyFromDer, signLicence } from "./document/model.ts";
import { createLicences, KEY_FILE, licenceChanged, type Licences } from "./index.ts";

const ROOT_KEY = Buffer.alloc(32, 1);
const DAY_MS = 86_400_000;
const SYSTEM = systemActor("test");

interface Node {
  readonly database: Database;
  readonly tail: Tail;
  readonly licences: Licences;
  readonly errors: unknown[];
  close(): Promise<void>;
}

describe("the licences of an organisation", () => {
  const clock = steppedClock(new Date("2030-06-01T00:00:00Z"));
  let test: TestDatabase;
  let node: Node;
  let dataDir: string;

  const openNode = async (): Promise<Node> => {
    const errors: unknown[] = [];
    const log: Log = Object.assign(Object.create(silentLog) as Log, {
      error: (fields: unknown) => void errors.push(fields),
    });
    const database = openDatabase({
      connection: test.connection,
      connections: 3,
      clock,
      onError: () => undefined,
    });
    const tail = createTail({ database, clock, log });
    const keyring = await openKeyring(database, ROOT_KEY);
    const permissions = createPermissions({ db: database, tail, clock });
    const licences = createLicences({ db: database, clock, tail, keyring, permissions, log });
    await licences.ensureIssuer(undefined);
    await tail.start();
    const close = async () => {
      await tail.stop();
      await database.close();
    };
    return { database, tail, licences, errors, close };
  };

  const sqlText = <Row extends object>(text: string, values: unknown[] = []) =>
    withClient(
      test.server,
      test.connection.database,
      async (client) => (await client.query<Row>(text, values)).rows,
    );

  const anOrganization = async (): Promise<string> => {
    const id = newId();
    await sqlText(
      "INSERT INTO organizations (id, name, slug, created_at, updated_at) VALUES ($1, 'o', $2, now(), now())",
      [id, id],
    );
    return id;
  };

  const grant = (
    orgId: string | null,
    fromDays: number,
    toDays: number,
    features = ["eventSubscriptions"],
  ) => {
    const at = (days: number) => new Date(clock.millis() + days * DAY_MS);
    const terms = { plan: "enterprise", features, notBefore: at(fromDays), notAfter: at(toDays) };
    return node.database.write((tx) => node.licences.issueFor(tx, SYSTEM, orgId, terms));
  };

  before(async () => {
    test = await createTestDatabase();
    node = await openNode();
    dataDir = await mkdtemp(join(tmpdir(), "keyward-licences-"));
  });
  after(async () => {
    await node.close();
    await test.drop();
    await stopOwnPostgres();
    await rm(dataDir, { recursive: true });
  });

  it("are none at first, so a feature is refused with the name of the feature", async () => {
    const orgId = await anOrganization();
    assert.equal(await node.licences.has(orgId, "eventSubscriptions"), false);
    await assert.rejects(node.licences.require(orgId, "eventSubscriptions"), {
      status: 400,
      error: "LicenseRequired",
      message: /eventSubscriptions/,
    });
  });

  it("unlock a feature from their first moment until just before their last, without anyone's doing", async () => {
    const orgId = await anOrganization();
    assert.equal(await node.licences.has(orgId, "eventSubscriptions"), false);
    await grant(orgId, 1, 3);
    const seen: boolean[] = [];
    for (let half = 0; half < 7; half += 1) {
      seen.push(await node.licences.has(orgId, "eventSubscriptions"));
      clock.advance(DAY_MS / 2);
    }
    assert.deepEqual(seen, [false, false, true, true, true, true, false]);
  });

  it("unlock only what they name, and only for whom they name", async () => {
    const [holder, neighbour] = [await anOrganization(), await anOrganization()];
    await grant(holder, 0, 1, ["somethingElse"]);
    assert.equal(await node.licences.has(holder, "eventSubscriptions"), false);
    await grant(holder, 0, 1);
    assert.equal(await node.licences.has(holder, "eventSubscriptions"), true);
    assert.equal(await node.licences.has(neighbour, "eventSubscriptions"), false);
  });

  it("may be one for the whole instance", async () => {
    const [one, other] = [await anOrganization(), await anOrganization()];
    assert.equal(await node.licences.has(one, "eventSubscriptions"), false);
    await grant(null, 0, 1);
    assert.equal(await node.licences.has(one, "eventSubscriptions"), true);
    assert.equal(await node.licences.has(other, "eventSubscriptions"), true);
    await sqlText("DELETE FROM licences WHERE org_id IS NULL");
    await node.database.write(async (tx) => tx.emit(licenceChanged({ orgId: null })), { audited: false });
    assert.equal(await node.licences.has(one, "eventSubscriptions"), false);
  });

  it("end on every other node as soon as it hears the fact", async () => {
    const orgId = await anOrganization();
    const { id } = await grant(orgId, 0, 10);
    const other = await openNode();
    try {
      assert.equal(await other.licences.has(orgId, "eventSubscriptions"), true);
      const heard = new Promise<void>((resolve) =>
        other.tail.onFacts((facts) => facts.some(licenceChanged.is) && resolve()),
      );
      const admin = {
        kind: "identity",
        id: newId(),
        name: "a",
        orgId,
        tokenId: newId(),
        authMethod: "token-auth",
        isInstanceAdmin: true,
      } as const;
      await node.licences.revoke(
        { ...admin, caller: { requestId: "r", ip: "127.0.0.1", userAgent: "" } },
        id,
      );
      await heard;
      assert.equal(await other.licences.has(orgId, "eventSubscriptions"), false);
    } finally {
      await other.close();
    }
  });

  it("count as none when their row was altered in the database, which is logged once", async () => {
    const [victim, thief] = [await anOrganization(), await anOrganization()];
    const stolen = await grant(victim, 0, 10);
    const forged = signLicence(
      { ...(parseLicence(stolen.document)?.payload ?? assert.fail()), id: newId(), orgId: thief },
      generateKeyPairSync("ed25519").privateKey,
    );
    const forgedId = parseLicence(forged)?.payload.id;
    await sqlText("UPDATE licences SET org_id = $2 WHERE id = $1", [stolen.id, thief]);
    await sqlText("INSERT INTO licences (id, org_id, document, installed_at) VALUES ($1, $2, $3, now())", [
      forgedId,
      thief,
      forged,
    ]);
    for (const orgId of [thief, victim]) {
      await node.database.write(async (tx) => tx.emit(licenceChanged({ orgId })), { audited: false });
      assert.equal(await node.licences.has(orgId, "eventSubscriptions"), false);
    }
    await node.database.write(async (tx) => tx.emit(licenceChanged({ orgId: thief })), { audited: false });
    assert.equal(await node.licences.has(thief, "eventSubscriptions"), false);
    assert.deepEqual(
      new Set(node.errors.map((fields) => (fields as { licenceId: string }).licenceId)),
      new Set([stolen.id, forgedId]),
    );
    assert.equal(node.errors.length, 2);
  });

  it("are signed by a key that is registered once, whatever number of nodes start", async () => {
    await Promise.all(Array.from({ length: 8 }, () => node.licences.ensureIssuer(undefined)));
    const issuers = await sqlText<{ public_key: Buffer }>("SELECT public_key FROM licence_issuers");
    assert.equal(issuers.length, 1);
  });

  it("can be signed with the key file in the data folder, which only its owner reads and nobody overwrites", async () => {
    await node.licences.ensureIssuer(dataDir);
    const path = join(dataDir, KEY_FILE);
    assert.equal((await stat(path)).mode & 0o777, 0o600);
    const key = createPrivateKey(await readFile(path, "utf8"));
    const { document } = await grant(await anOrganization(), 0, 1);
    const parsed = parseLicence(document) ?? assert.fail();
    assert.ok(isSignedByOneOf(parsed, [publicKeyFromDer(publicDerOf(key))]));

    await writeFile(path, "someone else's");
    await node.licences.ensureIssuer(dataDir);
    assert.equal(await readFile(path, "utf8"), "someone else's");
  });

  it("are not granted when the transaction that granted them fails", async () => {
    const orgId = await anOrganization();
    const terms = {
      plan: "enterprise",
      features: ["eventSubscriptions"],
      notBefore: clock.now(),
      notAfter: new Date(clock.millis() + DAY_MS),
    };
    const failing = node.database.write(async (tx) => {
      await node.licences.issueFor(tx, SYSTEM, orgId, terms);
      throw new Error("changed my mind");
    });
    await assert.rejects(failing, /changed my mind/);
    assert.equal(await node.licences.has(orgId, "eventSubscriptions"), false);
  });
});

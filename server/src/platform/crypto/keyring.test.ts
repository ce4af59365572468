import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { after, before, describe, it } from "node:test";
import { createTestDatabase, stopOwnPostgres, type TestDatabase } from "../../../test/postgres.ts";
import { systemClock } from "../clock.ts";
import { openDatabase, sql, type Database, type Tx } from "../db/index.ts";
import { newId } from "../ids.ts";
import { deriveKey, encrypt } from "./aead.ts";
import { openKeyring, RootKeyError, type Keyring } from "./keyring.ts";

const insertOrganization = sql(
  `INSERT INTO organizations (id, name, slug, created_at, updated_at) VALUES ($1::uuid, 'x', $1::uuid::text, now(), now())`,
);
const insertProject = sql(`INSERT INTO projects (id, org_id, name, slug, type, created_at, updated_at)
  VALUES ($1::uuid, $2, 'x', $1::uuid::text, 'secret-manager', now(), now())`);
const giveToOrganization = sql(`UPDATE data_keys SET org_id = $2 WHERE project_id = $1`);
const giveToProject = sql(`UPDATE data_keys SET project_id = $2 WHERE project_id = $1`);
const dropOrgKey = sql(`DELETE FROM data_keys WHERE org_id = $1 AND project_id IS NULL`);
const giveOrgKey = sql(`UPDATE data_keys SET org_id = $2 WHERE org_id = $1 AND project_id IS NULL`);
const place = { table: "t", row: "r", column: "c" };

describe("a root key that is changed while nodes run", () => {
  let test: TestDatabase;
  let db: Database;
  const [old, next] = [randomBytes(32), randomBytes(32)];

  before(async () => {
    test = await createTestDatabase();
    db = openDatabase({
      connection: test.connection,
      connections: 4,
      clock: systemClock,
      onError: () => undefined,
    });
  });
  after(async () => {
    await db.close();
    await test.drop();
    await stopOwnPostgres();
  });

  const found = async (keyring: Keyring): Promise<string> => {
    const orgId = newId();
    await db.write(
      async (tx) => {
        await tx.rows(insertOrganization, [orgId]);
        await keyring.createOrgKey(tx, orgId);
      },
      { audited: false },
    );
    return orgId;
  };
  const reads = async (keyring: Keyring, orgId: string): Promise<boolean> => {
    const dataKey = await keyring.dataKeyOf({ orgId });
    return dataKey.decrypt(dataKey.encrypt("x", place), place).toString() === "x";
  };

  const tamper = (work: (tx: Tx) => Promise<unknown>) =>
    db.write(async (tx) => void (await work(tx)), { audited: false });

  it("S-57 unwraps a key for the organisation and the project it was made for, and for no other", async () => {
    const keyring = await openKeyring(db, old);
    const [one, two] = [await found(keyring), await found(keyring)];
    const [moved, lent, heir] = [newId(), newId(), newId()];
    for (const id of [moved, lent, heir])
      await tamper(async (tx) => {
        await tx.rows(insertProject, [id, one]);
        if (id !== heir) await keyring.createProjectKey(tx, one, id);
      });
    const opens = async (owner: Parameters<Keyring["dataKeyOf"]>[0]): Promise<boolean> =>
      (await openKeyring(db, old)).dataKeyOf(owner).then(
        () => true,
        () => false,
      );
    assert.deepEqual([await opens({ projectId: moved }), await opens({ projectId: lent })], [true, true]);
    // Somebody who can write rows gives keys to others, under the ids they have.
    await tamper((tx) => tx.rows(giveToOrganization, [moved, two]));
    await tamper((tx) => tx.rows(giveToProject, [lent, heir]));
    assert.deepEqual([await opens({ projectId: moved }), await opens({ projectId: heir })], [false, false]);
    assert.deepEqual([await opens({ orgId: one }), await opens({ orgId: two })], [true, true]);
    await tamper((tx) => tx.rows(dropOrgKey, [two]));
    await tamper((tx) => tx.rows(giveOrgKey, [one, two]));
    assert.equal(await opens({ orgId: two }), false);
    await tamper((tx) => tx.rows(giveOrgKey, [two, one]));
    assert.equal(await opens({ orgId: one }), true, "and it is the owner that counts");
  });

  it("encrypts with the key in force after it forgot which one was, for one project or for all", async () => {
    const [here, there] = [await openKeyring(db, old), await openKeyring(db, old)];
    const orgId = await found(there);
    const projects = [newId(), newId()];
    const rotateAll = () =>
      tamper(async (tx) => {
        for (const id of projects) await there.rotateProjectKey(tx, orgId, id);
      });
    await tamper(async (tx) => {
      for (const id of projects) {
        await tx.rows(insertProject, [id, orgId]);
        await there.createProjectKey(tx, orgId, id);
      }
    });
    const inForce = (keyring: Keyring) =>
      Promise.all(projects.map(async (projectId) => (await keyring.dataKeyOf({ projectId })).keyId));
    const fresh = async () => inForce(await openKeyring(db, old));
    const first = await inForce(here);
    await rotateAll();
    here.forgetActive(projects[0] as string);
    const second = await fresh();
    assert.deepEqual(await inForce(here), [second[0], first[1]]);
    await rotateAll();
    here.forgetAllActive();
    const third = await fresh();
    assert.deepEqual(await inForce(here), third);
    assert.notDeepEqual(second, third);
  });

  it("can be unwrapped by every node throughout, if each is given both keys first", async () => {
    const before = await openKeyring(db, old);
    const orgs = [await found(before)];
    // First round: both keys, the old one in force. Second round: both keys, the new one in force.
    const [waiting, changed] = [await openKeyring(db, old, next), await openKeyring(db, next, old)];
    orgs.push(await found(waiting), await found(changed));
    for (const keyring of [waiting, changed]) for (const org of orgs) assert.ok(await reads(keyring, org));
    await openKeyring(db, next, old);
    const after = await openKeyring(db, next);
    assert.equal(after.unwrappableKeys, 0);
    for (const org of orgs) assert.ok(await reads(after, org));
    await assert.rejects(openKeyring(db, old), RootKeyError);
  });

  it("reports keys that a late node wrapped with the previous one, and rewraps them when it is configured again", async () => {
    const last = randomBytes(32);
    const late = await openKeyring(db, next);
    await openKeyring(db, last, next);
    const org = await found(late);
    const alone = await openKeyring(db, last);
    assert.equal(alone.unwrappableKeys, 1);
    await assert.rejects(reads(alone, org));
    await openKeyring(db, last, next);
    const healed = await openKeyring(db, last);
    assert.equal(healed.unwrappableKeys, 0);
    assert.ok(await reads(healed, org));
  });

  it("M7 knows what each of the instance's keys is for: one cannot be put in another's place", async () => {
    const own = await createTestDatabase();
    const database = openDatabase({
      connection: own.connection,
      connections: 2,
      clock: systemClock,
      onError: () => undefined,
    });
    const key = randomBytes(32);
    await openKeyring(database, key);
    const swap =
      sql(`UPDATE data_keys SET purpose = CASE purpose WHEN 'token-signing' THEN 'licence-signing' ELSE 'token-signing' END
      WHERE purpose IN ('token-signing', 'licence-signing')`);
    const dropUnique = sql(`DROP INDEX data_keys_instance`);
    await database.write(async (tx) => void (await tx.rows(dropUnique)), { audited: false });
    await database.write(async (tx) => void (await tx.rows(swap)), { audited: false });
    await assert.rejects(openKeyring(database, key));
    await database.close();
    await own.drop();
  });

  it("M7 rewraps keys that were wrapped without their purpose, all together or not at all", async () => {
    const own = await createTestDatabase();
    const database = openDatabase({
      connection: own.connection,
      connections: 2,
      clock: systemClock,
      onError: () => undefined,
    });
    const key = randomBytes(32);
    const plain = (await openKeyring(database, key)).instanceKey("token-signing");
    const rows = sql<{ id: string; purpose: string }>(
      `SELECT id, purpose FROM data_keys WHERE org_id IS NULL`,
    );
    const put = sql(`UPDATE data_keys SET wrapped = $2 WHERE id = $1`);
    const unbind = (only?: string) =>
      database.write(
        async (tx) => {
          for (const { id, purpose } of await tx.rows(rows)) {
            if (only !== undefined && purpose !== only) continue;
            const context = ["data_keys", id, "", ""];
            await tx.rows(put, [id, encrypt(deriveKey(key, "wrap"), plain, context)]);
          }
        },
        { audited: false },
      );
    await unbind();
    assert.deepEqual((await openKeyring(database, key)).instanceKey("token-signing"), plain);
    await unbind("licence-signing");
    await assert.rejects(openKeyring(database, key), RootKeyError);
    await database.close();
    await own.drop();
  });
});

import assert from "node:assert/strict";
import { generateKeyPairSync } from "node:crypto";
import { after, before, describe, test } from "node:test";
import { anIdentity, aRole, unique } from "../../test/builders.ts";
import { aPki, aProfile, issue, ok, type Pki } from "../../test/certificates.ts";
import { openTestHouse, type Client, type TestHouse } from "../../test/harness.ts";
import { buildCsr, csrToPem, defaultSignatureAlgorithm, encodeName, nameFrom } from "@keyward/x509";

const CERTS = "/api/v1/cert-manager/certificates";

describe("the inventory of a project", () => {
  let house: TestHouse;
  let pki: Pki;
  before(async () => {
    house = await openTestHouse();
    pki = await aPki(house);
  });
  after(() => house.close());

  const search = async (one: Pki, query = "") =>
    ok(await house.owner.get(`/api/v1/projects/${one.project.id}/certificates/search${query}`));

  /** Signed by the CA for a CSR, under no profile and with a key that is not stored here. */
  const signedBare = async (one: Pki, commonName: string): Promise<string> => {
    const { privateKey } = generateKeyPairSync("ec", { namedCurve: "prime256v1" });
    const csr = csrToPem(
      await buildCsr(
        { subject: encodeName(nameFrom({ commonName })), extensions: [] },
        { key: privateKey, algorithm: defaultSignatureAlgorithm(privateKey) },
      ),
    );
    const body = { csr, caId: one.root.id, ttl: "1d" };
    ok(await house.owner.post("/api/v1/pki/certificates/sign-certificate", body));
    return (await search(one, `?search=${commonName}`)).certificates[0].id;
  };

  /** From elsewhere, with its key, under no profile. */
  const taken = async (one: Pki, commonName: string): Promise<string> => {
    const foreign = await issue(house.owner, pki.profile.id, { commonName, altNames: [] });
    return ok(
      await house.owner.post(`${CERTS}/import-certificate`, {
        certificatePem: foreign.certificate,
        privateKeyPem: foreign.privateKey,
        projectId: one.project.id,
      }),
    ).certificateId;
  };

  test("pages by cursor meet every certificate once, also while others are issued", async () => {
    const one = await aPki(house);
    const issued = new Set<string>();
    for (let index = 0; index < 9; index += 1)
      issued.add((await issue(house.owner, one.profile.id)).certificateId);
    const met: string[] = [];
    let cursor = "";
    do {
      const page = await search(one, `?limit=4${cursor === "" ? "" : `&cursor=${cursor}`}`);
      met.push(...page.certificates.map(({ id }: { id: string }) => id));
      cursor = page.nextCursor ?? "";
      await issue(house.owner, one.profile.id);
    } while (cursor !== "");
    for (const id of issued) assert.equal(met.filter((each) => each === id).length, 1);
    assert.equal(
      (await house.owner.get(`/api/v1/projects/${one.project.id}/certificates/search?cursor=nonsense`))
        .status,
      422,
    );
  });

  test("filters narrow: status, term, profile, source, end; the root stands in it as an authority", async () => {
    const one = await aPki(house);
    const name = unique("needle");
    const { certificateId } = await issue(house.owner, one.profile.id, { commonName: name, ttl: "2d" });
    await issue(house.owner, one.profile.id, { ttl: "50d" });
    const ids = async (query: string) =>
      (await search(one, query)).certificates.map(({ id }: { id: string }) => id);
    assert.deepEqual(await ids(`?search=${name.toUpperCase()}`), [certificateId]);
    assert.deepEqual(
      await ids(`?expiresBefore=${new Date(house.clock.millis() + 10 * 86_400_000).toISOString()}`),
      [certificateId],
    );
    assert.equal((await ids(`?profileId=${one.profile.id}`)).length, 2);
    assert.deepEqual(await ids("?source=imported"), []);
    assert.deepEqual(await ids("?status=revoked"), []);
    const authorities = (await search(one)).certificates.filter(({ isCA }: { isCA: boolean }) => isCA);
    assert.deepEqual(
      authorities.map(({ id }: { id: string }) => id),
      [one.root.configuration.activeCaCertId],
    );
  });

  test("a right that is bound to names shows those names only", async () => {
    const one = await aPki(house);
    await issue(house.owner, one.profile.id, { commonName: "visible.example.com", altNames: [] });
    await issue(house.owner, one.profile.id, { commonName: "hidden.example.org", altNames: [] });
    const role = await aRole(house.owner, one.project.id, [
      { subject: "certificates", action: "read", conditions: { commonName: { $glob: "*.example.com" } } },
    ]);
    const { client } = await anIdentity(house.owner, house.base, one.project.id, { roles: [{ role }] });
    const found = ok(await client.get(`/api/v1/projects/${one.project.id}/certificates/search`)).certificates;
    assert.deepEqual(
      found.map(({ commonName }: { commonName: string }) => commonName),
      ["visible.example.com"],
    );
    const lines = (await client.get(`/api/v1/projects/${one.project.id}/certificates/export`)).body
      .trim()
      .split("\n");
    assert.equal(lines.length, 1);
  });

  test("the export is one line per certificate, as JSON or as CSV that no spreadsheet runs", async () => {
    const one = await aPki(house);
    for (const commonName of ['=HYPERLINK("x")', "a,b"])
      await issue(house.owner, one.profile.id, { commonName, altNames: [] });
    const get = async (format: string) => {
      const path = `/api/v1/projects/${one.project.id}/certificates/export?format=${format}`;
      const { body, headers } = await house.owner.get(path);
      const types = { csv: /^text\/csv;/, ndjson: /^application\/x-ndjson/ };
      assert.match(headers.get("content-type") ?? "", types[format as keyof typeof types]);
      assert.match(headers.get("content-disposition") ?? "", new RegExp(`certificates\\.${format}"$`));
      return body as string;
    };
    const rows = (await get("ndjson"))
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line));
    assert.equal(rows.length, 3);
    assert.deepEqual([rows[0].commonName, rows[0].status], ["a,b", "active"]);
    const csv = (await get("csv")).trim().split("\r\n");
    assert.equal(csv.length, 4);
    assert.match(csv[0] ?? "", /^id,serialNumber,commonName/);
    assert.ok(
      csv.some((line) => line.includes(`"'=HYPERLINK(""x"")"`)) && csv.some((line) => line.includes('"a,b"')),
    );
  });

  test("acting on a query: a dry run counts, the real one revokes or renews each and says which failed", async () => {
    const one = await aPki(house);
    const name = unique("old");
    for (let index = 0; index < 3; index += 1)
      await issue(house.owner, one.profile.id, { commonName: `${name}-${index}`, altNames: [] });
    const keep = await issue(house.owner, one.profile.id);
    const bulk = (what: string, body: Record<string, unknown>) =>
      house.owner.post(`/api/v1/projects/${one.project.id}/certificates/bulk-${what}`, body);
    assert.deepEqual(ok(await bulk("renew", { query: { search: name }, dryRun: true })), {
      matched: 3,
      done: 0,
      failed: [],
      dryRun: true,
    });
    assert.equal(ok(await bulk("renew", { query: { search: name } })).done, 3);
    assert.equal((await one.list()).body.certificates.length, 7);
    const again = ok(await bulk("renew", { query: { search: name } }));
    assert.deepEqual(
      [again.matched, again.done, again.failed.length],
      [3, 3, 0],
      "what was renewed is not asked",
    );
    const revoked = ok(await bulk("revoke", { query: { search: name }, revocationReason: "SUPERSEDED" }));
    assert.deepEqual([revoked.matched, revoked.done], [9, 9]);
    assert.equal(ok(await house.owner.get(`${CERTS}/${keep.certificateId}`)).certificate.status, "active");
    assert.equal((await bulk("revoke", { query: {}, revocationReason: "BORED" })).status, 422);
  });

  test("acting on a query asks for each certificate what acting on it alone asks", async () => {
    const one = await aPki(house);
    const other = await aProfile(house.owner, one.project.id, one.root.id);
    const name = unique("asked");
    const mine = await issue(house.owner, one.profile.id, { commonName: `${name}-mine`, altNames: [] });
    await issue(house.owner, other.id, { commonName: `${name}-other`, altNames: [] });
    await signedBare(one, `${name}-bare`);
    const imported = await taken(one, `${name}-taken`);
    const bulk = async (client: Client, what: string, more: Record<string, unknown> = {}) =>
      client.post(`/api/v1/projects/${one.project.id}/certificates/bulk-${what}`, {
        query: { search: name },
        ...more,
      });
    const withRole = async (...permissions: Record<string, unknown>[]) => {
      const role = await aRole(house.owner, one.project.id, permissions);
      return (await anIdentity(house.owner, house.base, one.project.id, { roles: [{ role }] })).client;
    };
    const count = async () => (await search(one)).certificates.length;
    const before = await count();

    const viewer = await anIdentity(house.owner, house.base, one.project.id, { roles: [{ role: "viewer" }] });
    assert.equal((await viewer.client.post(`${CERTS}/${imported}/renew`, {})).status, 403);
    assert.equal(ok(await bulk(viewer.client, "renew", { dryRun: true })).matched, 0);
    const refused = ok(await bulk(viewer.client, "renew"));
    assert.deepEqual([refused.matched, refused.done, refused.failed.length], [4, 0, 4]);
    for (const { message } of refused.failed)
      assert.match(message, /not allowed to (create|issue-cert)|nobody to renew it/);
    assert.equal((await bulk(viewer.client, "revoke")).status, 403);
    assert.equal(await count(), before);

    const ofOne = await withRole(
      { subject: "certificates", action: "read" },
      {
        subject: "certificate-profiles",
        action: "issue-cert",
        conditions: { slug: { $eq: one.profile.slug } },
      },
    );
    assert.equal(ok(await bulk(ofOne, "renew", { dryRun: true })).matched, 1);
    assert.deepEqual(
      [ok(await bulk(ofOne, "renew")).done, await count()],
      [1, before + 1],
      "under the profile that it may issue under",
    );
    const { renewedByCertificateId } = ok(
      await house.owner.get(`${CERTS}/${mine.certificateId}`),
    ).certificate;
    assert.ok(renewedByCertificateId);

    const ofNames = await withRole({
      subject: "certificates",
      action: "delete",
      conditions: { commonName: { $eq: `${name}-mine` } },
    });
    assert.equal(ok(await bulk(ofNames, "revoke", { dryRun: true })).matched, 2);
    const revoked = ok(await bulk(ofNames, "revoke"));
    assert.deepEqual(
      revoked,
      { matched: 2, done: 2, failed: [], dryRun: false },
      "others are not even named",
    );
  });

  test("a dry run counts what can be done: not what was renewed, nor what has no key here, nor what others signed", async () => {
    const one = await aPki(house);
    const name = unique("countable");
    const [first] = [
      await issue(house.owner, one.profile.id, { commonName: `${name}-1`, altNames: [] }),
      await issue(house.owner, one.profile.id, { commonName: `${name}-2`, altNames: [] }),
    ];
    await signedBare(one, `${name}-bare`);
    await taken(one, `${name}-taken`);
    ok(await house.owner.post(`${CERTS}/${first.certificateId}/renew`, {}));
    const matched = async (what: string) =>
      ok(
        await house.owner.post(`/api/v1/projects/${one.project.id}/certificates/bulk-${what}`, {
          query: { search: name },
          dryRun: true,
        }),
      ).matched;
    assert.equal(await matched("renew"), 2, "the second one, and the one that replaced the first");
    assert.equal(await matched("revoke"), 4, "all but the one from elsewhere");
  });

  test("acting on anything but active certificates is refused, not turned into something else", async () => {
    const one = await aPki(house);
    await issue(house.owner, one.profile.id);
    for (const what of ["revoke", "renew"])
      for (const [status, expected] of [
        ["expired", 422],
        ["revoked", 422],
        ["active", 200],
      ] as const) {
        const answer = await house.owner.post(
          `/api/v1/projects/${one.project.id}/certificates/bulk-${what}`,
          { query: { status }, dryRun: true },
        );
        assert.equal(answer.status, expected, `${what} ${status}`);
        if (expected === 422) assert.deepEqual(answer.body.message[0].path, ["query", "status"]);
      }
  });

  test("a certificate from elsewhere is listed like ours, with its key encrypted, and can be removed; ours cannot while it lives", async () => {
    const one = await aPki(house);
    const foreign = await issue(house.owner, pki.profile.id, { commonName: "foreign.example.com" });
    const body = {
      certificatePem: foreign.certificate,
      chainPem: foreign.certificateChain,
      privateKeyPem: foreign.privateKey,
      projectId: one.project.id,
      profileId: one.profile.id,
      friendlyName: "From elsewhere",
    };
    const { certificateId } = ok(await house.owner.post(`${CERTS}/import-certificate`, body));
    const shown = ok(await house.owner.get(`${CERTS}/${certificateId}`)).certificate;
    assert.deepEqual(
      [shown.source, shown.friendlyName, shown.hasPrivateKey, shown.serialNumber],
      ["imported", "From elsewhere", true, foreign.serialNumber],
    );
    assert.equal((await one.list("?search=foreign")).body.certificates[0].id, certificateId);
    assert.equal(ok(await house.owner.get(`${CERTS}/${certificateId}/private-key`)), foreign.privateKey);
    const other = await issue(house.owner, pki.profile.id);
    assert.equal(
      (await house.owner.post(`${CERTS}/import-certificate`, { ...body, privateKeyPem: other.privateKey }))
        .status,
      400,
      "another's key",
    );
    assert.equal(
      (
        await house.owner.post(`${CERTS}/import-certificate`, {
          certificatePem: "nonsense",
          projectId: one.project.id,
        })
      ).status,
      400,
    );
    assert.equal(
      (await house.owner.post(`${CERTS}/${certificateId}/revoke`, {})).status,
      400,
      "not ours to revoke",
    );
    ok(await house.owner.delete(`${CERTS}/${certificateId}`));
    assert.equal((await house.owner.get(`${CERTS}/${certificateId}`)).status, 404);
    assert.equal((await house.owner.delete(`${CERTS}/${foreign.certificateId}`)).status, 400);
  });

  test("the newest active bundle of a profile", async () => {
    const one = await aPki(house);
    const path = `/api/v1/cert-manager/certificate-profiles/${one.profile.id}/certificates/latest-active-bundle`;
    assert.equal(ok(await house.owner.get(path)).certificate, null);
    const first = await issue(house.owner, one.profile.id);
    const second = await issue(house.owner, one.profile.id);
    assert.equal(ok(await house.owner.get(path)).serialNumber, second.serialNumber);
    ok(await house.owner.post(`${CERTS}/${second.certificateId}/revoke`, {}));
    const bundle = ok(await house.owner.get(path));
    assert.deepEqual(
      [bundle.serialNumber, bundle.privateKey, bundle.certificateChain],
      [first.serialNumber, first.privateKey, first.certificateChain],
    );
  });

  test("a deleted project's certificates are cleared out in the background", async () => {
    const one = await aPki(house);
    const { certificateId } = await issue(house.owner, one.profile.id);
    ok(await house.owner.delete(`/api/v1/projects/${one.project.id}`));
    assert.equal((await house.owner.get(`${CERTS}/${certificateId}`)).status, 404);
    house.clock.advance(700_000);
    await house.house.jobs.runDue();
    const left = await house.house.database.read((q) =>
      q.rows({ name: undefined, text: "SELECT id FROM certificates WHERE project_id = $1", isSlow: false }, [
        one.project.id,
      ]),
    );
    assert.deepEqual(left, []);
  });

  test("clients' path: application by name, its profiles by slug, the profile by slug without a project", async () => {
    const tenant = await house.newTenant();
    const project = ok(
      await tenant.post("/api/v1/projects", { projectName: "certs", type: "cert-manager" }),
    ).project;
    const root = ok(
      await tenant.post("/api/v1/cert-manager/ca/internal", {
        name: "root",
        status: "active",
        configuration: { type: "root", commonName: "R", keyAlgorithm: "EC_prime256v1" },
      }),
    );
    assert.equal(root.projectId, project.id);
    const { certificatePolicy } = ok(
      await tenant.post("/api/v1/cert-manager/certificate-policies", { name: "any" }),
    );
    const { certificateProfile } = ok(
      await tenant.post("/api/v1/cert-manager/certificate-profiles", {
        caId: root.id,
        certificatePolicyId: certificatePolicy.id,
        slug: "web",
      }),
    );
    const { application } = ok(
      await tenant.post("/api/v1/cert-manager/applications", {
        name: "shop",
        profileIds: [certificateProfile.id],
      }),
    );
    assert.equal(
      ok(await tenant.get("/api/v1/cert-manager/applications/by-name/shop")).application.id,
      application.id,
    );
    assert.deepEqual(
      ok(await tenant.get(`/api/v1/cert-manager/applications/${application.id}/profiles`)).profiles.map(
        ({ profileSlug }: { profileSlug: string }) => profileSlug,
      ),
      ["web"],
    );
    assert.equal(
      ok(await tenant.get("/api/v1/cert-manager/certificate-profiles/slug/web")).certificateProfile.id,
      certificateProfile.id,
    );
    const { certificate } = ok(
      await tenant.post(CERTS, {
        profileId: certificateProfile.id,
        applicationId: application.id,
        attributes: { commonName: "x", ttl: "24h" },
      }),
    );
    assert.equal(
      ok(await tenant.get(`${CERTS}/${certificate.certificateId}`)).certificate.applicationId,
      application.id,
    );
    assert.equal(
      (
        await tenant.post("/api/v1/cert-manager/certificate-profiles", {
          caId: root.id,
          certificatePolicyId: certificatePolicy.id,
          slug: "web",
        })
      ).status,
      409,
    );
    assert.equal(
      (await tenant.delete(`/api/v1/cert-manager/certificate-policies/${certificatePolicy.id}`)).status,
      409,
    );
  });

  test("moments and cursors that no calendar has are refused, not failed on", async () => {
    const path = `/api/v1/projects/${pki.project.id}/certificates`;
    const forged = (at: string) => Buffer.from(`${at} ${pki.project.id}`).toString("base64url");
    for (const query of [
      "expiresBefore=2026-02-30",
      "expiresBefore=2026-01-01%20(soon)",
      "issuedBefore=2026-01-01T10:00:00%2B99:00",
      "issuedBefore=2026-13-01T00:00:00Z",
      `cursor=${forged("1")}`,
      `cursor=${forged("2026-02-30")}`,
      `cursor=${forged("2026-02-30T00:00:00.000000Z")}`,
    ])
      assert.equal((await house.owner.get(`${path}/search?${query}`)).status, 422, query);
    for (const query of [
      "expiresBefore=2026-01-01",
      "expiresBefore=2026-01-01T10:00:00%2B02:00",
      "expiresBefore=2026-01-01T10:00:00.123Z",
      "issuedBefore=2026-01-01T10:00:00",
    ])
      assert.equal((await house.owner.get(`${path}/search?${query}`)).status, 200, query);
    const body = { query: { expiresBefore: "2026-02-30" }, dryRun: true };
    assert.equal((await house.owner.post(`${path}/bulk-renew`, body)).status, 422);
  });

  test("renewing more than one request may goes on where the last one stopped, oldest first", async () => {
    const one = await aPki(house);
    const old: string[] = [];
    for (let index = 0; index < 5; index += 1)
      old.push((await issue(house.owner, one.profile.id, { altNames: [] })).certificateId);
    for (const limit of [2, 2, 1]) {
      const body = { query: { profileId: one.profile.id }, limit };
      const { done, failed } = ok(
        await house.owner.post(`/api/v1/projects/${one.project.id}/certificates/bulk-renew`, body),
      );
      assert.deepEqual([done, failed], [limit, []]);
    }
    for (const id of old)
      assert.ok(
        ok(await house.owner.get(`${CERTS}/${id}`)).certificate.renewedByCertificateId,
        "each one once",
      );
  });

  test("a right with conditions on what the list does not show finds the same as reading each", async () => {
    const one = await aPki(house);
    const team = (value: string) => ({ metadata: [{ key: "team", value }] });
    await issue(house.owner, one.profile.id, { commonName: "ours", altNames: [] }, team("a"));
    await issue(house.owner, one.profile.id, { commonName: "theirs", altNames: [] }, team("b"));
    await issue(
      house.owner,
      one.profile.id,
      { commonName: "hidden", altNames: [] },
      { ...team("a"), friendlyName: "secret" },
    );
    const role = await aRole(house.owner, one.project.id, [
      {
        subject: "certificates",
        action: "read",
        conditions: { metadata: { $elemMatch: { key: { $eq: "team" }, value: { $eq: "a" } } } },
      },
      { subject: "certificates", action: "read", inverted: true, conditions: { friendlyName: "secret" } },
    ]);
    const { client } = await anIdentity(house.owner, house.base, one.project.id, { roles: [{ role }] });
    const path = `/api/v1/projects/${one.project.id}/certificates`;
    const found = ok(await client.get(`${path}/search`)).certificates;
    assert.deepEqual(
      found.map(({ commonName }: { commonName: string }) => commonName),
      ["ours"],
    );
    const lines = (await client.get(`${path}/export`)).body.trim().split("\n");
    assert.deepEqual(
      lines.map((line: string) => JSON.parse(line).commonName),
      ["ours"],
    );
  });

  test("the newest active bundle is of one that is valid already", async () => {
    const one = await aPki(house);
    const path = `/api/v1/cert-manager/certificate-profiles/${one.profile.id}/certificates/latest-active-bundle`;
    const now = await issue(house.owner, one.profile.id);
    const at = (hours: number) => new Date(house.clock.millis() + hours * 3_600_000).toISOString();
    await issue(house.owner, one.profile.id, { notBefore: at(10), notAfter: at(100) });
    assert.equal(ok(await house.owner.get(path)).serialNumber, now.serialNumber);
  });
});

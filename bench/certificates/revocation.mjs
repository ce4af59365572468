// node bench/certificates/revocation.mjs [--most 1000000]
// How long a CRL takes to be signed again and fetched, by how many certificates it names, and how long a revocation
// takes beside so many. Runs inside this process, on a PostgreSQL of its own.
import { aPki, issue } from "../../server/dist/test/certificates.js";
import { openTestHouse } from "../../server/dist/test/harness.js";
import { flagsOf, isStarted, median, showRows } from "../bars.mjs";

const FEW = 10_000;
const ROUNDS = 5;
const REVOCATIONS = 100;
const AT_ONCE = 50_000;

// An entry as it stands in a list: SEQUENCE { INTEGER of 17 octets, UTCTime }.
const SEED = `
  INSERT INTO certificates (id, project_id, authority_id, authority_key_id, crl_shard, not_before, not_after, created_at, updated_at, revoked_at, phase,
    revocation_reason, crl_entry, source, serial_number, common_name, search_text, alt_names, key_fingerprint)
  SELECT gen_random_uuid(), k.project_id, k.authority_id, k.authority_key_id, 0, now(), now() + interval '1 year', now(), now(), now(), 2, 0,
    decode('3022021140' || md5(g::text) || '170d' || encode(convert_to('261115000000Z', 'UTF8'), 'hex'), 'hex'), 'issued', '40' || md5(g::text), 'host-' || g, 'host-' || g,
    '[]', decode(md5(g::text), 'hex')
  FROM (SELECT project_id, authority_id, authority_key_id FROM certificates WHERE id = $1) k, generate_series($2::int, $3::int) g`;

export async function revocationRows({ most = 1_000_000, say = () => {} } = {}) {
  const house = await openTestHouse();
  const raw = (text, values = []) =>
    house.house.database.write((tx) => tx.rows({ name: undefined, isSlow: true, text }, values), {
      audited: false,
    });
  try {
    await raw("DROP INDEX certificates_search");
    const { profile } = await aPki(house);
    const path = "/api/v1/cert-manager/certificates";
    const revoke = async () => {
      const { certificateId } = await issue(house.owner, profile.id, { ttl: "30d" });
      const began = performance.now();
      const { status } = await house.owner.post(`${path}/${certificateId}/revoke`, {
        revocationReason: "SUPERSEDED",
      });
      if (status !== 200) throw new Error(`revoking answered ${status}`);
      return performance.now() - began;
    };
    const { certificateId: model } = await issue(house.owner, profile.id, { ttl: "30d" });
    const [{ keyId }] = await raw('SELECT authority_key_id AS "keyId" FROM certificates WHERE id = $1', [
      model,
    ]);
    // Without a stored CRL it is signed on request.
    const signAnew = async () => {
      await raw("DELETE FROM crls");
      const began = performance.now();
      const answer = await fetch(`${house.base}/pki/crl/${keyId}/0`);
      const { byteLength } = await answer.arrayBuffer();
      return { ms: performance.now() - began, byteLength };
    };
    const figures = [];
    let there = 0;
    for (const size of [FEW, most]) {
      for (; there < size; there = Math.min(size, there + AT_ONCE))
        await raw(SEED, [model, there + 1, Math.min(size, there + AT_ONCE)]);
      await raw("ANALYZE certificates");
      const lists = [];
      for (let round = 0; round < ROUNDS; round += 1) lists.push(await signAnew());
      const signing = lists.map(({ ms }) => ms);
      const bytes = lists[0].byteLength;
      if (bytes < size * 36) throw new Error(`the list has ${bytes} bytes: not all are in it`);
      const revoking = [];
      for (let n = 0; n < REVOCATIONS; n += 1) revoking.push(await revoke());
      figures.push({ signing: median(signing), revoking: median(revoking) });
      say(
        `${size} revoked: list signed in ${median(signing).toFixed(0)} ms (${bytes} bytes), one more revoked in ${median(revoking).toFixed(1)} ms`,
      );
    }
    const [few, many] = figures;
    const each = (ms, size) => (ms * 1000) / size;
    const name = `of ${most.toLocaleString("en")} revoked certificates`;
    return [
      {
        case: `a list ${name} signed anew and fetched`,
        ...{ keyward: many.signing, limit: null, unit: "ms", bar: "≤ 5000", isKept: many.signing <= 5000 },
      },
      {
        case: `for each of them, against a list of ${FEW.toLocaleString("en")}`,
        ...{
          keyward: each(many.signing, most),
          limit: each(few.signing, FEW),
          unit: "µs",
          bar: "≤ 2 × limit",
        },
        isKept: each(many.signing, most) <= 2 * each(few.signing, FEW),
      },
      {
        case: `one more revoked beside ${most.toLocaleString("en")}, against ${FEW.toLocaleString("en")}`,
        ...{ keyward: many.revoking, limit: few.revoking, unit: "ms", bar: "≤ 2 × limit" },
        isKept: many.revoking <= 2 * few.revoking,
      },
    ];
  } finally {
    await house.close();
  }
}

if (isStarted(import.meta)) showRows(await revocationRows({ ...flagsOf(["most"]), say: console.log }));

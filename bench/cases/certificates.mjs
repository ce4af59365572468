// Certificates: issue for a request (CSR) and with a key made by the server, against the cryptography and the rows alone.
import { someRequests } from "../certificates/requests.mjs";
import { openWorld } from "../world.mjs";

const CM = "/api/v1/cert-manager";
const INSERT = `INSERT INTO certificates (id, project_id, profile_id, not_before, not_after, created_at, updated_at, phase, source, serial_number, common_name,
    key_algorithm, signature_algorithm, search_text, alt_names, key_fingerprint)
  VALUES ($1::uuid,$2,$3,$4::timestamptz,$4::timestamptz + interval '30 days',$4::timestamptz,$4::timestamptz,0,'issued',md5($1::uuid::text),'web.example.com','EC_prime256v1','ECDSA-SHA256','web.example.com','[]',$5)`;
const RECORD = `INSERT INTO certificate_requests (id, project_id, profile_id, certificate_id, serial_number, status, tbs, context, created_at, updated_at)
  VALUES ($1::uuid,$2,$3,$1::uuid,md5($1::uuid::text),'pending',$5,'{}',$4,$4)`;
const BODY = "INSERT INTO certificate_bodies (certificate_id, der, details) VALUES ($1,$2,'{}')";
const SETTLE =
  "UPDATE certificate_requests SET status = 'issued', tbs = NULL, context = NULL, updated_at = $2 WHERE id = $1";
const TELL = "INSERT INTO outbox (name, data) VALUES ('bench', '{}')";

export async function prepare({ against } = {}) {
  const world = await openWorld(against);
  const { project } = await world.call("POST", "/api/v1/projects", {
    projectName: `Bench ${Date.now()}`,
    type: "cert-manager",
  });
  const projectId = project.id;
  const configuration = { type: "root", commonName: "Bench Root", keyAlgorithm: "EC_prime256v1" };
  const root = await world.call("POST", `${CM}/ca/internal`, {
    name: "root",
    projectId,
    status: "active",
    configuration,
  });
  const { certificatePolicy } = await world.call("POST", `${CM}/certificate-policies`, {
    name: "any",
    projectId,
  });
  const { certificateProfile } = await world.call("POST", `${CM}/certificate-profiles`, {
    caId: root.id,
    certificatePolicyId: certificatePolicy.id,
    slug: "bench",
    projectId,
  });
  const profileId = certificateProfile.id;
  const path = `${CM}/certificates`;
  const attributes = {
    commonName: "web.example.com",
    ttl: "30d",
    altNames: [{ type: "dns_name", value: "web.example.com" }],
  };
  const shape = await world.call("POST", path, { profileId, attributes });
  const row = ["$same", projectId, profileId, "$now", "$sealed"];
  const writes = [
    [RECORD, row],
    [INSERT, row],
    [BODY, ["$same", "$sealed"]],
    [SETTLE, ["$same", "$now"]],
    [TELL, []],
  ];
  const limit = await world.startLimit({
    answers: { issue: shape.text, keyed: shape.text },
    programs: { issue: { verifies: 1, signs: 1, writes }, keyed: { keys: 1, signs: 1, writes } },
  });
  const { headers } = world;
  const requests = await someRequests(1000);
  const one = (name, bodyOf, program) => ({
    name,
    keyward: (n) => ({ method: "POST", path, headers, body: { profileId, ...bodyOf(n) } }),
    limit: (n) => ({ method: "POST", path: `/${program}`, body: { n } }),
  });
  return {
    ...world,
    limit,
    cases: [
      one(
        "issue for a request (P-256)",
        (n) => ({ csr: requests[n % requests.length], attributes: { ttl: "30d" } }),
        "issue",
      ),
      one("issue with a key made here (P-256)", () => ({ attributes }), "keyed"),
    ],
  };
}

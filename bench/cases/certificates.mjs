// Certificates: issue for a request (CSR) and with a key made by the server, against the signature and the insert alone.
import { spawnSync } from "node:child_process";
import { openWorld } from "../world.mjs";

const CM = "/api/v1/cert-manager";
const INSERT = `INSERT INTO certificates (id, project_id, profile_id, not_before, not_after, created_at, updated_at, phase, source, serial_number, common_name,
    key_algorithm, signature_algorithm, search_text, alt_names, key_fingerprint)
  VALUES ($1::uuid,$2,$3,$4::timestamptz,$4::timestamptz + interval '30 days',$4::timestamptz,$4::timestamptz,0,'issued',md5($1::uuid::text),'web.example.com','EC_prime256v1','ECDSA-SHA256','web.example.com','[]',$5)`;

/** A request made by OpenSSL, as a client would; without it the case is left out. */
function csrOf() {
  const made = spawnSync(
    "openssl",
    [
      "req",
      "-new",
      "-newkey",
      "ec",
      "-pkeyopt",
      "ec_paramgen_curve:prime256v1",
      "-nodes",
      "-keyout",
      "/dev/null",
      "-subj",
      "/CN=web.example.com",
      "-addext",
      "subjectAltName=DNS:web.example.com",
    ],
    { encoding: "utf8" },
  );
  return made.status === 0 ? made.stdout : undefined;
}

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
  const withKey = { profileId, attributes };
  const shape = await world.call("POST", path, withKey);
  const limit = await world.startLimit({
    answers: { issue: shape.text, keyed: shape.text },
    programs: {
      issue: { signs: 1, writes: [[INSERT, ["$same", projectId, profileId, "$now", "$sealed"]]] },
      keyed: { keys: 1, signs: 1, writes: [[INSERT, ["$same", projectId, profileId, "$now", "$sealed"]]] },
    },
  });
  const { headers } = world;
  const csr = csrOf();
  const one = (name, body, program) => ({
    name,
    keyward: () => ({ method: "POST", path, headers, body }),
    limit: (n) => ({ method: "POST", path: `/${program}`, body: { n } }),
  });
  return {
    ...world,
    limit,
    cases: [
      ...(csr
        ? [one("issue for a request (P-256)", { profileId, csr, attributes: { ttl: "30d" } }, "issue")]
        : []),
      one("issue with a key made here (P-256)", withKey, "keyed"),
    ],
  };
}

// Certification requests as clients bring them: each with a key and a name of its own.
import { generateKeyPairSync } from "node:crypto";
import { buildCsr, csrToPem, encodeName, nameFrom, subjectAltName } from "@keyward/x509";

async function aRequest(commonName) {
  const { privateKey } = generateKeyPairSync("ec", { namedCurve: "prime256v1" });
  const fields = {
    subject: encodeName(nameFrom({ commonName })),
    extensions: [subjectAltName([{ type: "dns_name", value: commonName }], false)],
  };
  return csrToPem(await buildCsr(fields, { key: privateKey, algorithm: "ECDSA-SHA256" }));
}

export const someRequests = (count) =>
  Promise.all(Array.from({ length: count }, (_, n) => aRequest(`csr-${n}.example.com`)));

// For tests: other people's programs, asked whether our bytes are right. A judge that is not installed skips its
// tests with the reason shown; it never lets them pass.

import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

type CertificateJudge = "openssl" | "keytool";

const present = new Map<CertificateJudge, boolean>();

const isAsked = process.env["KEYWARD_JUDGES"] === "1" || process.env["KEYWARD_FULL"] === "1";

/** Options for `test`: skipped, visibly, when the program is not there, or not asked for. */
export function needs(judge: CertificateJudge): { skip: string | false } {
  if (!isAsked) return { skip: "npm run test:verifiers" };
  let isPresent = present.get(judge);
  if (isPresent === undefined) {
    const probe = spawnSync(judge, [judge === "openssl" ? "version" : "-help"], { stdio: "ignore" });
    isPresent = probe.error === undefined;
    present.set(judge, isPresent);
  }
  return { skip: isPresent ? false : `${judge} is not installed, so nobody independent has judged this` };
}

interface JudgeVerdict {
  readonly isAccepted: boolean;
  readonly output: string;
}

/** A directory for one question, with the files it is about; gone afterwards. */
export function withFiles<T>(
  files: Readonly<Record<string, Buffer | string>>,
  ask: (directory: string) => T,
): T {
  const directory = mkdtempSync(join(tmpdir(), "keyward-x509-"));
  try {
    for (const [name, content] of Object.entries(files)) writeFileSync(join(directory, name), content);
    return ask(directory);
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

export function ask(judge: CertificateJudge, args: readonly string[], directory: string): JudgeVerdict {
  const { status, stdout, stderr } = spawnSync(judge, args, {
    cwd: directory,
    encoding: "utf8",
    timeout: 60_000,
  });
  return { isAccepted: status === 0, output: `${stdout}${stderr}` };
}

/** Whether openssl finds its way from a leaf through a chain (PEM, nearest first) to that chain's last certificate. */
export function chainHolds(leaf: string, chain: string): boolean {
  const blocks = chain.match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g) ?? [];
  const files = {
    "leaf.pem": leaf,
    "root.pem": blocks.at(-1) ?? "",
    "middle.pem": blocks.slice(0, -1).join("\n") || " ",
  };
  const untrusted = blocks.length > 1 ? ["-untrusted", "middle.pem"] : [];
  const args = ["verify", "-x509_strict", "-CAfile", "root.pem", ...untrusted, "leaf.pem"];
  return withFiles(files, (directory) => ask("openssl", args, directory)).isAccepted;
}

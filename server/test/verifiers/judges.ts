/**
 * Five unrelated programs that decide whether a chain is good: OpenSSL (strict), GnuTLS, NSS, Java and Go. A judge
 * that is not installed is reported as such; it never counts as a yes. Debian: openssl gnutls-bin libnss3-tools
 * openjdk-17-jdk-headless golang-go.
 */
import { spawnSync } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

export interface Case {
  readonly name: string;
  readonly leaf: string;
  readonly intermediates: readonly string[];
  readonly root: string;
  readonly at: Date;
  /** NSS before 3.99 knows no Ed25519 certificates. */
  readonly hasEd25519: boolean;
}

export interface Judge {
  readonly name: string;
  readonly probe: readonly [string, ...string[]];
  suits?(one: Case): boolean;
  /** The names of the cases that it refuses, with its words. */
  judge(cases: readonly Case[], directory: string): Map<string, string>;
}

const run = (command: string, args: readonly string[], cwd: string, input?: string) => {
  const { status, stdout, stderr, error } = spawnSync(command, args, {
    cwd,
    encoding: "utf8",
    timeout: 240_000,
    ...(input === undefined ? {} : { input }),
  });
  if (error) throw error;
  return { isAccepted: status === 0, output: `${stdout}${stderr}` };
};

export const isInstalled = ({ probe: [command, ...args] }: Judge): boolean =>
  spawnSync(command, args, { stdio: "ignore" }).error === undefined;

/** One folder per case: leaf.pem, middle.pem (perhaps empty), root.pem. */
export function layOut(cases: readonly Case[], directory: string): void {
  for (const [index, { leaf, intermediates, root }] of cases.entries()) {
    const folder = join(directory, `case-${index}`);
    mkdirSync(folder);
    writeFileSync(join(folder, "leaf.pem"), `${leaf}\n`);
    writeFileSync(join(folder, "middle.pem"), intermediates.map((pem) => `${pem}\n`).join(""));
    writeFileSync(join(folder, "root.pem"), `${root}\n`);
    writeFileSync(
      join(folder, "chain.pem"),
      [leaf, ...intermediates, root].map((pem) => `${pem}\n`).join(""),
    );
  }
}

const oneByOne =
  (ask: (folder: string, one: Case) => { isAccepted: boolean; output: string }): Judge["judge"] =>
  (cases, directory) => {
    const refused = new Map<string, string>();
    for (const [index, one] of cases.entries()) {
      const { isAccepted, output } = ask(join(directory, `case-${index}`), one);
      if (!isAccepted) refused.set(one.name, output);
    }
    return refused;
  };

/** Programs that judge all folders in one run and print `index problem` for each that they refuse. */
const allAtOnce =
  (ask: (directory: string, folders: readonly string[], at: number) => string): Judge["judge"] =>
  (cases, directory) => {
    const at = Math.floor((cases[0]?.at.getTime() ?? 0) / 1000);
    const lines = ask(
      directory,
      cases.map((_, index) => `case-${index}`),
      at,
    ).split("\n");
    if (!lines.includes(`judged ${cases.length}`))
      throw new Error(`the judge did not finish: ${lines.join("\n")}`);
    return new Map(
      lines.flatMap((line) => {
        const [, index, words] = /^refused case-(\d+) (.*)$/.exec(line) ?? [];
        return index === undefined ? [] : [[cases[Number(index)]?.name ?? index, words ?? ""]];
      }),
    );
  };

const GO = `package main

import ("crypto/x509"; "encoding/pem"; "fmt"; "os"; "strconv"; "time")

func read(path string) []*x509.Certificate {
	data, err := os.ReadFile(path)
	if err != nil { panic(err) }
	var all []*x509.Certificate
	for {
		block, rest := pem.Decode(data)
		if block == nil { return all }
		one, err := x509.ParseCertificate(block.Bytes)
		if err != nil { fmt.Println("parse", path, err); return nil }
		all, data = append(all, one), rest
	}
}

func main() {
	at, _ := strconv.ParseInt(os.Args[1], 10, 64)
	for _, dir := range os.Args[2:] {
		roots, middle := x509.NewCertPool(), x509.NewCertPool()
		for _, one := range read(dir + "/root.pem") { roots.AddCert(one) }
		for _, one := range read(dir + "/middle.pem") { middle.AddCert(one) }
		leaf := read(dir + "/leaf.pem")
		if len(leaf) != 1 { fmt.Println("refused", dir, "cannot be parsed"); continue }
		_, err := leaf[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: middle, CurrentTime: time.Unix(at, 0), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
		if err != nil { fmt.Println("refused", dir, err) }
	}
	fmt.Println("judged", len(os.Args)-2)
}
`;

const JAVA = `import java.io.*; import java.nio.file.*; import java.security.cert.*; import java.util.*;
public class Judge {
  static List<X509Certificate> read(String path) throws Exception {
    List<X509Certificate> all = new ArrayList<>();
    byte[] bytes = Files.readAllBytes(Path.of(path));
    if (bytes.length == 0) return all;
    for (java.security.cert.Certificate one : CertificateFactory.getInstance("X.509").generateCertificates(new ByteArrayInputStream(bytes))) all.add((X509Certificate) one);
    return all;
  }
  public static void main(String[] args) throws Exception {
    for (int i = 1; i < args.length; i++) {
      try {
        List<X509Certificate> path = new ArrayList<>(read(args[i] + "/leaf.pem"));
        path.addAll(read(args[i] + "/middle.pem"));
        PKIXParameters parameters = new PKIXParameters(Set.of(new TrustAnchor(read(args[i] + "/root.pem").get(0), null)));
        parameters.setRevocationEnabled(false);
        parameters.setDate(new Date(Long.parseLong(args[0]) * 1000));
        CertPathValidator.getInstance("PKIX").validate(CertificateFactory.getInstance("X.509").generateCertPath(path), parameters);
      } catch (Exception e) { System.out.println("refused " + args[i] + " " + e.toString().replace('\\n', ' ')); }
    }
    System.out.println("judged " + (args.length - 1));
  }
}
`;

export const JUDGES: readonly Judge[] = [
  {
    name: "OpenSSL, strict",
    probe: ["openssl", "version"],
    judge: oneByOne((folder, { at }) =>
      run(
        "openssl",
        [
          "verify",
          "-x509_strict",
          "-policy_check",
          "-attime",
          String(Math.floor(at.getTime() / 1000)),
          "-CAfile",
          "root.pem",
          "-untrusted",
          "chain.pem",
          "leaf.pem",
        ],
        folder,
      ),
    ),
  },
  {
    name: "GnuTLS",
    probe: ["certtool", "--version"],
    // The GnuTLS of Debian 12 judges by today's clock only.
    suits: ({ at }) => Math.abs(at.getTime() - Date.now()) < 3_600_000,
    judge: oneByOne((folder) => {
      const verdict = run(
        "certtool",
        ["--verify", "--load-ca-certificate", "root.pem", "--infile", "chain.pem"],
        folder,
      );
      return {
        ...verdict,
        isAccepted: verdict.isAccepted && /Chain verification output: Verified/.test(verdict.output),
      };
    }),
  },
  {
    name: "NSS",
    probe: ["vfychain", "-h"],
    suits: ({ hasEd25519 }) => !hasEd25519,
    judge: oneByOne((folder, { at, intermediates }) => {
      run("certutil", ["-N", "-d", ".", "--empty-password"], folder);
      run("certutil", ["-A", "-d", ".", "-n", "root", "-t", "CT,C,C", "-a", "-i", "root.pem"], folder);
      const middle = intermediates.length > 0 ? ["-a", "middle.pem"] : [];
      const stamp = at.toISOString().replace(/[-:T]/g, "").slice(2, 14);
      return run(
        "vfychain",
        ["-d", ".", "-pp", "-u", "0", "-b", `${stamp}Z`, "-a", "leaf.pem", ...middle],
        folder,
      );
    }),
  },
  {
    name: "Java",
    probe: ["javac", "-version"],
    judge: allAtOnce((directory, folders, at) => {
      writeFileSync(join(directory, "Judge.java"), JAVA);
      return run("java", ["Judge.java", String(at), ...folders], directory).output;
    }),
  },
  {
    name: "Go",
    probe: ["go", "version"],
    judge: allAtOnce((directory, folders, at) => {
      writeFileSync(join(directory, "judge.go"), GO);
      const built = run("go", ["build", "-o", "judge", "judge.go"], directory);
      if (!built.isAccepted) throw new Error(built.output);
      return run("./judge", [String(at), ...folders], directory).output;
    }),
  },
];

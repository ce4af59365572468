/** Two mail servers of other people, each started for one test, with a certificate made for it on the spot. */
import { spawn } from "node:child_process";
import {
  chmodSync,
  chownSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { createServer, type AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { PYTHON, requireModule, requireProgram, run, scriptPath } from "./programs.ts";

export interface TakenMail {
  readonly from: string;
  readonly to: readonly string[];
  readonly raw: Buffer;
  readonly isEncrypted: boolean;
  readonly user: string | null;
}

export interface MailServer {
  readonly port: number;
  taken(): readonly TakenMail[];
  close(): Promise<void>;
}

export interface ServerCertificate {
  /** PEM files; `authority` is for clients to trust. */
  readonly authority: string;
  readonly certificate: string;
  readonly key: string;
  remove(): void;
}

/** A root and a certificate for 127.0.0.1 under it, by OpenSSL. */
export function makeCertificate(): ServerCertificate {
  requireProgram("/usr/bin/openssl", "openssl");
  const folder = mkdtempSync(join(tmpdir(), "keyward-mail-tls-"));
  const [authority, certificate, key] = ["ca.pem", "cert.pem", "key.pem"].map((name) =>
    join(folder, name),
  ) as [string, string, string];
  const fresh = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-x509"];
  const caKey = join(folder, "ca-key.pem");
  run("openssl", ["req", ...fresh, "-subj", "/CN=Mail Root", "-keyout", caKey, "-out", authority]);
  const under = ["-CA", authority, "-CAkey", caKey, "-addext", "basicConstraints=critical,CA:FALSE"];
  const names = ["-subj", "/CN=mail.example.com", "-addext", "subjectAltName=IP:127.0.0.1"];
  run("openssl", ["req", ...fresh, ...under, ...names, "-keyout", key, "-out", certificate]);
  return { authority, certificate, key, remove: () => rmSync(folder, { recursive: true }) };
}

export interface PythonMailWish {
  readonly tls?: ServerCertificate;
  readonly login?: { readonly user: string; readonly password: string };
}

export async function startAiosmtpd({ tls, login }: PythonMailWish = {}): Promise<MailServer> {
  requireModule("aiosmtpd", "python3-aiosmtpd");
  const wish = { ...(tls ? { certificate: tls.certificate, key: tls.key } : {}), ...login };
  const child = spawn(PYTHON, ["-u", scriptPath("smtp_server.py"), JSON.stringify(wish)], {
    stdio: ["ignore", "pipe", "pipe"],
  });
  const end = () => child.kill("SIGKILL");
  process.once("exit", end);
  const exited = new Promise<void>((done) => child.once("exit", () => done()));
  const taken: TakenMail[] = [];
  let errors = "";
  child.stderr.on("data", (chunk: Buffer) => (errors += chunk.toString()));
  const port = await new Promise<number>((ready, fail) => {
    createInterface({ input: child.stdout }).on("line", (line) => {
      const said = JSON.parse(line) as { port?: number } & Omit<TakenMail, "raw"> & { raw: string };
      if (said.port === undefined) taken.push({ ...said, raw: Buffer.from(said.raw, "base64") });
      else ready(said.port);
    });
    void exited.then(() => fail(new Error(`aiosmtpd ended: ${errors}`)));
  });
  return {
    port,
    taken: () => taken,
    async close() {
      end();
      await exited;
      process.off("exit", end);
    },
  };
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((ready) => void server.listen(0, "127.0.0.1", ready));
  const { port } = server.address() as AddressInfo;
  await new Promise((done) => server.close(done));
  return port;
}

const PERMANENT = [
  "cleanup unix n - n - 0 cleanup",
  "qmgr unix n - n 300 1 qmgr",
  "tlsmgr unix - - n 1000? 1 tlsmgr",
  "anvil unix - - n - 1 anvil",
];
const OTHERS = [
  "rewrite trivial-rewrite",
  "bounce bounce",
  "defer bounce",
  "trace bounce",
  "error error",
  "retry error",
  "proxymap proxymap",
];

/** A Postfix apart from the machine's own: its settings, queue and mailboxes are in one folder, gone afterwards. */
export async function startPostfix(tls: ServerCertificate): Promise<MailServer> {
  requireProgram("/usr/sbin/postfix", "postfix");
  if (process.getuid?.() !== 0)
    throw new Error("Postfix gives up root's rights by itself, so root has to start it.");
  const [port, folder] = [await freePort(), mkdtempSync(join(tmpdir(), "keyward-postfix-"))];
  chmodSync(folder, 0o755);
  for (const name of ["etc", "queue", "data", "mail"]) mkdirSync(join(folder, name));
  const [uid, gid] = ["-u", "-g"].map((flag) => Number(run("id", [flag, "postfix"]))) as [number, number];
  for (const name of ["data", "mail"]) chownSync(join(folder, name), uid, gid);
  writeFileSync(join(folder, "etc", "main.cf"), postfixSettings(folder, { uid, gid, tls }));
  writeFileSync(join(folder, "etc", "boxes"), "/^[a-z]@example\\.com$/ box/\n");
  writeFileSync(
    join(folder, "etc", "master.cf"),
    [
      `127.0.0.1:${port} inet n - n - - smtpd`,
      ...PERMANENT,
      ...OTHERS.map((one) => `${one.split(" ").join(" unix - - n - - ")}`),
      "virtual unix - n n - - virtual",
      "postlog unix-dgram n - n - 1 postlogd",
      "",
    ].join("\n"),
  );
  const postfix = (verb: string) => run("/usr/sbin/postfix", ["-c", join(folder, "etc"), verb]);
  postfix("start");
  const inbox = join(folder, "mail", "box", "new");
  return {
    port,
    taken: () => readBox(inbox),
    async close() {
      postfix("stop");
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

function postfixSettings(
  folder: string,
  { uid, gid, tls }: { uid: number; gid: number; tls: ServerCertificate },
): string {
  return Object.entries({
    compatibility_level: "3.6",
    queue_directory: join(folder, "queue"),
    data_directory: join(folder, "data"),
    daemon_directory: "/usr/lib/postfix/sbin",
    command_directory: "/usr/sbin",
    mail_owner: "postfix",
    setgid_group: "postdrop",
    inet_interfaces: "127.0.0.1",
    inet_protocols: "ipv4",
    myhostname: "mail.example.com",
    mydestination: "",
    mynetworks: "",
    alias_maps: "",
    local_recipient_maps: "",
    alias_database: "",
    virtual_mailbox_domains: "example.com",
    virtual_mailbox_base: join(folder, "mail"),
    virtual_mailbox_maps: `regexp:${join(folder, "etc", "boxes")}`,
    virtual_uid_maps: `static:${uid}`,
    virtual_gid_maps: `static:${gid}`,
    virtual_minimum_uid: "1",
    maillog_file: join(folder, "log"),
    maillog_file_prefixes: folder,
    smtpd_tls_cert_file: tls.certificate,
    smtpd_tls_key_file: tls.key,
    smtpd_tls_security_level: "encrypt",
    smtpd_tls_received_header: "yes",
    smtpd_relay_restrictions: "reject_unauth_destination",
  })
    .map(([name, value]) => `${name} = ${value}\n`)
    .join("");
}

/** One file per recipient; Postfix writes the envelope and how it got the message into headers of its own. */
function readBox(inbox: string): TakenMail[] {
  let names: string[] = [];
  try {
    names = readdirSync(inbox).sort();
  } catch {
    // Nothing has come yet.
  }
  return names.map((name) => {
    const raw = readFileSync(join(inbox, name));
    const text = raw.toString("latin1");
    const header = (wanted: string): string =>
      new RegExp(`^${wanted}: <?([^>\\r\\n]*)`, "m").exec(text)?.[1] ?? "";
    return {
      from: header("Return-Path"),
      to: [header("Delivered-To")],
      raw,
      isEncrypted: /using TLSv1/.test(text),
      user: null,
    };
  });
}

/**
 * Configuration: environment variables, read once at start by this one module. The list below is the source of
 * `--help` and of the README's table; a wrong value stops the start with one line that names the variable.
 */
import { BlockList, isIP } from "node:net";
import { resolve } from "node:path";
import { Redacted } from "./redacted.ts";

export class ConfigError extends Error {
  override readonly name = "ConfigError";
}

interface Variable<T> {
  readonly name: string;
  readonly about: string;
  /** What the table shows; the value itself comes from `parse(undefined)`. */
  readonly shownDefault: string;
  readonly parse: (text: string | undefined) => T;
}

const wrong = (rule: string): never => {
  throw new ConfigError(rule);
};

function integer(
  name: string,
  about: string,
  fallback: number,
  [min, max]: readonly [number, number],
): Variable<number> {
  const parse = (text: string | undefined): number => {
    if (text === undefined) return fallback;
    const value = /^\d{1,15}$/.test(text) ? Number(text) : Number.NaN;
    return value >= min && value <= max ? value : wrong(`must be a whole number from ${min} to ${max}`);
  };
  return { name, about, shownDefault: String(fallback), parse };
}

function choice<T extends string>(name: string, about: string, options: readonly [T, ...T[]]): Variable<T> {
  const parse = (text: string | undefined): T =>
    text === undefined
      ? options[0]
      : (options.find((o) => o === text) ?? wrong(`must be one of ${options.join(", ")}`));
  return { name, about: `${about} One of: ${options.join(", ")}.`, shownDefault: options[0], parse };
}

function text<T>(
  name: string,
  about: string,
  shownDefault: string,
  parse: (text: string | undefined) => T,
): Variable<T> {
  return { name, about, shownDefault, parse };
}

export function parseRootKey(text: string): Buffer {
  const key = Buffer.from(text.trim(), "base64");
  return key.length === 32 && /^[A-Za-z0-9+/]{43}=$/.test(text.trim())
    ? key
    : wrong("must be 32 bytes in base64 (openssl rand -base64 32)");
}

/** A CIDR list such as `10.0.0.0/8, ::1`; a bare address is itself alone. */
export function parseCidrs(text: string | undefined): BlockList {
  const list = new BlockList();
  for (const entry of (text ?? "")
    .split(",")
    .map((part) => part.trim())
    .filter((part) => part !== "")) {
    const [address = "", prefix, ...rest] = entry.split("/");
    const family = isIP(address);
    const bits = family === 6 ? 128 : 32;
    const length = prefix === undefined ? bits : /^\d{1,3}$/.test(prefix) ? Number(prefix) : -1;
    if (family === 0 || rest.length > 0 || length < 0 || length > bits)
      wrong(`must be a comma-separated list of addresses or CIDR ranges; "${entry}" is neither`);
    list.addSubnet(address, length, family === 6 ? "ipv6" : "ipv4");
  }
  return list;
}

function parseUrl(text: string, protocols: readonly string[]): string {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  return url && protocols.includes(url.protocol)
    ? text.replace(/\/+$/, "")
    : wrong(`must be a URL that starts with ${protocols.map((p) => `${p}//`).join(" or ")}`);
}

const PER_MINUTE = [0, 1_000_000_000] as const;

/** Undefined = this many times a caller's own limit. */
const CALLERS_PER_ORGANISATION = 50;
const perOrganisation = (bucket: string, what: string): Variable<number | undefined> => {
  const name = `KEYWARD_RATE_LIMIT_ORG_${bucket}`;
  const given = integer(name, "", 0, PER_MINUTE);
  return text(
    name,
    `${what} requests per minute of all callers of an organisation together; 0 = off.`,
    `${CALLERS_PER_ORGANISATION} × KEYWARD_RATE_LIMIT_${bucket}`,
    (value) => (value === undefined ? undefined : given.parse(value)),
  );
};

export const VARIABLES = {
  port: integer("PORT", "Port of the HTTP API; 0 takes a free one.", 8080, [0, 65535]),
  host: text("KEYWARD_HOST", "Address to listen on.", "127.0.0.1", (t) =>
    t === undefined
      ? "127.0.0.1"
      : isIP(t) || t === "localhost"
        ? t
        : wrong("must be an IP address or localhost"),
  ),
  dataDir: text(
    "KEYWARD_DATA_DIR",
    "Folder of the embedded PostgreSQL and of the root key file.",
    "./data",
    (t) => resolve(t ?? "./data"),
  ),
  databaseUrl: text(
    "DATABASE_URL",
    "A PostgreSQL to use instead of the embedded one; several nodes may share it.",
    "(embedded)",
    (t) => (t === undefined ? undefined : new Redacted(parseUrl(t, ["postgres:", "postgresql:"]))),
  ),
  databaseConnections: integer(
    "KEYWARD_DATABASE_CONNECTIONS",
    "Connections for writes; reads take up to eight more, background maintenance five, LISTEN two.",
    10,
    [2, 500],
  ),
  rootKey: text(
    "KEYWARD_ROOT_KEY",
    "Root key: 32 bytes in base64. Needed with DATABASE_URL; the embedded default keeps it in the data folder.",
    "(root.key in the data folder)",
    (t) => (t === undefined ? undefined : new Redacted(parseRootKey(t))),
  ),
  rootKeyPrevious: text(
    "KEYWARD_ROOT_KEY_PREVIOUS",
    "While the root key is being changed: the previous one. Keys are rewrapped at the next start; remove it after that.",
    "(none)",
    (t) => (t === undefined ? undefined : new Redacted(parseRootKey(t))),
  ),
  publicUrl: text(
    "KEYWARD_PUBLIC_URL",
    "Address under which users reach this server; used in links.",
    "http://localhost:PORT",
    (t) => (t === undefined ? undefined : parseUrl(t, ["http:", "https:"])),
  ),
  revocationUrl: text(
    "KEYWARD_REVOCATION_URL",
    "Plain http address that certificates name for CRLs, OCSP and CA certificates; clients do not fetch them over https.",
    "KEYWARD_PUBLIC_URL",
    (t) => (t === undefined ? undefined : parseUrl(t, ["http:", "https:"])),
  ),
  trustedProxies: text(
    "KEYWARD_TRUSTED_PROXIES",
    "Proxies whose X-Forwarded-For is trusted (CIDR list).",
    "(none)",
    parseCidrs,
  ),
  rateLimitRead: integer(
    "KEYWARD_RATE_LIMIT_READ",
    "Read requests per minute and caller; 0 = off.",
    6000,
    PER_MINUTE,
  ),
  rateLimitWrite: integer(
    "KEYWARD_RATE_LIMIT_WRITE",
    "Write requests per minute and caller; 0 = off.",
    3000,
    PER_MINUTE,
  ),
  rateLimitOrgRead: perOrganisation("READ", "Read"),
  rateLimitOrgWrite: perOrganisation("WRITE", "Write"),
  rateLimitLogin: integer(
    "KEYWARD_RATE_LIMIT_LOGIN",
    "Logins per minute and IP address; 0 = off.",
    600,
    PER_MINUTE,
  ),
  drainSeconds: integer(
    "KEYWARD_DRAIN_SECONDS",
    "How long a node keeps serving after SIGTERM while /api/ready answers 503, so that load balancers stop using it first.",
    5,
    [0, 600],
  ),
  streamsPerProject: integer(
    "KEYWARD_STREAMS_PER_PROJECT",
    "Event streams (SSE) that a project may have open, over all nodes.",
    10_000,
    [1, 10_000_000],
  ),
  streamsPerIdentity: integer(
    "KEYWARD_STREAMS_PER_IDENTITY",
    "Event streams (SSE) that an identity or user may have open, over all nodes.",
    1000,
    [1, 10_000_000],
  ),
  smtpUrl: text(
    "KEYWARD_SMTP_URL",
    "Mail server for alerts, invitations and forgotten passwords: smtp://user:password@host:587 (STARTTLS; required with ?requireTLS=true) or smtps://…",
    "(no mail)",
    (t) => (t === undefined ? undefined : new Redacted(parseUrl(t, ["smtp:", "smtps:"]))),
  ),
  mailFrom: text(
    "KEYWARD_MAIL_FROM",
    "Sender of mails, such as Keyward <keyward@example.com>.",
    "Keyward <keyward@localhost>",
    (t) =>
      t === undefined || !/[\r\n]/.test(t) ? (t ?? "Keyward <keyward@localhost>") : wrong("must be one line"),
  ),
  invitationsPerHour: integer(
    "KEYWARD_INVITATIONS_PER_HOUR",
    "Invitations that an organisation may mail per hour (the whole instance ten times as many; five to one address); 0 = no limit.",
    200,
    [0, 1_000_000],
  ),
  pagerDutyUrl: text(
    "KEYWARD_PAGERDUTY_URL",
    "PagerDuty's Events API; accounts in Europe use https://events.eu.pagerduty.com/v2/enqueue.",
    "https://events.pagerduty.com/v2/enqueue",
    (t) => (t === undefined ? "https://events.pagerduty.com/v2/enqueue" : parseUrl(t, ["https:", "http:"])),
  ),
  allowPrivateTargets: text(
    "KEYWARD_ALLOW_PRIVATE_TARGETS",
    "Private addresses that webhooks may reach (CIDR list); also allows plain http.",
    "(none)",
    parseCidrs,
  ),
  auditReads: choice(
    "KEYWARD_AUDIT_READS",
    "When a read of secret values reaches the audit log: async = within a second, strict = before the answer, grouped = once a minute per reader, object and address (with a count), off = never.",
    ["async", "strict", "grouped", "off"],
  ),
  auditRetentionDays: integer(
    "KEYWARD_AUDIT_RETENTION_DAYS",
    "Audit rows older than this are deleted, a month at a time; 0 = keep for ever.",
    0,
    [0, 36500],
  ),
  metricsToken: text(
    "KEYWARD_METRICS_TOKEN",
    "Bearer token for GET /metrics; without it there is no /metrics.",
    "(no /metrics)",
    (t) => (t === undefined ? undefined : new Redacted(t)),
  ),
  logLevel: choice("KEYWARD_LOG_LEVEL", "How much to log.", ["info", "debug", "warn", "error", "silent"]),
} as const;

export type Config = { readonly [K in keyof typeof VARIABLES]: ReturnType<(typeof VARIABLES)[K]["parse"]> };

export function readConfig(env: Readonly<Record<string, string | undefined>>): Config {
  const entries = Object.entries(VARIABLES).map(([key, variable]) => {
    const raw = env[variable.name];
    try {
      return [key, variable.parse(raw === undefined || raw.trim() === "" ? undefined : raw)] as const;
    } catch (error) {
      if (error instanceof ConfigError) throw new ConfigError(`${variable.name} ${error.message}.`);
      throw error;
    }
  });
  const config = Object.fromEntries(entries) as unknown as Config;
  if (config.databaseUrl && !config.rootKey) {
    throw new ConfigError(
      "KEYWARD_ROOT_KEY must be set when DATABASE_URL is: every node of a cluster needs the same root key.",
    );
  }
  return config;
}

export function configTable(): string {
  const rows = Object.values(VARIABLES).map((v) => `| \`${v.name}\` | \`${v.shownDefault}\` | ${v.about} |`);
  return ["| variable | default | meaning |", "| --- | --- | --- |", ...rows].join("\n");
}

export function configHelp(): string {
  return Object.values(VARIABLES)
    .map((v) => `  ${v.name.padEnd(30)} ${v.about} Default: ${v.shownDefault}`)
    .join("\n");
}

/** Per minute, by kind; an organisation's follow from its callers' unless they are set. */
export const limitsOf = ({
  rateLimitRead: read,
  rateLimitWrite: write,
  ...more
}: Pick<
  Config,
  "rateLimitRead" | "rateLimitWrite" | "rateLimitLogin" | "rateLimitOrgRead" | "rateLimitOrgWrite"
>) => ({
  read,
  write,
  login: more.rateLimitLogin,
  orgRead: more.rateLimitOrgRead ?? read * CALLERS_PER_ORGANISATION,
  orgWrite: more.rateLimitOrgWrite ?? write * CALLERS_PER_ORGANISATION,
});

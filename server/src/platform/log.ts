import { Writable } from "node:stream";
import { pino } from "pino";

/**
 * JSON lines for machines, one readable line for a person at a terminal. Nothing here prints request bodies or
 * headers; only what callers name is logged, and secrets are passed as `Redacted<T>`, which never prints.
 */
export type Log = Pick<pino.Logger, "debug" | "info" | "warn" | "error" | "fatal">;

const LEVELS: Record<number, string> = {
  10: "TRACE",
  20: "DEBUG",
  30: "INFO ",
  40: "WARN ",
  50: "ERROR",
  60: "FATAL",
};
const HIDDEN = new Set(["level", "time", "msg", "pid", "hostname"]);

function prettyStream(out: NodeJS.WritableStream): Writable {
  return new Writable({
    write(chunk: Buffer, _encoding, done) {
      const line = JSON.parse(chunk.toString()) as Record<string, unknown>;
      const rest = Object.entries(line)
        .filter(([key]) => !HIDDEN.has(key))
        .map(([key, value]) => `${key}=${typeof value === "string" ? value : JSON.stringify(value)}`)
        .join(" ");
      const time = new Date(Number(line["time"])).toISOString().slice(11, 23);
      out.write(
        `${time} ${LEVELS[Number(line["level"])] ?? "?"} ${String(line["msg"] ?? "")}${rest ? `  ${rest}` : ""}\n`,
      );
      done();
    },
  });
}

export function createLog(
  level: string,
  out: NodeJS.WritableStream & { readonly isTTY?: boolean } = process.stdout,
): Log {
  const options: pino.LoggerOptions = { level, base: { pid: process.pid } };
  return out.isTTY
    ? pino(options, prettyStream(out))
    : pino(options, pino.destination({ fd: 1, sync: false }));
}

/**
 * The root cause of an error: what callers are told ("the database cannot be reached") carries its cause, and a
 * host name with several addresses fails at each of them without a message of its own.
 */
export function reasonOf(error: unknown): string {
  const { message, cause, errors, code } = (error ?? {}) as Partial<AggregateError> & {
    readonly code?: string;
  };
  if (cause instanceof Error) return reasonOf(cause);
  const [first] = (errors ?? []) as readonly Error[];
  return message || first?.message || code || "no reason given";
}

export const silentLog: Log = pino({ level: "silent" });

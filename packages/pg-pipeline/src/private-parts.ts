/**
 * The private parts of pg that this package uses: they are undocumented, and a new release may
 * change any of them silently. Answers could then go to the wrong caller. So there is one file
 * that uses them, pg is pinned, and a pg that is another one or looks different is refused before the first statement.
 */
import { createRequire } from "node:module";
import type { Socket } from "node:net";
import type pg from "pg";

/** The connection; cursors and query streams use the same methods. */
export interface Connection {
  readonly stream: Socket;
  parse(message: { name: string; text: string }): void;
  bind(message: { statement: string; values: readonly (string | Buffer | null)[] }): void;
  describe(message: { type: "P"; name: string }): void;
  execute(message: object): void;
  sync(): void;
  on(event: "parseComplete" | "noData", listener: () => void): void;
  on(
    event: "parameterStatus",
    listener: (told: { readonly parameterName: string; readonly parameterValue: string }) => void,
  ): void;
}

interface PrivateParts {
  readonly connection: Connection;
  /** What the first message to the server is made of. */
  readonly connectionParameters: { options?: string };
}

/** Each part by its path from a client; the handlers are how pg tells a query of the messages that are for it. */
export const PARTS: Readonly<Record<string, "function" | "object">> = {
  connectionParameters: "object",
  connection: "object",
  "connection.parse": "function",
  "connection.bind": "function",
  "connection.describe": "function",
  "connection.execute": "function",
  "connection.sync": "function",
  "connection.on": "function",
  "connection.stream": "object",
  "connection.stream.cork": "function",
  "connection.stream.uncork": "function",
  "connection.stream.destroy": "function",
  _handleRowDescription: "function",
  _handleDataRow: "function",
  _handleCommandComplete: "function",
  _handleEmptyQuery: "function",
  _handlePortalSuspended: "function",
  _handleErrorMessage: "function",
  _handleReadyForQuery: "function",
};

export class UnsupportedPgError extends Error {
  override readonly name = "UnsupportedPgError";
}

const require = createRequire(import.meta.url);
const { dependencies } = require("../package.json") as { readonly dependencies: { readonly pg: string } };
const { version: installed } = require("pg/package.json") as { readonly version: string };

/** The pin is the version that the tests ran with. */
export function assertTested(found: string, tested: string): void {
  if (found !== tested)
    throw new UnsupportedPgError(
      `pg ${found} is installed, and this package was tested with pg ${tested} alone: it uses parts of pg that may change ` +
        `with any release. Install that version, or change the pin and run the tests.`,
    );
}

const partAt = (client: object, path: string): unknown =>
  path
    .split(".")
    .reduce<unknown>((part, name) => (part as Record<string, unknown> | null | undefined)?.[name], client);

export function assertShape(client: object): void {
  const missing = Object.entries(PARTS)
    .filter(([path, kind]) => {
      const part = partAt(client, path);
      return part === null || typeof part !== kind;
    })
    .map(([path, kind]) => `client.${path} (${kind})`);
  if (missing.length > 0)
    throw new UnsupportedPgError(`This is not the pg that we know: it lacks ${missing.join(", ")}.`);
}

// Before anything is opened: another pg is refused at import.
assertTested(installed, dependencies.pg);

/** All clients are of one class, or of one that extends it. */
const known = new WeakSet<object>();

export function privatePartsOf(client: pg.ClientBase): PrivateParts {
  if (!known.has(client.constructor)) {
    assertShape(client);
    known.add(client.constructor);
  }
  return client as unknown as PrivateParts;
}

/** The socket below a client, for those who count what comes or cut it off. */
export const streamOf = (client: pg.ClientBase): Socket => privatePartsOf(client).connection.stream;

/** Closes a connection without the Terminate message, because there may be nobody left to read it. */
export const sever = (client: pg.ClientBase): void => void streamOf(client).destroy();

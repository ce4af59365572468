/**
 * A connection with settings of its own. They are sent with the startup message, together with those that a
 * connection string may bring (`?options=…`), and override them: a connection string must not switch off that reading cannot
 * write, or that a statement times out.
 *
 * The connection also knows whether it leads to a standby: PostgreSQL reports it, at the beginning and when
 * that changes. And it knows when it was opened: what is learnt later about the server at the address may not
 * hold for it.
 */
import pg from "pg";
import { privatePartsOf } from "./private-parts.ts";

export interface SessionConfig extends pg.ClientConfig {
  readonly settings?: Readonly<Record<string, string | number>>;
}

/** In the way of a command line, where a backslash keeps white space from ending a value. */
const asOptions = (settings: NonNullable<SessionConfig["settings"]> = {}): string =>
  Object.entries(settings)
    .map(([name, value]) => `-c ${name}=${String(value).replace(/[\\\s]/g, "\\$&")}`)
    .join(" ");

export class SessionClient extends pg.Client {
  isStandby = false;
  readonly askedAt = performance.now();

  constructor(config: SessionConfig = {}) {
    super(config);
    const { connectionParameters, connection } = privatePartsOf(this);
    connectionParameters.options =
      `${connectionParameters.options ?? ""} ${asOptions(config.settings)}`.trim();
    connection.on("parameterStatus", ({ parameterName, parameterValue }) => {
      if (parameterName === "in_hot_standby") this.isStandby = parameterValue === "on";
    });
  }
}

/**
 * A connection with settings of its own. They travel with the connection's first message, together with those that a
 * connection string may bring (`?options=…`), and go before them: an address must not switch off that reading cannot
 * write, or that a statement ends.
 *
 * The connection also knows whether it leads to a standby: PostgreSQL says so by itself, at the beginning and when
 * that changes. And it knows when it was asked for: whatever is learnt about the server at the address later on may not
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

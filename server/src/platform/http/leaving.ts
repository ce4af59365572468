/** Graceful shutdown: connections move to other nodes one by one, and at the end the rest is closed. */
import type { FastifyInstance } from "fastify";

/** Connections that are silent by then, or have not sent their request yet, are closed. */
const LINGER_MS = 700;

/** From now on answers carry `connection: close`, so that clients open a new connection, to another node. */
export const sendElsewhere = (app: FastifyInstance): void =>
  void app.server.prependListener("request", (_request, response) =>
    response.setHeader("connection", "close"),
  );

export async function closeDoor(app: FastifyInstance): Promise<void> {
  const cut = setTimeout(() => app.server.closeAllConnections(), LINGER_MS);
  await app.close();
  clearTimeout(cut);
}

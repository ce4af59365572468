/** How a node leaves: its connections move elsewhere one by one, and at the end whatever is left is cut. */
import type { FastifyInstance } from "fastify";

/** Whatever is connected and silent by then, or has not sent its request yet, had its time to. */
const LINGER_MS = 700;

/** From now on whoever keeps a connection is asked to take another one next time, which leads to another node. */
export const sendElsewhere = (app: FastifyInstance): void =>
  void app.server.prependListener("request", (_request, response) =>
    response.setHeader("connection", "close"),
  );

export async function closeDoor(app: FastifyInstance): Promise<void> {
  const cut = setTimeout(() => app.server.closeAllConnections(), LINGER_MS);
  await app.close();
  clearTimeout(cut);
}

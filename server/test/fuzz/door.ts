/** Sends one request as it stands, odd bytes and all, and hears the answer. */
import { Agent, request as openRequest } from "node:http";
import type { Heard } from "./judge.ts";

/** When nothing at all comes back. */
const GIVE_UP_MS = 60_000;

export interface Wire {
  readonly method: string;
  readonly path: string;
  readonly token: string | undefined;
  readonly body: string | Buffer | undefined;
  readonly type?: string;
}

export function openDoor(base: string) {
  const { hostname, port } = new URL(base);
  const agent = new Agent({ keepAlive: true, maxSockets: 4 });
  const send = (wire: Wire): Promise<Heard> =>
    new Promise((resolve, reject) => {
      const isLarge = (wire.body?.length ?? 0) > 1_000_000;
      const call = openRequest({
        hostname,
        port,
        agent: isLarge ? false : agent,
        method: wire.method,
        path: wire.path,
        headers: {
          ...(wire.body === undefined
            ? {}
            : {
                "content-type": wire.type ?? "application/json",
                "content-length": Buffer.byteLength(wire.body),
              }),
          ...(wire.token === undefined ? {} : { authorization: `Bearer ${wire.token}` }),
        },
      });
      const guard = setTimeout(
        () => call.destroy(new Error(`no answer within ${GIVE_UP_MS} ms`)),
        GIVE_UP_MS,
      );
      let answered = false;
      call.on("response", (answer) => {
        answered = true;
        const { statusCode: status = 0, headers } = answer;
        const type = headers["content-type"] ?? "";
        const heard = { status, type, requestId: headers["x-request-id"] as string | undefined };
        const finish = (text: string) => {
          clearTimeout(guard);
          resolve({ ...heard, text });
        };
        if (status === 200 && type.startsWith("text/event-stream")) {
          answer.destroy();
          return finish("");
        }
        const chunks: Buffer[] = [];
        answer.on("data", (chunk: Buffer) => chunks.push(chunk));
        answer.on("end", () => finish(Buffer.concat(chunks).toString()));
        answer.on("error", reject);
      });
      call.on("error", (error: NodeJS.ErrnoException) => {
        clearTimeout(guard);
        // A body over the limit is refused before it is read to its end; the refusal may be lost on the way.
        if (!answered && isLarge && (error.code === "EPIPE" || error.code === "ECONNRESET"))
          resolve({
            status: 413,
            type: "application/json",
            requestId: undefined,
            text: '{"reqId":"","statusCode":413,"error":"cut","message":"cut"}',
          });
        else if (!answered) reject(error);
      });
      call.end(wire.body);
    });
  return { send, close: () => agent.destroy() };
}

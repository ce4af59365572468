// A heavy neighbour, in a process of its own so that what it receives is not the measuring client's work: as many
// connections as it is told, each sending the next of its requests as soon as the last is answered. Who is told to come
// back later does, as every client of this API: a flood of refusals is for the limits of requests per minute, which are
// off here.
import http from "node:http";

const { base, requests, connections } = JSON.parse(process.env.CROWD);
const agent = new http.Agent({ keepAlive: true, maxSockets: connections });
const { hostname, port } = new URL(base);
const statuses = {};
let turn = 0;
let isOver = false;

function ask({ method, path, headers, body }) {
  const text = body === undefined ? undefined : JSON.stringify(body).replaceAll("$n", String(turn));
  return new Promise((resolve) => {
    const request = http.request({
      ...{ agent, hostname, port, method, path: path.replaceAll("$n", String(turn)) },
      headers: {
        ...headers,
        ...(text === undefined
          ? {}
          : { "content-type": "application/json", "content-length": Buffer.byteLength(text) }),
      },
    });
    request.on("response", (response) => {
      statuses[response.statusCode] = (statuses[response.statusCode] ?? 0) + 1;
      const rest = Number(response.headers["retry-after"] ?? 0) * 1000;
      const done = () => setTimeout(resolve, rest);
      response.on("end", done).on("close", done).resume();
    });
    request.on("error", () => resolve());
    request.end(text);
  });
}

for (let n = 0; n < connections; n += 1)
  void (async () => {
    while (!isOver) {
      const request = requests[(turn += 1) % requests.length];
      await ask(request);
    }
  })();
console.log("http://ready");
process.on("SIGTERM", () => {
  isOver = true;
  console.log(JSON.stringify(statuses));
  process.exit(0);
});

// node bench/token-check.mjs: what checking an access token costs, alone and in this process: the whole way from the
// Authorization header to the actor, with the token's state remembered, as it is for every request but a token's first.
import { aProject, anIdentity } from "../server/dist/test/builders.js";
import { openTestHouse } from "../server/dist/test/harness.js";

const house = await openTestHouse();
try {
  const project = await aProject(house.owner);
  const { token } = await anIdentity(house.owner, house.base, project.id);
  const { authenticate } = house.house.authentication;
  const caller = { requestId: "bench", ip: "127.0.0.1", userAgent: "" };
  const header = `Bearer ${token}`;
  const rounds = [];
  for (let round = 0; round < 7; round += 1) {
    const from = process.hrtime.bigint();
    for (let n = 0; n < 20_000; n += 1) await authenticate(header, caller);
    rounds.push(Number(process.hrtime.bigint() - from) / 20_000 / 1000);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  rounds.sort((a, b) => a - b);
  console.log(
    `a token check takes ${rounds[3].toFixed(1)} µs (median of 7 rounds of 20,000; ${rounds[0].toFixed(1)} … ${rounds[6].toFixed(1)})`,
  );
} finally {
  await house.close();
}

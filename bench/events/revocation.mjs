// A token is revoked on one node: when does its stream end on the other?
import { now, setClock } from "./clock.mjs";
import { pause, quantile, show } from "./figures.mjs";
import { api } from "./stage.mjs";

export async function revocation(stage, { count = 100 } = {}, say = () => {}) {
  const { near, far, holder, token, projectId } = stage;
  const { identity } = await api(near, token, "POST", `/api/v1/projects/${projectId}/identities`, {
    name: "bench",
    roles: [{ role: "viewer" }],
  });
  const tokenAuth = `/api/v1/auth/token-auth/identities/${identity.id}`;
  await api(near, token, "POST", tokenAuth, {});
  const tokens = [];
  for (let n = 0; n < count; n += 1)
    tokens.push((await api(near, token, "POST", `${tokenAuth}/tokens`, {})).accessToken);
  await holder.ask("expect", { events: 0, streams: count });
  await holder.ask("open", { tokens, port: far.port, projectId });
  setClock();
  const revokedAt = new Map();
  for (const one of tokens) {
    await api(near, undefined, "POST", "/api/v1/auth/token/revoke", { accessToken: one });
    revokedAt.set(one, now());
  }
  await pause(1500);
  const closed = await holder.ask("closed");
  await holder.ask("close");
  const waits = closed.map(({ token: one, at }) => at - revokedAt.get(one));
  const figures = { closed: closed.length, p50: quantile(waits, 0.5), p99: quantile(waits, 0.99) };
  say(
    `revoke on one node → closed on the other: ${closed.length} of ${count}, p50 ${show(figures.p50)} ms, p99 ${show(figures.p99)} ms after the answer`,
  );
  if (closed.length < count) throw new Error(`${count - closed.length} streams outlived their token`);
  return figures;
}

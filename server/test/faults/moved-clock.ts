/**
 * Loaded before a server (`--import`), moves what its `Date` says by the milliseconds in a file, read again at each
 * SIGUSR2: the calendar of one running process steps, as after a wrong NTP answer, while stopwatches and timers, the
 * database and the other nodes go on as before.
 */
import { readFileSync } from "node:fs";

const file = process.env["KEYWARD_TEST_CLOCK"];
if (file !== undefined) {
  const RealDate = Date;
  let offset = 0;
  const read = (): void => {
    offset = Number(readFileSync(file, "utf8"));
  };
  read();
  process.on("SIGUSR2", read);
  globalThis.Date = new Proxy(RealDate, {
    construct: (target, args: unknown[], newTarget) =>
      Reflect.construct(target, args.length === 0 ? [RealDate.now() + offset] : args, newTarget) as Date,
    apply: () => new RealDate(RealDate.now() + offset).toString(),
    get: (target, key, receiver) =>
      key === "now" ? () => RealDate.now() + offset : (Reflect.get(target, key, receiver) as unknown),
  });
}

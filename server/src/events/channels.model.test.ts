import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { eventMessage } from "./contract.ts";
import { MAX_LINE_BYTES, messagesOf } from "./channels.model.ts";
import { sized } from "../../test/full-size.ts";

const text = (maxLength: number) => fc.string({ unit: "binary", minLength: 1, maxLength });

describe("the messages of an event", () => {
  it("say every key once and in order, in lines that no reader can break or refuse", () => {
    const keys = fc.array(text(255), { minLength: 1, maxLength: 60 });
    fc.assert(
      fc.property(
        fc.constantFrom("create" as const, "update" as const, "delete" as const),
        text(64),
        text(2000),
        keys,
        (change, environment, path, names) => {
          const type = `secret:${change}` as const;
          const messages = messagesOf({ type, environment, path, keys: names });
          const said: string[] = [];
          for (const message of messages) {
            assert.ok(Buffer.byteLength(`data: ${message}`) <= MAX_LINE_BYTES);
            assert.doesNotMatch(message, /[\r\n\v\f\u0085\u2028\u2029]/);
            const { data } = eventMessage.parse(JSON.parse(message));
            assert.equal(data.eventType, type);
            assert.ok(Array.isArray(data.payload) && data.payload.length > 0);
            for (const item of data.payload) {
              assert.deepEqual([item.environment, item.secretPath], [environment, path]);
              said.push(item.secretKey);
            }
          }
          assert.deepEqual(said, names);
        },
      ),
      { numRuns: sized(75, 300) },
    );
  });

  it("fill a line before they begin another", () => {
    const keys = Array.from({ length: 1000 }, (_, n) => `KEY_${String(n).padStart(4, "0")}`);
    const messages = messagesOf({ type: "secret:create", environment: "dev", path: "/", keys });
    assert.equal(messages.length, Math.ceil(Buffer.byteLength(messages.join("")) / MAX_LINE_BYTES));
  });

  it("of an import mutation name the folder alone, as one object", () => {
    const [message, ...more] = messagesOf({
      type: "secret:import-mutation",
      environment: "dev",
      path: "/a",
      keys: null,
    });
    assert.deepEqual(more, []);
    assert.deepEqual(JSON.parse(message ?? ""), {
      projectType: "secret-manager",
      data: { eventType: "secret:import-mutation", payload: { environment: "dev", secretPath: "/a" } },
    });
  });
});

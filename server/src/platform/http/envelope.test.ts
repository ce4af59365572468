import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { silentLog } from "../log.ts";
import { Problem } from "../problem.ts";
import { asProblem } from "./envelope.ts";

const told = (error: unknown) => {
  const { status, error: name, message } = asProblem(error, silentLog, "req-1");
  return { status, name, message };
};

describe("what is thrown", () => {
  it("is told as it is if it was foreseen", () => {
    const problem = new Problem(409, "Conflict", "It exists.");
    assert.equal(asProblem(problem, silentLog, "req-1"), problem);
  });

  it("is the caller's fault if the framework says so, in words of ours", () => {
    for (const statusCode of [400, 431, 499]) {
      const { status, name, message } = told(Object.assign(new Error("raw detail"), { statusCode }));
      assert.deepEqual([status, name], [400, "BadRequest"]);
      assert.doesNotMatch(message, /raw detail/);
    }
    assert.equal(told(Object.assign(new Error(), { code: "FST_ERR_CTP_BODY_TOO_LARGE" })).status, 413);
  });

  it("is our bug in any other case, and tells nothing of itself", () => {
    for (const error of [new Error("hunter2"), "hunter2", null, { statusCode: 399 }, { statusCode: 500 }]) {
      const { status, name, message } = told(error);
      assert.deepEqual([status, name], [500, "InternalServerError"]);
      assert.doesNotMatch(message, /hunter2/);
    }
  });
});

/** The command was called in a way that cannot be meant: exit code 2. */
export class UsageError extends Error {
  override readonly name = "UsageError";
}

/** It was understood and did not work out: exit code 1. The message is for a person; there is no stack to show. */
export class Failure extends Error {
  override readonly name = "Failure";
}

/**
 * Trying a password. Guesses are counted before the password is checked, so that many at once cannot slip past the
 * count, and only a wrong password stays counted: a try that was not checked (no turn) does not count. Tries for
 * one account from one address take turns, so that right passwords sent at once do not count as
 * failures against each other. An address without an account is counted and locked like one that has an account:
 * the answers give away nothing (S-01, S-14).
 */
import { createHmac } from "node:crypto";
import { systemActor, type Caller } from "../../platform/actor.ts";
import type { Clock } from "../../platform/clock.ts";
import { checkPassword, type Keyring } from "../../platform/crypto/index.ts";
import type { Db } from "../../platform/db/index.ts";
import { networkOf, regionOf } from "../../platform/http/index.ts";
import type { Problem } from "../../platform/problem.ts";
import type { Redacted } from "../../platform/redacted.ts";
import type { UserRow } from "../../users/index.ts";
import { countFailure, findLockout, uncountFailure, type LoginAttempt } from "../lockouts.store.ts";
import { credentialsWrong, lockedOut } from "../model.ts";
import { auditAccount } from "../trail.ts";
import { isKnownNetwork } from "./attempts.store.ts";

export const PASSWORD_METHOD = "password";
/** Counted before it is known to be one: the sixth that comes finds five. */
const LOCKOUT = { threshold: 6, lockSeconds: 300, resetSeconds: 900 };

interface PasswordTry {
  readonly email: string;
  readonly user: UserRow | undefined;
  readonly password: Redacted<string>;
  readonly caller: Caller;
}

interface PasswordAttempts {
  /** Does `onRight` if the password is the user's, and throws what to answer otherwise. */
  attempt<T>(given: PasswordTry, onRight: (user: UserRow) => Promise<T>): Promise<T>;
}

/** Undefined = not locked. */
const lockOf = (until: Date | null | undefined, now: Date): Problem | undefined =>
  until && until > now ? lockedOut(Math.ceil((until.getTime() - now.getTime()) / 1000)) : undefined;

export function createPasswordAttempts(needs: {
  readonly db: Db;
  readonly clock: Clock;
  readonly keyring: Keyring;
}): PasswordAttempts {
  const { db, clock, keyring } = needs;
  const turns = new Map<string, Promise<unknown>>();

  const inTurn = async <T>(key: string, work: () => Promise<T>): Promise<T> => {
    const mine = (turns.get(key) ?? Promise.resolve()).then(work);
    const done = mine.catch(() => undefined);
    turns.set(key, done);
    try {
      return await mine;
    } finally {
      if (turns.get(key) === done) turns.delete(key);
    }
  };

  /** Whose failures are counted when there is no account: an id that no account has, the same for every try. */
  const standInFor = (email: string): string => {
    const key = keyring.instanceKey("credential-lookup");
    const hex = createHmac("sha256", key).update(`unknown-account:${email}`).digest("hex");
    return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20, 32)].join(
      "-",
    );
  };

  const reserve = async (
    attempt: LoginAttempt,
  ): Promise<{ locked?: Problem | undefined; isKnown: boolean }> => {
    const now = clock.now();
    // The same queries whether or not there is such an account.
    const [lockout, isKnown] = await db.read((q) =>
      Promise.all([findLockout(q, attempt), isKnownNetwork(q, attempt.subjectId, attempt.address, now)]),
    );
    const locked = lockOf(lockout?.lockedUntil, now);
    if (locked) return { locked, isKnown };
    const counted = await db.write((tx) => countFailure(tx, attempt, LOCKOUT, now), { audited: false });
    return { locked: lockOf(counted?.lockedUntil, now), isKnown };
  };

  /** The outcome is final, whether or not this can be stored. */
  const takeBack = (attempt: LoginAttempt): Promise<unknown> =>
    db.write((tx) => uncountFailure(tx, attempt, LOCKOUT), { audited: false }).catch(() => undefined);

  const refused = (user: UserRow | undefined, caller: Caller, reason: string): Promise<void> =>
    db.write((tx) =>
      auditAccount(tx, systemActor("login", caller), user?.id, {
        event: "login-refused",
        metadata: { method: PASSWORD_METHOD, reason, userId: user?.id ?? null },
      }),
    );

  return {
    attempt({ email, user, password, caller }, onRight) {
      const subjectId = user?.id ?? standInFor(email);
      const network = networkOf(caller.ip);
      return inTurn(`${subjectId} ${network}`, async () => {
        const attempt = { subjectId, method: PASSWORD_METHOD, address: network };
        const { locked, isKnown } = await reserve(attempt);
        if (locked) {
          await refused(user, caller, "locked-out");
          throw locked;
        }
        const from = { account: subjectId, network, region: regionOf(caller.ip), isKnown };
        try {
          const isRight = await checkPassword(password, user?.passwordHash ?? undefined, from);
          if (user && isRight) return await onRight(user);
        } catch (error) {
          await takeBack(attempt);
          throw error;
        }
        await refused(user, caller, user ? "wrong-password" : "unknown-account");
        throw credentialsWrong();
      });
    },
  };
}

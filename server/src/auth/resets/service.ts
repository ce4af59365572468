/**
 * A forgotten password is reset through the account's mail. A request is answered before anything is looked up,
 * so that neither the message nor the time tells whether an address has an account (S-14). The token is 256 random bits, of
 * which only a keyed hash is kept; it works once and for half an hour, and using it ends every session of the person.
 */
import { createHmac, randomBytes } from "node:crypto";
import { systemActor, type Caller, type UserActor } from "../../platform/actor.ts";
import type { Clock } from "../../platform/clock.ts";
import { hashPassword, type Keyring } from "../../platform/crypto/index.ts";
import type { Db } from "../../platform/db/index.ts";
import { newId } from "../../platform/ids.ts";
import type { Log } from "../../platform/log.ts";
import { badRequest, unauthorized, type Problem } from "../../platform/problem.ts";
import type { Redacted } from "../../platform/redacted.ts";
import { renderMail, type Mailer } from "../../notifications/index.ts";
import { findUser, findUserByEmail, holdUser, setPasswordHash, type UserRow } from "../../users/index.ts";
import { sessionsChanged } from "../events.ts";
import { forgetFailures } from "../lockouts.store.ts";
import { PASSWORD_METHOD } from "../sessions/attempts.ts";
import { revokeSessions } from "../sessions/store.ts";
import { auditAccount } from "../trail.ts";
import { dropReset, dropResetsOf, findReset, insertReset, sweepResets, takeReset } from "./store.ts";

interface PasswordResetNeeds {
  readonly db: Db;
  readonly clock: Clock;
  readonly log: Log;
  readonly keyring: Keyring;
  readonly mailer: Mailer | undefined;
  /** Where people reach this server. */
  readonly publicUrl: string;
}

const VALID_SECONDS = 1800;
/** Mails in half an hour: enough for people who wait for one, and few enough for those who did not ask. */
const MOST_OPEN = 3;
const METHOD = "password-reset";

const linkWorthless = (): Problem =>
  unauthorized("This link is not valid, or not any more. Ask for a new one.");

const asActor = (user: UserRow, caller: Caller): UserActor => ({
  kind: "user",
  id: user.id,
  name: user.email,
  orgId: null,
  tokenId: "",
  authMethod: METHOD,
  isInstanceAdmin: user.isInstanceAdmin,
  caller,
});

export type PasswordResets = ReturnType<typeof createPasswordResets>;

export function createPasswordResets({ db, clock, log, keyring, mailer, publicUrl }: PasswordResetNeeds) {
  /** The purpose is part of what is hashed: no digest of another kind of credential can stand in for this one. */
  const digestOf = (token: string): Buffer =>
    createHmac("sha256", keyring.instanceKey("credential-lookup")).update(`${METHOD}:${token}`).digest();

  const letterTo = (email: string, token: string) =>
    renderMail({
      subject: "Replace your password",
      sentences: [
        `Somebody, hopefully you, asked for a new password for the account ${email} at ${publicUrl}.`,
      ],
      link: { words: "Choose a new password", url: `${publicUrl}/password-reset#${token}` },
      after: [
        "The link works once, within half an hour. If you did not ask for it, do nothing: your password stays as it is.",
      ],
    });

  const open = (user: UserRow | undefined, token: string, caller: Caller): Promise<string | undefined> =>
    db.write(async (tx) => {
      const at = clock.now();
      const id = newId();
      const expiresAt = new Date(at.getTime() + VALID_SECONDS * 1000);
      const isOpen =
        user !== undefined &&
        (await insertReset(tx, { id, userId: user.id, digest: digestOf(token), expiresAt, at }, MOST_OPEN));
      await auditAccount(tx, systemActor("login", caller), user?.id, {
        event: "request-password-reset",
        metadata: { userId: user?.id ?? null, isMailed: isOpen },
      });
      return isOpen ? id : undefined;
    });

  const mail = async (post: Mailer, email: string, caller: Caller): Promise<void> => {
    const user = await db.read((q) => findUserByEmail(q, email));
    const token = `kwr_${randomBytes(32).toString("base64url")}`;
    const id = await open(user, token, caller);
    if (!user || id === undefined) return;
    const outcome = await post.send({ id, sender: METHOD, to: [user.email], ...letterTo(user.email, token) });
    if (outcome.kind === "taken") return;
    // The mail was not sent, so the reset does not count as open.
    await db.write((tx) => dropReset(tx, id), { audited: false });
    log.warn({ reason: outcome.reason }, "the mail server did not take a mail about a forgotten password");
  };

  const refuse = async (caller: Caller): Promise<Problem> => {
    const metadata = { method: METHOD, reason: "unknown-link" };
    await db.write((tx) =>
      auditAccount(tx, systemActor("login", caller), undefined, { event: "login-refused", metadata }),
    );
    return linkWorthless();
  };

  return {
    request(email: string, caller: Caller): void {
      if (!mailer)
        throw badRequest(
          "This instance sends no mail, so it cannot replace a forgotten password. Ask its operator.",
        );
      mail(mailer, email, caller).catch((error: unknown) =>
        log.warn({ reason: (error as Error).message }, "a forgotten password could not be looked into"),
      );
    },

    async confirm(token: Redacted<string>, next: Redacted<string>, caller: Caller): Promise<void> {
      const digest = digestOf(token.open());
      const found = await db.read((q) => findReset(q, digest, clock.now()));
      const user = found && (await db.read((q) => findUser(q, found.userId)));
      // Before anything is hashed: nobody without a good link makes us do that.
      if (!user) throw await refuse(caller);
      const hash = await hashPassword(next, user.id);
      await db.write(async (tx) => {
        // Failed guesses at the old password do not matter any more. First, as in every login.
        await forgetFailures(tx, user.id, PASSWORD_METHOD, null);
        // Of two links used at once one is too late.
        await holdUser(tx, user.id);
        if (!(await takeReset(tx, digest, clock.now()))) throw linkWorthless();
        await setPasswordHash(tx, user.id, hash, clock.now());
        await revokeSessions(tx, user.id);
        await dropResetsOf(tx, user.id);
        await auditAccount(tx, asActor(user, caller), user.id, { event: "reset-password", metadata: {} });
        tx.emit(sessionsChanged({ userId: user.id, sessionId: null }));
      });
    },

    async sweep(): Promise<void> {
      await db.write((tx) => sweepResets(tx, clock.now()), { audited: false });
    },
  };
}

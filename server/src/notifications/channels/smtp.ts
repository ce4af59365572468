/**
 * The way to the operator's mail server: `smtp://user:password@host:587` (STARTTLS when the server offers it, and
 * required with `?requireTLS=true`) or `smtps://…` (TLS from the start).
 */
import { createTransport } from "nodemailer";
import type { Redacted } from "../../platform/redacted.ts";
import { createFairQueue } from "../../platform/fair-queue.ts";
import type { DeliveryOutcome } from "../contract.ts";
import { reasonOf } from "./http-outcome.ts";

interface Mail {
  readonly id: string;
  /** In whose turn it is sent. */
  readonly sender: string;
  readonly to: readonly string[];
  readonly subject: string;
  readonly text: string;
  readonly html: string;
}

/** Someone who did not take a mail that others took. */
export interface SmtpRefusal {
  readonly address: string;
  readonly reason: string;
  /** May take it later. */
  readonly isPassing: boolean;
}

export interface Mailer {
  /** Besides the outcome, who among several did not take it. */
  send(mail: Mail): Promise<DeliveryOutcome & { readonly refusals?: readonly SmtpRefusal[] }>;
  close(): void;
}

interface SmtpError {
  readonly code?: string;
  readonly command?: string;
  readonly responseCode?: number;
  readonly response?: string;
  readonly recipient?: string;
  readonly rejectedErrors?: readonly SmtpError[];
}

/** RFC 4954: a login is missing, too weak or wrong. */
const LOGIN_CODES = new Set([530, 534, 535, 538]);

/** A refusal that does not depend on the recipient: sender, login, relaying or policy. The operator has to fix that. */
const isAboutUs = ({ command, responseCode = 0, response = "" }: SmtpError): boolean =>
  command === "MAIL FROM" ||
  LOGIN_CODES.has(responseCode) ||
  /^5\d\d[ -]5\.7\.\d/.test(response) ||
  /\brelay/i.test(response);

/** A 5xx about this message or its recipients is final, any other may pass. */
const isFinal = (error: SmtpError): boolean =>
  (error.code === "EENVELOPE" || error.code === "EMESSAGE") &&
  (error.responseCode ?? 0) >= 500 &&
  !isAboutUs(error);

const refusalOf = (error: SmtpError): SmtpRefusal => ({
  address: error.recipient ?? "",
  reason: reasonOf({ message: error.response ?? "refused" }),
  isPassing: !isFinal(error),
});

function judge(error: unknown): Awaited<ReturnType<Mailer["send"]>> {
  const all = (error as SmtpError).rejectedErrors ?? [];
  const reason = reasonOf(error);
  const isOver = all.length > 0 ? all.every(isFinal) : isFinal(error as SmtpError);
  return { kind: isOver ? "refused" : "later", reason, refusals: all.map(refusalOf) };
}

const domainOf = (from: string): string => /@([A-Za-z0-9.-]+)>?\s*$/.exec(from)?.[1] ?? "keyward.local";

const CONNECTIONS = 4;

export function createMailer(url: Redacted<string>, from: string): Mailer {
  const transport = createTransport(
    {
      url: url.open(),
      pool: true,
      maxConnections: CONNECTIONS,
      connectionTimeout: 10_000,
      greetingTimeout: 10_000,
      socketTimeout: 20_000,
      // A message is made of strings; nothing in it may ever name a file or an address to fetch.
      disableFileAccess: true,
      disableUrlAccess: true,
    },
    { from },
  );
  // One sender's thousand mails leave a connection for others.
  const turns = createFairQueue({
    what: "mails are being sent",
    places: CONNECTIONS,
    perTenant: CONNECTIONS - 1,
    waitingPerTenant: 64,
    waiting: 512,
    patienceMs: 20_000,
  });
  return {
    async send({ id, sender, to, subject, text, html }) {
      let leave: () => void;
      try {
        leave = await turns.take(sender);
      } catch (error) {
        return { kind: "later", reason: reasonOf(error) };
      }
      try {
        const { rejectedErrors = [] } = await transport.sendMail({
          messageId: `<${id}@${domainOf(from)}>`,
          to: to.map((address) => ({ name: "", address })),
          subject,
          text,
          html,
          headers: { "Auto-Submitted": "auto-generated", "X-Auto-Response-Suppress": "All" },
        });
        return { kind: "taken", refusals: (rejectedErrors as SmtpError[]).map(refusalOf) };
      } catch (error) {
        return judge(error);
      } finally {
        leave();
      }
    },
    close: () => transport.close(),
  };
}

/**
 * The way to the operator's mail server: `smtp://user:password@host:587` (STARTTLS when the server offers it, and
 * demanded with `?requireTLS=true`) or `smtps://…` (TLS from the start).
 */
import { createTransport } from "nodemailer";
import type { Sealed } from "../../platform/sealed.ts";
import type { Outcome } from "../contract.ts";
import { reasonOf } from "./http-outcome.ts";

export interface Mail {
  readonly id: string;
  readonly to: readonly string[];
  readonly subject: string;
  readonly text: string;
  readonly html: string;
}

export interface Mailer {
  send(mail: Mail): Promise<Outcome>;
  close(): void;
}

interface SmtpError {
  readonly code?: string;
  readonly responseCode?: number;
}

/** A 5xx about this message or its recipients is final; a 5xx about our login is the operator's to mend. */
function judge(error: unknown): Outcome {
  const { code, responseCode = 0 } = error as SmtpError;
  const reason = reasonOf(error);
  const isAboutTheMail = code === "EENVELOPE" || code === "EMESSAGE";
  return isAboutTheMail && responseCode >= 500 ? { kind: "refused", reason } : { kind: "later", reason };
}

const domainOf = (from: string): string => /@([A-Za-z0-9.-]+)>?\s*$/.exec(from)?.[1] ?? "keyward.local";

export function createMailer(url: Sealed<string>, from: string): Mailer {
  const transport = createTransport(
    {
      url: url.open(),
      pool: true,
      maxConnections: 4,
      connectionTimeout: 10_000,
      greetingTimeout: 10_000,
      socketTimeout: 20_000,
      // A message is made of strings; nothing in it may ever name a file or an address to fetch.
      disableFileAccess: true,
      disableUrlAccess: true,
    },
    { from },
  );
  return {
    async send({ id, to, subject, text, html }) {
      try {
        await transport.sendMail({
          messageId: `<${id}@${domainOf(from)}>`,
          to: to.map((address) => ({ name: "", address })),
          subject,
          text,
          html,
          headers: { "Auto-Submitted": "auto-generated", "X-Auto-Response-Suppress": "All" },
        });
        return { kind: "taken" };
      } catch (error) {
        return judge(error);
      }
    },
    close: () => transport.close(),
  };
}

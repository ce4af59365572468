/** E-mail: one message to all recipients of a channel, as text and as HTML, its Message-ID the delivery's id. */
import { z } from "zod";
import type { Channel } from "./channel.ts";
import { htmlBody, subjectOf, textBody } from "./email-message.ts";
import type { DeliveryOutcome } from "../contract.ts";
import type { Mailer, SmtpRefusal } from "./smtp.ts";

interface EmailSettings {
  readonly recipients: readonly string[];
}

// Narrower than RFC 5322 on purpose: nothing that could end a header, open a comment or add a second address.
const address = z
  .string()
  .trim()
  .max(254)
  .regex(
    /^[^\s@<>()[\]\\,;:"\u0000-\u001f\u007f]{1,64}@(?:[\p{L}\p{N}](?:[\p{L}\p{N}-]{0,61}[\p{L}\p{N}])?\.)*[\p{L}\p{N}](?:[\p{L}\p{N}-]{0,61}[\p{L}\p{N}])?$/u,
    "must be an e-mail address",
  )
  .refine((text) => !/^\.|\.\.|\.@/.test(text), "must be an e-mail address");

export function emailChannel({ mailer }: { readonly mailer: Mailer | undefined }): Channel<EmailSettings> {
  return {
    type: "email",
    recognisedBy: "recipients",
    resolves: false,
    settings: z.object({ recipients: z.array(address).min(1).max(10) }),
    show: ({ recipients }) => ({ recipients }),
    merge: (_stored, given) => given,
    address: ({ recipients }) => [...recipients].sort().join(" "),
    destination: () => "smtp",
    objection: () => undefined,
    async send({ recipients }, notice) {
      if (!mailer) return { kind: "unready", reason: "No mail server is configured: set KEYWARD_SMTP_URL." };
      const places = notice.remainingRecipients ?? [...recipients.keys()];
      const to = places.flatMap((place) => recipients[place] ?? []);
      const { refusals = [], ...outcome } = await mailer.send({
        id: notice.id,
        // Who among the alerts comes first is settled where they are delivered.
        sender: "alerts",
        to,
        subject: subjectOf(notice),
        text: textBody(notice),
        html: htmlBody(notice),
      });
      const hasOthers = outcome.kind === "taken" || to.length < recipients.length;
      return hasOthers && refusals.length > 0 ? partlyTaken(recipients, refusals) : outcome;
    },
  };
}

/** Recipients who have it are left out. Those who refused for good are tried again with the rest, so that all stay visible. */
function partlyTaken(recipients: readonly string[], refusals: readonly SmtpRefusal[]): DeliveryOutcome {
  const names = refusals.map(({ address, reason }) => `${address}: ${reason}`).join("; ");
  const text = `not taken by ${names}`.slice(0, 1000);
  if (!refusals.some((one) => one.isPassing)) return { kind: "taken", remark: text };
  const remainingRecipients = refusals.flatMap(({ address }) => {
    const place = recipients.findIndex((one) => one.toLowerCase() === address.toLowerCase());
    return place < 0 ? [] : [place];
  });
  return { kind: "later", reason: text, remainingRecipients };
}

/** E-mail: one message to all recipients of a channel, as text and as HTML, its Message-ID the delivery's id. */
import { z } from "zod";
import type { Channel } from "./channel.ts";
import { htmlBody, subjectOf, textBody } from "./email-message.ts";
import type { Mailer } from "./smtp.ts";

export interface EmailSettings {
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
      return mailer.send({
        id: notice.id,
        to: recipients,
        subject: subjectOf(notice),
        text: textBody(notice),
        html: htmlBody(notice),
      });
    },
  };
}

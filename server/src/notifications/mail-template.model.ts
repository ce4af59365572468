/** A mail to one person: a few sentences and one link, as text and as HTML that loads nothing from anywhere. */
import { oneLine } from "./model.ts";
import { escapeHtml } from "../platform/html.ts";

interface MailTemplate {
  readonly subject: string;
  readonly sentences: readonly string[];
  readonly link: { readonly words: string; readonly url: string };
  readonly after: readonly string[];
}

interface RenderedMail {
  readonly subject: string;
  readonly text: string;
  readonly html: string;
}

const paragraph = (text: string): string => `<p>${escapeHtml(text)}</p>`;

export function renderMail({ subject, sentences, link, after }: MailTemplate): RenderedMail {
  const title = oneLine(`[Keyward] ${subject}`, 180);
  // Names that people chose stand in some of them: none may begin a line of its own.
  const [before, behind] = [sentences, after].map((list) => list.map((one) => oneLine(one, 1000))) as [
    string[],
    string[],
  ];
  return {
    subject: title,
    text: `${[...before, `${link.words}:\n${link.url}`, ...behind].join("\n\n")}\n`,
    html: `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>${escapeHtml(title)}</title></head>
<body style="margin:0;padding:24px;font-family:-apple-system,'Segoe UI',Roboto,Helvetica,Arial,sans-serif;color:#1d2733;">
${before.map(paragraph).join("\n")}
<p><a href="${escapeHtml(link.url)}" style="color:#0b5cad;font-weight:bold;">${escapeHtml(link.words)}</a></p>
${behind.map(paragraph).join("\n")}
</body></html>
`,
  };
}

/**
 * What a message's link leads to. The reader has no token here, so the page says nothing that was not in the
 * link: it gives the commands that show the rest to people with the rights. No script, no style, nothing loaded.
 */
import { escapeHtml } from "../../platform/html.ts";

export const linkPageCsp = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

interface LinkPage {
  readonly title: string;
  readonly words: string;
  readonly lines: readonly string[];
}

const pageOf = ({ title, words, lines }: LinkPage): string => `<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><meta name="robots" content="noindex"><title>${escapeHtml(title)}</title></head>
<body>
<h1>${escapeHtml(title)}</h1>
<p>${escapeHtml(words)}</p>
${lines.map((line) => `<pre><code>${escapeHtml(line)}</code></pre>`).join("\n")}
</body>
</html>
`;

const curl = (publicUrl: string, path: string): string =>
  `curl -H "Authorization: Bearer $TOKEN" '${publicUrl}${path}'`;

export const certificatePage = (publicUrl: string, certificateId: string): string =>
  pageOf({
    title: `Certificate ${certificateId}`,
    words: "A message of Keyward spoke of this certificate. With rights in its project you can look at it:",
    lines: [
      `keyward certs show ${certificateId}`,
      curl(publicUrl, `/api/v1/cert-manager/certificates/${certificateId}`),
    ],
  });

export const alertPage = (publicUrl: string, alertId: string): string =>
  pageOf({
    title: `Alert ${alertId}`,
    words:
      "A message of Keyward came from this alert. With rights in its project you can look at what it is about now, and at what it sent:",
    lines: [
      curl(publicUrl, `/api/v1/cert-manager/alerts/${alertId}/certificates`),
      `keyward alerts deliveries ${alertId}`,
      curl(publicUrl, `/api/v1/cert-manager/alerts/${alertId}/deliveries`),
    ],
  });

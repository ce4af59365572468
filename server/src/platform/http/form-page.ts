/**
 * A page behind a link in a mail: one form that sends what was typed, with the token of the link, to one endpoint. The
 * token stands behind the `#` of the address, where no server, proxy or referrer ever sees it, and leaves the address
 * bar at once. Like the page of the documentation it is one file, its script and style named by their hashes.
 */
import { escapeHtml } from "../html.ts";
import { pagePolicy } from "./page-policy.ts";

const STYLE = `body{font:16px/1.5 system-ui,sans-serif;max-width:26rem;margin:3rem auto;padding:0 1rem;color:#1d2733}
label{display:block;margin:1rem 0}input{display:block;width:100%;box-sizing:border-box;padding:.5rem;font:inherit}
button{padding:.5rem 1rem;font:inherit}[role=status]{font-weight:bold}`;

// Relative addresses: the server may be reached under a path of a proxy.
const SCRIPT = `const form = document.querySelector("form"), said = document.querySelector("[role=status]");
const token = location.hash.slice(1);
history.replaceState(null, "", location.pathname);
if (!token) said.textContent = "Something is missing in this address: open the link of the mail again.";
form.addEventListener("submit", async (event) => {
  event.preventDefault();
  const body = { token };
  for (const field of form.querySelectorAll("input")) if (field.value !== "") body[field.name] = field.value;
  const button = form.querySelector("button");
  button.disabled = true;
  try {
    const answer = await fetch(form.dataset.post, {
      method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body),
    });
    const { message } = await answer.json();
    if (answer.ok) { form.remove(); said.textContent = document.body.dataset.done; return; }
    said.textContent = Array.isArray(message) ? message.map((issue) => issue.path.join(".") + ": " + issue.message).join("; ") : message;
  } catch { said.textContent = "The server did not answer. Try again."; }
  button.disabled = false;
});`;

export const formPageCsp = pagePolicy(STYLE, SCRIPT);

interface FormField {
  readonly name: string;
  readonly label: string;
  readonly type: "text" | "password";
  /** For password stores: `new-password`, `given-name`. */
  readonly autocomplete: string;
  readonly isRequired: boolean;
}

interface FormPage {
  readonly title: string;
  readonly words: string;
  readonly fields: readonly FormField[];
  readonly button: string;
  /** The endpoint's path without its leading slash. */
  readonly post: string;
  /** The message after success. */
  readonly done: string;
}

const inputOf = ({ name, label, type, autocomplete, isRequired }: FormField): string =>
  `<label>${escapeHtml(label)}<input name="${escapeHtml(name)}" type="${type}" autocomplete="${escapeHtml(autocomplete)}"${isRequired ? " required" : ""}></label>`;

// The hashes are of the exact text between the tags: not a space may stand between them.
export const formPage = ({ title, words, fields, button, post, done }: FormPage): string => `<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><meta name="robots" content="noindex"><title>${escapeHtml(title)}</title><link rel="icon" href="data:,"><style>${STYLE}</style></head>
<body data-done="${escapeHtml(done)}">
<h1>${escapeHtml(title)}</h1>
<p>${escapeHtml(words)}</p>
<form data-post="${escapeHtml(post)}">
${fields.map(inputOf).join("\n")}
<button>${escapeHtml(button)}</button>
</form>
<p role="status"></p>
<noscript><p>This page needs JavaScript. Without it, send what it asks for, with the part of the link behind the # as token, as JSON to <code>/${escapeHtml(post)}</code>.</p></noscript>
<script>${SCRIPT}</script>
</body>
</html>
`;

/**
 * The page at /api/docs: the contract, readable. It is one file without foreign parts, because a secrets server
 * must not make its readers' browsers fetch code from elsewhere; its policy names the one style and the one
 * script by their hashes, so nothing that finds its way into the page can run.
 */
import { DOCS_SCRIPT } from "./docs-page-script.ts";
import { DOCS_STYLE } from "./docs-page-style.ts";
import { pagePolicy } from "./page-policy.ts";

/** To be sent as Content-Security-Policy with the page, instead of the usual one. */
export const docsPageCsp = pagePolicy(DOCS_STYLE, DOCS_SCRIPT);

// The hash is of the exact text between the tags: not a space may stand between them.
const PAGE = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Keyward API</title>
<link rel="icon" href="data:,">
<style>${DOCS_STYLE}</style>
</head>
<body>
<header>
<h1>Keyward API<small id="version"></small></h1>
<input id="search" type="search" placeholder="Search: / to type, ↓ ↑ to move, Enter to open" aria-label="Search endpoints" autocomplete="off" spellcheck="false">
<label><input id="older" type="checkbox"> older addresses</label>
<span id="count" role="status"></span>
</header>
<div class="layout">
<nav id="rooms" aria-label="Rooms"></nav>
<main id="calls"><p>Loading…</p><noscript><p>This page needs JavaScript; the same description is at <a href="/api/docs/json">/api/docs/json</a>.</p></noscript></main>
</div>
<script>${DOCS_SCRIPT}</script>
</body>
</html>
`;

export const docsPage = (): string => PAGE;

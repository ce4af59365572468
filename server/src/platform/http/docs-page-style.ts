/** How the documentation page looks; light or dark as the reader's system is. No colour carries a meaning alone. */
export const DOCS_STYLE = String.raw`
:root { color-scheme: light dark; --bg: #fff; --soft: #f4f5f7; --line: #d9dce3; --text: #1c2230; --dim: #5b6477; --accent: #2450c4;
  --get: #1a6b3c; --post: #2450c4; --put: #8a5300; --patch: #6b3fa0; --delete: #a8202b; --mark: #fff3bf; }
@media (prefers-color-scheme: dark) { :root { --bg: #14171e; --soft: #1c212b; --line: #323a49; --text: #e4e7ee; --dim: #9aa4b8; --accent: #8fb0ff;
  --get: #6fd19a; --post: #8fb0ff; --put: #f0b65a; --patch: #c5a1f5; --delete: #ff8f97; --mark: #4a4014; } }
* { box-sizing: border-box; }
html { scroll-padding-top: 5rem; }
body { margin: 0; background: var(--bg); color: var(--text); font: 15px/1.5 system-ui, sans-serif; }
code, pre, .path, .method, .tree { font-family: ui-monospace, "SF Mono", Menlo, Consolas, monospace; font-size: 13px; }
header { position: sticky; top: 0; z-index: 2; display: flex; flex-wrap: wrap; gap: .5rem 1rem; align-items: center; padding: .75rem 1.25rem;
  background: var(--bg); border-bottom: 1px solid var(--line); }
h1 { font-size: 1.1rem; margin: 0; }
h1 small { font-weight: 400; color: var(--dim); }
header input[type=search] { flex: 1 1 16rem; max-width: 34rem; padding: .45rem .7rem; font: inherit; color: inherit; background: var(--soft);
  border: 1px solid var(--line); border-radius: 6px; }
header label, #count { color: var(--dim); font-size: 13px; }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 1px; }
.layout { display: grid; grid-template-columns: 12rem minmax(0, 60rem); gap: 2rem; padding: 1rem 1.25rem 4rem; }
nav { position: sticky; top: 5rem; align-self: start; max-height: calc(100vh - 6rem); overflow: auto; }
nav a { display: flex; justify-content: space-between; padding: .2rem .5rem; color: inherit; text-decoration: none; border-radius: 4px; }
nav a:hover { background: var(--soft); }
nav span { color: var(--dim); font-size: 12px; }
@media (max-width: 52rem) { .layout { grid-template-columns: minmax(0, 1fr); } nav { display: none; } }
h2 { font-size: 1rem; margin: 1.5rem 0 .5rem; text-transform: capitalize; }
section:first-child h2 { margin-top: 0; }
details.call { border: 1px solid var(--line); border-radius: 6px; margin: .35rem 0; background: var(--bg); }
details.call > summary { display: flex; flex-wrap: wrap; gap: .25rem .75rem; align-items: baseline; padding: .45rem .7rem; cursor: pointer; list-style: none; border-radius: 6px; }
details.call > summary::-webkit-details-marker { display: none; }
details.call > summary:hover, details.call[open] > summary { background: var(--soft); }
.method { font-weight: 700; min-width: 4rem; }
.get { color: var(--get); } .post { color: var(--post); } .put { color: var(--put); } .patch { color: var(--patch); } .delete { color: var(--delete); }
.path { overflow-wrap: anywhere; }
.path b { font-weight: 600; color: var(--accent); }
.about { color: var(--dim); flex: 1 1 14rem; }
.tag { font-size: 12px; color: var(--dim); border: 1px solid var(--line); border-radius: 4px; padding: 0 .35rem; }
.inside { padding: .25rem 1rem 1rem; border-top: 1px solid var(--line); }
h3 { font-size: .8rem; margin: 1rem 0 .3rem; color: var(--dim); text-transform: uppercase; letter-spacing: .04em; }
pre { position: relative; margin: .25rem 0; padding: .6rem .8rem; background: var(--soft); border: 1px solid var(--line); border-radius: 6px; overflow-x: auto; white-space: pre-wrap; overflow-wrap: anywhere; }
.curl { display: flex; gap: .5rem; align-items: flex-start; }
.curl pre { flex: 1; }
button { font: inherit; font-size: 13px; margin-top: .25rem; padding: .3rem .7rem; color: inherit; background: var(--soft); border: 1px solid var(--line); border-radius: 6px; cursor: pointer; }
ul.tree { list-style: none; margin: 0; padding-left: 1rem; border-left: 1px solid var(--line); }
.inside > ul.tree, .answer > ul.tree { padding-left: .5rem; }
ul.tree li { margin: .1rem 0; }
.type { color: var(--dim); }
.must { color: var(--delete); }
.rule { color: var(--dim); overflow-wrap: anywhere; }
.answer { margin: .2rem 0; }
.answer > summary { cursor: pointer; }
.trouble { padding: 1rem; border: 1px solid var(--delete); border-radius: 6px; }
[hidden] { display: none !important; }
`;

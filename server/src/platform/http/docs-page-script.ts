/**
 * What the documentation page does in the browser: fetch the contract, show it as a list that can be searched, and
 * open one endpoint at a time. It is text to the server, so no compiler checks it; it is kept plain for that
 * reason. Every word on the page arrives through textContent: nothing in the contract can become markup.
 */
export const DOCS_SCRIPT = String.raw`
"use strict";
(() => {
  const METHODS = ["get", "post", "put", "patch", "delete"];
  const MAX_DEPTH = 8;
  const byId = (id) => document.getElementById(id);
  const el = (name, className, ...parts) => {
    const node = document.createElement(name);
    if (className) node.className = className;
    node.append(...parts.filter((part) => part !== undefined && part !== null));
    return node;
  };
  const here = location.pathname.replace(/\/+$/, "");
  const base = location.origin + here.replace(/\/api\/docs$/, "");

  // ---- schemas

  const resolve = (schema, root, spec) => {
    if (!schema || typeof schema.$ref !== "string") return schema || {};
    const start = schema.$ref.startsWith("#/components/") ? spec : root;
    const found = schema.$ref.slice(2).split("/").reduce((at, key) => (at ? at[key] : undefined), start);
    return found || {};
  };
  const optionsOf = (schema) => schema.anyOf || schema.oneOf || [];
  /** The one schema behind "this or null"; undefined if there is a real choice. */
  const onlyOption = (schema) => {
    const real = optionsOf(schema).filter((option) => option.type !== "null");
    return real.length === 1 ? real[0] : undefined;
  };
  const typeOf = (schema, root, spec, depth = 0) => {
    const known = resolve(schema, root, spec);
    if (depth > MAX_DEPTH) return "…";
    if (known.const !== undefined) return JSON.stringify(known.const);
    if (known.enum) return known.enum.map((value) => JSON.stringify(value)).join(" | ");
    const options = optionsOf(known);
    if (options.length > 0) return options.map((option) => typeOf(option, root, spec, depth + 1)).join(" | ");
    if (known.type === "array") {
      const inner = typeOf(known.items || {}, root, spec, depth + 1);
      return inner.includes(" | ") ? "(" + inner + ")[]" : inner + "[]";
    }
    if (Array.isArray(known.type)) return known.type.join(" | ");
    return known.format ? known.type + " (" + known.format + ")" : known.type || "any";
  };
  const RANGES = [["minLength", "maxLength", " characters"], ["minimum", "maximum", ""], ["minItems", "maxItems", " items"]];
  const rangeOf = (schema, low, high, unit) => {
    const isBound = (key) => typeof schema[key] === "number" && Math.abs(schema[key]) < Number.MAX_SAFE_INTEGER;
    if (isBound(low) && isBound(high)) return schema[low] + " to " + schema[high] + unit;
    if (isBound(low)) return "at least " + schema[low] + unit;
    return isBound(high) ? "at most " + schema[high] + unit : "";
  };
  const rulesOf = (schema) => {
    const rules = RANGES.map(([low, high, unit]) => rangeOf(schema, low, high, unit)).filter(Boolean);
    if (schema.pattern && !schema.format) rules.push("matches " + schema.pattern);
    if (schema.default !== undefined) rules.push("default " + JSON.stringify(schema.default));
    if (schema.description) rules.push(schema.description);
    return rules.join(", ");
  };
  const line = (name, schema, mark, root, spec) => {
    const known = resolve(schema, root, spec);
    const rules = rulesOf(onlyOption(known) ? { ...onlyOption(known), ...known } : known);
    return [
      name === undefined ? undefined : el("code", "", name), " ", el("span", "type", typeOf(schema, root, spec)),
      mark ? el("span", mark === "required" ? "must" : "type", " " + mark) : undefined, rules ? el("span", "rule", " — " + rules) : undefined,
    ];
  };
  /** The fields inside a schema, through arrays and choices; undefined if it has none. */
  const fieldsOf = (schema, root, spec, isAnswer, depth = 0) => {
    const known = resolve(schema, root, spec);
    if (depth > MAX_DEPTH) return undefined;
    if (known.type === "array") return fieldsOf(known.items, root, spec, isAnswer, depth + 1);
    if (onlyOption(known)) return fieldsOf(onlyOption(known), root, spec, isAnswer, depth + 1);
    if (optionsOf(known).length > 0) {
      const items = optionsOf(known).map((option) => {
        const item = el("li", "", el("span", "type", "either "), ...line(undefined, option, "", root, spec));
        const inner = fieldsOf(option, root, spec, isAnswer, depth + 1);
        if (inner) item.append(inner);
        return item;
      });
      return items.some((item) => item.querySelector("ul")) ? el("ul", "tree", ...items) : undefined;
    }
    // What stands out is the exception: what a request must have, what an answer may lack.
    const required = new Set(known.required || []);
    const markOf = (name) => (required.has(name) ? (isAnswer ? "" : "required") : isAnswer ? "optional" : "");
    const items = Object.entries(known.properties || {}).map(([name, field]) => {
      const item = el("li", "", ...line(name, field, markOf(name), root, spec));
      const inner = fieldsOf(field, root, spec, isAnswer, depth + 1);
      if (inner) item.append(inner);
      return item;
    });
    return items.length > 0 ? el("ul", "tree", ...items) : undefined;
  };
  const SAMPLES = { uuid: "00000000-0000-7000-8000-000000000000", "date-time": "2030-01-01T00:00:00.000Z", email: "someone@example.com" };
  const exampleOf = (schema, root, spec, depth = 0) => {
    const known = resolve(schema, root, spec);
    if (depth > MAX_DEPTH) return null;
    if (known.const !== undefined) return known.const;
    if (known.default !== undefined) return known.default;
    if (known.enum) return known.enum[0];
    if (optionsOf(known).length > 0) return exampleOf(onlyOption(known) || optionsOf(known)[0], root, spec, depth + 1);
    const type = Array.isArray(known.type) ? known.type[0] : known.type;
    if (type === "array") return [exampleOf(known.items, root, spec, depth + 1)];
    if (type === "object" || known.properties) {
      const names = Object.keys(known.properties || {});
      const wanted = known.required && known.required.length > 0 ? known.required : names;
      return Object.fromEntries(wanted.map((name) => [name, exampleOf(known.properties[name], root, spec, depth + 1)]));
    }
    if (type === "integer" || type === "number") return Math.max(0, known.minimum || 0);
    if (type === "boolean") return true;
    return type === "string" || type === undefined ? SAMPLES[known.format] || "…" : null;
  };

  // ---- one endpoint

  const shellQuote = (text) => "'" + text.replaceAll("'", "'\\''") + "'";
  const variableOf = (name) => "$" + name.replace(/([a-z0-9])([A-Z])/g, "$1_$2").toUpperCase();
  const curlOf = (call, body) => {
    // Parameters become shell variables: the line can be pasted as it is once they are set.
    const path = call.path.replace(/\{(\w+)\}/g, (_, name) => variableOf(name));
    const query = call.parameters.filter((given) => given.in === "query" && given.required).map((given) => given.name + "=" + variableOf(given.name));
    const url = base + path + (query.length > 0 ? "?" + query.join("&") : "");
    const words = ["curl"];
    if (call.method !== "get") words.push("-X " + call.method.toUpperCase());
    words.push('"' + url.replace(/["\\\x60]/g, "\\$&") + '"');
    if (call.needsToken) words.push('-H "Authorization: Bearer $KEYWARD_TOKEN"');
    if (body !== undefined) words.push("-H 'Content-Type: application/json'", "-d " + shellQuote(JSON.stringify(body)));
    return words.join(" ");
  };
  const copyButton = (text) => {
    const button = el("button", "", "Copy");
    button.type = "button";
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(text);
        button.textContent = "Copied";
      } catch {
        button.textContent = "Select and copy";
      }
      setTimeout(() => (button.textContent = "Copy"), 1500);
    });
    return button;
  };
  const jsonContent = (part) => part && part.content && part.content["application/json"];
  const inside = (call, spec) => {
    const box = el("div", "inside");
    const content = jsonContent(call.operation.requestBody);
    const schema = content && content.schema;
    const body = content && (content.example !== undefined ? content.example : exampleOf(schema, schema, spec));
    const curl = curlOf(call, body);
    box.append(el("h3", "", "Request"), el("div", "curl", el("pre", "", curl), copyButton(curl)));
    if (!call.needsToken) box.append(el("p", "about", "Public: needs no token."));
    for (const [place, title] of [["path", "In the path"], ["query", "In the query"]]) {
      const given = call.parameters.filter((parameter) => parameter.in === place);
      if (given.length === 0) continue;
      const items = given.map((parameter) => el("li", "", ...line(parameter.name, parameter.schema, parameter.required ? "required" : "", parameter.schema, spec)));
      box.append(el("h3", "", title), el("ul", "tree", ...items));
    }
    if (content) {
      box.append(el("h3", "", "Body"), fieldsOf(schema, schema, spec, false) || el("p", "type", typeOf(schema, schema, spec)));
      box.append(el("h3", "", "Example"), el("pre", "", JSON.stringify(body, null, 2)));
    }
    box.append(el("h3", "", "Answers"));
    for (const [status, response] of Object.entries(call.operation.responses || {})) {
      const answer = (jsonContent(response) || {}).schema;
      const fields = answer && fieldsOf(answer, answer, spec, true);
      const head = [el("code", "", status), " ", response.description || ""];
      if (!fields) {
        box.append(el("div", "answer", ...head));
        continue;
      }
      const fold = el("details", "answer", el("summary", "", ...head), fields);
      fold.open = status === "200";
      box.append(fold);
    }
    return box;
  };
  const pathParts = (path) => path.split(/(\{\w+\})/).map((part) => (part.startsWith("{") ? el("b", "", part) : part));
  const row = (call, spec) => {
    const summary = el("summary", "", el("span", "method " + call.method, call.method.toUpperCase()), el("span", "path", ...pathParts(call.path)),
      el("span", "about", call.operation.summary || ""), call.operation.deprecated ? el("span", "tag", "older address") : undefined);
    const fold = el("details", "call", summary);
    fold.id = call.id;
    fold.addEventListener("toggle", () => {
      if (!fold.open) return;
      // Drawn when first opened: a hundred closed endpoints cost nothing.
      if (fold.childElementCount === 1) fold.append(inside(call, spec));
      history.replaceState(null, "", "#" + encodeURIComponent(call.id));
    });
    return fold;
  };

  // ---- the page

  const callsOf = (spec) =>
    Object.entries(spec.paths || {}).flatMap(([path, item]) =>
      METHODS.filter((method) => item[method]).map((method) => {
        const operation = item[method];
        const room = (operation.tags || ["other"])[0];
        const text = [method, path, operation.summary, operation.operationId, room].join(" ").toLowerCase();
        const needsToken = (operation.security || spec.security || []).length > 0;
        return { id: operation.operationId || method + path, method, path, operation, room, text, needsToken, parameters: operation.parameters || [] };
      }));

  const show = (spec) => {
    const calls = callsOf(spec);
    const rooms = [...new Set(calls.map((call) => call.room))].sort();
    const sections = rooms.map((room) => {
      const rows = calls.filter((call) => call.room === room).map((call) => ({ call, node: row(call, spec) }));
      const section = el("section", "", el("h2", "", room), ...rows.map(({ node }) => node));
      section.id = "room-" + room;
      const count = el("span", "");
      const link = el("a", "", room, count);
      link.href = "#" + encodeURIComponent(section.id);
      return { section, rows, link, count };
    });
    byId("rooms").append(...sections.map(({ link }) => link));
    byId("calls").replaceChildren(...sections.map(({ section }) => section));
    byId("version").textContent = " " + ((spec.info || {}).version || "");

    const filter = () => {
      const words = byId("search").value.toLowerCase().split(/\s+/).filter(Boolean);
      const withOlder = byId("older").checked;
      let total = 0;
      for (const { section, rows, link, count } of sections) {
        let visible = 0;
        for (const { call, node } of rows) {
          node.hidden = (call.operation.deprecated && !withOlder) || !words.every((word) => call.text.includes(word));
          if (!node.hidden) visible += 1;
        }
        section.hidden = link.hidden = visible === 0;
        count.textContent = String(visible);
        total += visible;
      }
      byId("count").textContent = total === 1 ? "1 endpoint" : total + " endpoints";
    };
    byId("search").addEventListener("input", filter);
    byId("older").addEventListener("change", filter);
    filter();

    const openNamed = () => {
      const node = byId(decodeURIComponent(location.hash.slice(1)));
      if (!node) return;
      if (node.tagName === "DETAILS") {
        if (node.hidden) { byId("search").value = ""; byId("older").checked = true; filter(); }
        node.open = true;
      }
      node.scrollIntoView();
    };
    addEventListener("hashchange", openNamed);
    openNamed();
  };

  addEventListener("keydown", (event) => {
    const search = byId("search");
    const isTyping = event.target === search;
    if (event.key === "/" && !isTyping) { event.preventDefault(); search.focus(); search.select(); return; }
    if (event.key === "Escape" && isTyping) { search.value = ""; search.dispatchEvent(new Event("input")); return; }
    if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
    const heads = [...document.querySelectorAll("details.call:not([hidden]) > summary")].filter((head) => head.offsetParent !== null);
    const at = heads.indexOf(document.activeElement);
    if (at < 0 && !isTyping) return;
    const next = event.key === "ArrowDown" ? heads[at + 1] : at > 0 ? heads[at - 1] : search;
    if (next) { event.preventDefault(); next.focus(); }
  });

  fetch(here + "/json")
    .then((answer) => { if (!answer.ok) throw new Error("The server answered " + answer.status + "."); return answer.json(); })
    .then(show)
    .catch((error) => byId("calls").replaceChildren(el("p", "trouble", "The description of the interface could not be loaded. " + error.message + " Reload the page to try again.")));
})();
`;

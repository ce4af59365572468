// Finds every place of a source file where one small change gives another meaning, by TypeScript's own parser. Types,
// log texts and what only describes the interface are no places.
import ts from "typescript";
import { sqlEdits } from "./sql-edits.mjs";

const K = ts.SyntaxKind;
const OTHER_SIGN = new Map([
  [K.LessThanToken, ["border", "<="]],
  [K.LessThanEqualsToken, ["border", "<"]],
  [K.GreaterThanToken, ["border", ">="]],
  [K.GreaterThanEqualsToken, ["border", ">"]],
  [K.EqualsEqualsEqualsToken, ["equality", "!=="]],
  [K.ExclamationEqualsEqualsToken, ["equality", "==="]],
  [K.AmpersandAmpersandToken, ["logic", "||"]],
  [K.BarBarToken, ["logic", "&&"]],
  [K.PlusToken, ["arithmetic", "-"]],
  [K.MinusToken, ["arithmetic", "+"]],
  [K.AsteriskToken, ["arithmetic", "/"]],
  [K.SlashToken, ["arithmetic", "*"]],
  [K.PlusEqualsToken, ["arithmetic", "-="]],
  [K.MinusEqualsToken, ["arithmetic", "+="]],
]);
/** Told to people or to the published document, not to the program. */
const DESCRIPTIONS = new Set([
  "description",
  "summary",
  "example",
  "examples",
  "help",
  "openapi",
  "usage",
  "why",
]);
/** A figure above is tuned (a size, a time, a pace): one more or less of it is no other meaning. */
const LARGEST_COUNT = 100;
const LOGS = /^(await |void )?([\w#]+\.)*(log|logger|console)\??\./;
/** `if (isSlow) log.warn(…)`: when something is logged is no more than the text of it. */
const isLog = (node) =>
  (ts.isExpressionStatement(node) && LOGS.test(node.getText())) ||
  (ts.isIfStatement(node) && node.elseStatement === undefined && isLog(node.thenStatement));

const isText = (node) =>
  ts.isStringLiteral(node) ||
  ts.isNoSubstitutionTemplateLiteral(node) ||
  ts.isTemplateExpression(node) ||
  (ts.isBinaryExpression(node) &&
    node.operatorToken.kind === K.PlusToken &&
    (isText(node.left) || isText(node.right)));

/** `list[0] ?? ""`: the compiler asks for it where an index cannot miss; what stands there has no meaning to change. */
const isForced = (node) =>
  ts.isBinaryExpression(node) &&
  node.operatorToken.kind === K.QuestionQuestionToken &&
  ts.isElementAccessExpression(node.left);

function isDescription(node) {
  if (ts.isPropertyAssignment(node)) return DESCRIPTIONS.has(node.name.getText());
  return (
    ts.isCallExpression(node) &&
    ts.isPropertyAccessExpression(node.expression) &&
    ["describe", "meta"].includes(node.expression.name.text)
  );
}

/** Each takes a node and gives its changes: [kind, start, end, text instead]. */
const OPERATORS = [signs, negations, counts, flags, defaults, arrays, statements, sql];

function signs(node) {
  if (!ts.isBinaryExpression(node)) return [];
  const sign = node.operatorToken;
  if (sign.kind === K.QuestionQuestionToken && !isForced(node))
    return [["default", node.left.getEnd(), node.right.getEnd(), ""]];
  const other = OTHER_SIGN.get(sign.kind);
  if (other === undefined || (other[0] === "arithmetic" && (isText(node.left) || isText(node.right))))
    return [];
  return [[other[0], sign.getStart(), sign.getEnd(), other[1]]];
}

function negations(node) {
  if (!ts.isPrefixUnaryExpression(node) || node.operator !== K.ExclamationToken) return [];
  return [["negation", node.getStart(), node.operand.getStart(), ""]];
}

function counts(node) {
  if (!ts.isNumericLiteral(node) || !/^\d+$/.test(node.getText())) return [];
  const count = Number(node.text);
  if (count > LARGEST_COUNT) return [];
  // One of both neighbours, always the same one: counts are so frequent that they would crowd out the rest.
  const isUp = count === 0 || node.parent.getText().length % 2 === 0;
  return [["count", node.getStart(), node.getEnd(), String(isUp ? count + 1 : count - 1)]];
}

function flags(node) {
  if (node.kind !== K.TrueKeyword && node.kind !== K.FalseKeyword) return [];
  return [["flag", node.getStart(), node.getEnd(), node.kind === K.TrueKeyword ? "false" : "true"]];
}

function defaults(node) {
  if (!(ts.isParameter(node) || ts.isBindingElement(node)) || node.initializer === undefined) return [];
  return [["default", (node.type ?? node.name).getEnd(), node.initializer.getEnd(), ""]];
}

function arrays(node) {
  if (!ts.isCallExpression(node) || !ts.isPropertyAccessExpression(node.expression)) return [];
  const { name, expression } = node.expression;
  const other = name.text === "some" ? "every" : "some";
  if (["some", "every"].includes(name.text)) return [["array", name.getStart(), name.getEnd(), other]];
  if (name.text === "filter" && node.arguments.length === 1)
    return [["array", expression.getEnd(), node.getEnd(), ""]];
  return [];
}

function statements(node) {
  const removed = (kind) => [[kind, node.getStart(), node.getEnd(), "{}"]];
  if (ts.isThrowStatement(node)) return removed("throw");
  if (ts.isReturnStatement(node)) return isEarly(node) ? removed("return") : [];
  if (!ts.isExpressionStatement(node)) return [];
  let call = node.expression;
  while (ts.isAwaitExpression(call) || ts.isVoidExpression(call)) call = call.expression;
  const isRemovable = ts.isCallExpression(call) && call.expression.kind !== K.SuperKeyword;
  return isRemovable ? removed("call") : [];
}

function isEarly(node) {
  const block = ts.isBlock(node.parent) ? node.parent : undefined;
  return ts.isIfStatement((block ?? node).parent);
}

function sql(node) {
  const isPiece =
    ts.isStringLiteral(node) ||
    ts.isNoSubstitutionTemplateLiteral(node) ||
    [K.TemplateHead, K.TemplateMiddle, K.TemplateTail].includes(node.kind);
  if (!isPiece) return [];
  const from = node.getStart();
  return sqlEdits(node.getText()).map(({ kind, start, end, after }) => [
    kind,
    from + start,
    from + end,
    after,
  ]);
}

const isFunction = (node) => ts.isFunctionLike(node) && node.body !== undefined;

/** The name a reader would give the function: its own, or that of what it is assigned to. */
function nameOf(node) {
  if (node.name !== undefined) return node.name.getText();
  if (ts.isConstructorDeclaration(node)) return "constructor";
  const { parent } = node;
  return parent !== undefined && (ts.isVariableDeclaration(parent) || ts.isPropertyAssignment(parent))
    ? parent.name.getText()
    : undefined;
}

/** `{ path, line, kind, start, end, before, after, owner, isInFunction, constant }` for every change. */
export function placesIn(path, text) {
  const file = ts.createSourceFile(path, text, ts.ScriptTarget.ES2023, true);
  const found = [];
  const lines = text.split("\n");
  const visit = (node, owner) => {
    if (ts.isTypeNode(node) || ts.isInterfaceDeclaration(node) || ts.isTypeAliasDeclaration(node)) return;
    if (ts.isImportDeclaration(node) || ts.isExportDeclaration(node) || isDescription(node)) return;
    if (isLog(node)) return;
    const next = ownerOf(node, owner);
    for (const [kind, start, end, after] of OPERATORS.flatMap((operator) => operator(node))) {
      const { line } = file.getLineAndCharacterOfPosition(start);
      found.push({
        path,
        line: line + 1,
        kind,
        start,
        end,
        before: text.slice(start, end),
        after,
        ...next,
        lineText: lines[line].trim(),
      });
    }
    if (isForced(node)) visit(node.left, next);
    else ts.forEachChild(node, (child) => visit(child, next));
  };
  visit(file, { owner: "", isInFunction: false, constant: undefined });
  return found;
}

/** A change belongs to the nearest function with a name; outside of functions to the constant it stands in. */
function ownerOf(node, owner) {
  if (isFunction(node)) {
    const name = nameOf(node);
    const isOwn = name !== undefined || !owner.isInFunction;
    return {
      ...owner,
      isInFunction: true,
      owner: isOwn ? `${owner.owner}.${name ?? ""}@${node.pos}` : owner.owner,
    };
  }
  if (!owner.isInFunction && ts.isVariableDeclaration(node) && ts.isIdentifier(node.name))
    return { ...owner, owner: `${node.name.text}@${node.pos}`, constant: node.name.text };
  return owner;
}

/** Where functions of a file name something, each as an offset: who runs one of them meets what the name stands for. */
export function usesIn(path, text, names) {
  const file = ts.createSourceFile(path, text, ts.ScriptTarget.ES2023, true);
  const uses = [];
  const visit = (node, owner) => {
    if (ts.isImportDeclaration(node) || ts.isTypeNode(node)) return;
    const next = ownerOf(node, owner);
    if (ts.isIdentifier(node) && names.has(node.text) && !isDeclared(node))
      uses.push({ offset: node.getStart(), isInFunction: next.isInFunction, constant: next.constant });
    ts.forEachChild(node, (child) => visit(child, next));
  };
  visit(file, { owner: "", isInFunction: false, constant: undefined });
  return uses;
}

const isDeclared = (node) => ts.isVariableDeclaration(node.parent) && node.parent.name === node;

export const mutated = (text, { start, end, after }) => text.slice(0, start) + after + text.slice(end);

/** As the build writes it, without what only debuggers read. */
export function compiled(path, text) {
  const { outputText, diagnostics } = ts.transpileModule(text, {
    fileName: path,
    reportDiagnostics: true,
    compilerOptions: {
      target: ts.ScriptTarget.ES2023,
      module: ts.ModuleKind.ESNext,
      verbatimModuleSyntax: true,
      rewriteRelativeImportExtensions: true,
    },
  });
  return diagnostics.length > 0 ? undefined : outputText;
}

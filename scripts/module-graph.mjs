// What a source file imports and exports, read from its syntax tree: static, type-only and dynamic imports, and the
// workers it starts by URL. Shared by the import rules and the structural check, so that both see the same arrows.
import { posix } from "node:path";
import ts from "typescript";
import { toSource } from "./workspaces.mjs";

const WHOLE = "*";

const resolve = (path, target) =>
  target.startsWith(".") ? toSource(posix.normalize(posix.join(posix.dirname(path), target))) : target;

const isImportMetaUrl = (node) =>
  node !== undefined &&
  ts.isPropertyAccessExpression(node) &&
  node.name.text === "url" &&
  ts.isMetaProperty(node.expression);

/** The text of `new URL("./x.js", import.meta.url)` when it names a program; migrations and pages are no modules. */
function programUrl(node) {
  if (!ts.isNewExpression(node) || node.expression.getText() !== "URL") return undefined;
  const [text, from] = node.arguments ?? [];
  if (text === undefined || !ts.isStringLiteralLike(text) || !isImportMetaUrl(from)) return undefined;
  return /^\..*\.(js|mjs|ts)$/.test(text.text) ? text.text : undefined;
}

/** `const { a, b } = await import(…)` and `(await import(…)).a` take those names, anything else takes the module. */
function namesTaken(call) {
  let node = call.parent;
  while (ts.isAwaitExpression(node) || ts.isParenthesizedExpression(node)) node = node.parent;
  if (ts.isPropertyAccessExpression(node)) return [node.name.text];
  if (ts.isVariableDeclaration(node) && ts.isObjectBindingPattern(node.name)) {
    const elements = node.name.elements;
    if (elements.every((element) => !element.dotDotDotToken))
      return elements.map((element) => (element.propertyName ?? element.name).getText());
  }
  return [WHOLE];
}

/** Which names of a module `import * as space` are used: all of them once the space is handed on as a value. */
function namesOfSpace(file, space) {
  const names = new Set();
  const visit = (node) => {
    if (ts.isIdentifier(node) && node.text === space && !ts.isNamespaceImport(node.parent)) {
      const { parent } = node;
      if (ts.isPropertyAccessExpression(parent) && parent.expression === node) names.add(parent.name.text);
      else if (ts.isQualifiedName(parent) && parent.left === node) names.add(parent.right.text);
      else if (!(ts.isPropertyAccessExpression(parent) && parent.name === node)) names.add(WHOLE);
    }
    ts.forEachChild(node, visit);
  };
  visit(file);
  return [...names];
}

function staticImport(file, node) {
  const clause = node.importClause;
  const bindings = clause?.namedBindings;
  const elements = bindings !== undefined && ts.isNamedImports(bindings) ? bindings.elements : [];
  const space = bindings !== undefined && ts.isNamespaceImport(bindings) ? bindings.name.text : undefined;
  return {
    target: node.moduleSpecifier.text,
    isType: clause?.phaseModifier === ts.SyntaxKind.TypeKeyword,
    isWhole: space !== undefined,
    names: [
      ...(clause?.name === undefined ? [] : ["default"]),
      ...elements.map((element) => (element.propertyName ?? element.name).text),
      ...(space === undefined ? [] : namesOfSpace(file, space)),
    ],
  };
}

function reExport(node) {
  const target = node.moduleSpecifier.text;
  const clause = node.exportClause;
  if (clause === undefined) return { target, isType: node.isTypeOnly, isWhole: true, names: [], star: true };
  if (ts.isNamespaceExport(clause))
    return {
      target,
      isType: node.isTypeOnly,
      isWhole: true,
      names: [],
      passes: [{ name: clause.name.text, of: WHOLE }],
    };
  const passes = clause.elements.map((element) => ({
    name: element.name.text,
    of: (element.propertyName ?? element.name).text,
    isType: node.isTypeOnly || element.isTypeOnly,
  }));
  return { target, isType: node.isTypeOnly, isWhole: false, names: passes.map(({ of }) => of), passes };
}

const TYPE_KINDS = new Set([ts.SyntaxKind.InterfaceDeclaration, ts.SyntaxKind.TypeAliasDeclaration]);
const isExported = (node) =>
  ts.canHaveModifiers(node) &&
  (ts.getModifiers(node) ?? []).some(({ kind }) => kind === ts.SyntaxKind.ExportKeyword);

function namesBound(name) {
  if (ts.isIdentifier(name)) return [name.text];
  return name.elements.flatMap((element) =>
    ts.isOmittedExpression(element) ? [] : namesBound(element.name),
  );
}

function declared(node) {
  const isType = TYPE_KINDS.has(node.kind);
  if (ts.isVariableStatement(node))
    return node.declarationList.declarations.flatMap(({ name }) =>
      namesBound(name).map((text) => ({ name: text, isType })),
    );
  return node.name === undefined
    ? []
    : [{ name: node.name.text, isType, isTypeName: isType || ts.isClassDeclaration(node) }];
}

/**
 * One file: `imports` (target, names, isType, isWhole, isRelative), `exports` (name, line, isType; `from` and `of` where it only
 * passes on), `stars` (targets of `export *`) and `unreadable` (imports and workers whose target no reader can tell).
 */
export function moduleOf(path, text) {
  const file = ts.createSourceFile(path, text, ts.ScriptTarget.Latest, true);
  const found = { imports: [], exports: [], stars: [], unreadable: [] };
  const lineOf = (node) => file.getLineAndCharacterOfPosition(node.getStart()).line + 1;
  const imported = (edge) =>
    found.imports.push({
      ...edge,
      target: resolve(path, edge.target),
      isRelative: edge.target.startsWith("."),
    });

  for (const node of file.statements) {
    if (ts.isImportDeclaration(node)) imported(staticImport(file, node));
    else if (ts.isExportDeclaration(node) && node.moduleSpecifier !== undefined) {
      const { star, passes = [], ...edge } = reExport(node);
      imported({ ...edge, passesOn: true });
      const from = resolve(path, edge.target);
      if (star) found.stars.push(from);
      for (const pass of passes) found.exports.push({ isType: false, ...pass, from, line: lineOf(node) });
    } else if (ts.isExportDeclaration(node)) {
      for (const element of node.exportClause.elements)
        found.exports.push({ name: element.name.text, isType: node.isTypeOnly, line: lineOf(element) });
    } else if (isExported(node)) {
      for (const each of declared(node)) found.exports.push({ ...each, line: lineOf(node) });
    }
  }
  const visit = (node) => {
    if (ts.isCallExpression(node) && node.expression.kind === ts.SyntaxKind.ImportKeyword) {
      const [target] = node.arguments;
      if (target !== undefined && ts.isStringLiteralLike(target)) {
        const names = namesTaken(node);
        imported({ target: target.text, isType: false, isWhole: names.includes(WHOLE), names });
      } else found.unreadable.push(lineOf(node));
    } else if (ts.isImportTypeNode(node) && ts.isLiteralTypeNode(node.argument)) {
      const names = [node.qualifier?.getText().split(".")[0] ?? WHOLE];
      imported({ target: node.argument.literal.text, isType: true, isWhole: names[0] === WHOLE, names });
    } else if (ts.isNewExpression(node)) {
      const program = programUrl(node);
      if (program !== undefined) imported({ target: program, isType: false, isWhole: false, names: [] });
      const [first] = node.arguments ?? [];
      if (node.expression.getText() === "Worker" && (first === undefined || programUrl(first) === undefined))
        found.unreadable.push(lineOf(node));
    }
    ts.forEachChild(node, visit);
  };
  visit(file);
  return found;
}

export { WHOLE };

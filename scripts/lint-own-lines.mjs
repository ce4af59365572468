// A function's own lines, without those of the functions inside it: a factory that returns ten small methods is ten
// small functions, not one long one. (eslint's own rule counts everything between the outermost braces.)
const FUNCTIONS = ["FunctionDeclaration", "FunctionExpression", "ArrowFunctionExpression"];

export const maxOwnLines = {
  meta: { type: "suggestion", schema: [{ type: "object", properties: { max: { type: "integer" } } }] },
  create(context) {
    const [{ max }] = context.options;
    const open = [];
    const enter = () => open.push(0);
    const leave = (node) => {
      const inner = open.pop();
      const lines = node.loc.end.line - node.loc.start.line + 1;
      const own = lines - inner;
      if (own > max)
        context.report({
          node,
          message: `This function has ${own} lines of its own; at most ${max} are allowed.`,
        });
      // A one-line arrow inside shares its line with us and takes nothing away.
      if (open.length > 0) open[open.length - 1] += Math.max(0, lines - 1);
    };
    return Object.fromEntries(
      FUNCTIONS.flatMap((kind) => [
        [kind, enter],
        [`${kind}:exit`, leave],
      ]),
    );
  },
};

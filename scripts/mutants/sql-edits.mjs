// What can be changed inside a piece of SQL. SQL is told from other text by its words in capitals.

const LOOKS_LIKE_SQL =
  /\b(SELECT|INSERT INTO|UPDATE \w+|DELETE FROM|FROM \w+|WHERE|JOIN|ORDER BY|ON CONFLICT|FOR (UPDATE|SHARE)|AND \w+(\.\w+)? (=|<|>|IS))\b/;
const OPERAND = String.raw`(?:\$\d+(?:::\w+(?:\[\])?)?|[\w."]+(?:::\w+)?|'[^']*'|now\(\)|\w+\(\$\d+(?:::\w+(?:\[\])?)?\))`;
const CONDITION = String.raw`(?:NOT )?${OPERAND}(?:\s*(?:=|<>|<=|>=|<|>)\s*${OPERAND}| IS (?:NOT )?(?:NULL|DISTINCT FROM ${OPERAND}))`;

/** One per way of being wrong: what is looked for, and what stands there instead. */
const EDITS = [
  ["sql-clause", new RegExp(String.raw`\sAND ${CONDITION}(?=[\s)\`"']|$)`, "g"), () => ""],
  [
    "sql-border",
    /(?<=[\w")\]] )(<=|>=|<|>)(?= [\w$'"(])/g,
    ([sign]) => (sign.endsWith("=") ? sign[0] : `${sign}=`),
  ],
  ["sql-lock", /\s+FOR (NO KEY UPDATE|UPDATE|SHARE|KEY SHARE)( OF \w+)?( SKIP LOCKED)?/g, () => ""],
  ["sql-order", /\b(DESC|ASC)\b/g, ([word]) => (word === "DESC" ? "ASC" : "DESC")],
  ["sql-order", /(?<=ORDER BY [\w."]+)(?=\s*(LIMIT|FOR UPDATE|[)`"']|$))/g, () => " DESC"],
  ["sql-null", /\bIS (NOT )?NULL\b/g, ([text]) => (text === "IS NULL" ? "IS NOT NULL" : "IS NULL")],
  ["sql-conflict", /\s+ON CONFLICT (\([^()]*\) )?DO NOTHING/g, () => ""],
  ["sql-join", /\bLEFT JOIN\b/g, () => "JOIN"],
  ["sql-exists", /\bNOT EXISTS\b/g, () => "EXISTS"],
];

/** `text` as it is written in the source; offsets are within it. */
export function sqlEdits(text) {
  if (!LOOKS_LIKE_SQL.test(text)) return [];
  return EDITS.flatMap(([kind, pattern, replacement]) =>
    [...text.matchAll(pattern)].map((match) => ({
      kind,
      start: match.index,
      end: match.index + match[0].length,
      after: replacement(match),
    })),
  );
}

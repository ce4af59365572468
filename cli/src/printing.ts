/** For people at a terminal. Names come from other people, so nothing in them may steer the terminal. */
export const plain = (value: unknown): string =>
  String(value ?? "-").replace(/[\u0000-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g, "?");

export function table(columns: readonly string[], rows: readonly (readonly unknown[])[]): string {
  const cells = [columns.map((column) => column.toUpperCase()), ...rows.map((row) => row.map(plain))];
  const widths = columns.map((_, index) => Math.max(...cells.map((row) => row[index]?.length ?? 0)));
  return cells
    .map((row) =>
      row
        .map((cell, index) => cell.padEnd(widths[index] ?? 0))
        .join("  ")
        .trimEnd(),
    )
    .join("\n");
}

export function facts(entries: Readonly<Record<string, unknown>>): string {
  const width = Math.max(...Object.keys(entries).map((key) => key.length));
  return Object.entries(entries)
    .map(([key, value]) => `${key.padEnd(width)}  ${plain(value)}`)
    .join("\n");
}

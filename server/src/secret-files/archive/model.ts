/**
 * A project's file in small pieces. It may hold one secret of a hundred thousand versions, or a role of five hundred
 * rules: it is written, sent to another thread and imported piece by piece, so that no other request waits.
 */
import type { Archive, ArchivedRole, ArchivedSecret, ArchivedVersion } from "./contract.ts";

type Plain = "environments" | "tags" | "folders" | "imports";
type PlainPiece = {
  readonly [List in Plain]: { readonly list: List; readonly item: Archive[List][number] };
}[Plain];

export type Piece =
  | PlainPiece
  | { readonly list: "project"; readonly item: Archive["project"] }
  | { readonly list: "roles"; readonly item: Omit<ArchivedRole, "permissions"> }
  /** Of the role before it. */
  | { readonly list: "rules"; readonly item: unknown }
  /** Without its history's versions. */
  | { readonly list: "secrets"; readonly item: ArchivedSecret }
  /** Of the secret before it. */
  | { readonly list: "versions"; readonly item: ArchivedVersion };

export function* piecesOf(file: Archive): Generator<Piece, void> {
  yield { list: "project", item: file.project };
  for (const item of file.environments) yield { list: "environments", item };
  for (const item of file.tags) yield { list: "tags", item };
  for (const item of file.folders) yield { list: "folders", item };
  for (const item of file.imports) yield { list: "imports", item };
  for (const { permissions, ...item } of file.roles) {
    yield { list: "roles", item };
    for (const rule of permissions) yield { list: "rules", item: rule };
  }
  for (const { history, ...secret } of file.secrets) {
    if (!history) {
      yield { list: "secrets", item: secret };
      continue;
    }
    yield { list: "secrets", item: { ...secret, history: { ...history, versions: [] } } };
    for (const item of history.versions) yield { list: "versions", item };
  }
}

/** Puts the pieces together again, in the order in which they were made. */
export class ArchiveOfPieces {
  readonly whole: Archive = {
    project: { name: "", slug: "" },
    environments: [],
    tags: [],
    folders: [],
    secrets: [],
    imports: [],
    roles: [],
  };

  add(piece: Piece): void {
    const { whole } = this;
    switch (piece.list) {
      case "project":
        whole.project = piece.item;
        break;
      case "environments":
        whole.environments.push(piece.item);
        break;
      case "tags":
        whole.tags.push(piece.item);
        break;
      case "folders":
        whole.folders.push(piece.item);
        break;
      case "imports":
        whole.imports.push(piece.item);
        break;
      case "roles":
        whole.roles.push({ ...piece.item, permissions: [] });
        break;
      case "rules":
        whole.roles.at(-1)?.permissions.push(piece.item);
        break;
      case "secrets":
        whole.secrets.push(piece.item);
        break;
      case "versions":
        whole.secrets.at(-1)?.history?.versions.push(piece.item);
        break;
    }
  }
}

/** Shorter lists are written as a whole, with what they are in. */
const SHORT = 8;

const isLong = (value: unknown): boolean =>
  Array.isArray(value)
    ? value.length > SHORT
    : typeof value === "object" && value !== null && Object.values(value).some(isLong);

/** As JSON, a little at a time: long lists item by item, and those inside such an item too, `lists` deep. */
export function* jsonOf(value: unknown, lists = 2): Generator<string, void> {
  if (lists === 0 || !isLong(value)) return yield JSON.stringify(value);
  if (Array.isArray(value)) {
    for (const [at, item] of value.entries()) {
      yield at === 0 ? "[" : ",";
      yield* jsonOf(item, lists - 1);
    }
    return yield "]";
  }
  let before = "{";
  for (const [name, part] of Object.entries(value as object)) {
    if (part === undefined) continue;
    yield `${before}${JSON.stringify(name)}:`;
    yield* jsonOf(part, lists);
    before = ",";
  }
  yield "}";
}

/**
 * The subscriptions that match an event, found without testing the others. Filters are indexed by event type and
 * environment, and there by folder: an exact path and `/a/**` are found by looking up the event's folder and the
 * folders above it; any other glob is indexed under the folder of its literal prefix, and equal globs are
 * one entry. So an event costs what its matches cost, however many other streams are open.
 */
import type { Glob } from "../platform/glob.ts";
import type { EventGlobFilter, SecretEvent } from "./model.ts";

interface Pattern<Member> {
  readonly glob: Glob;
  readonly members: Set<Member>;
}

interface FolderBucket<Member> {
  readonly everywhere: Set<Member>;
  readonly exact: Map<string, Set<Member>>;
  readonly under: Map<string, Set<Member>>;
  /** By folder, then by pattern. */
  readonly general: Map<string, Map<string, Pattern<Member>>>;
}

const newBucket = <Member>(): FolderBucket<Member> => ({
  everywhere: new Set(),
  exact: new Map(),
  under: new Map(),
  general: new Map(),
});

const bucketName = (filter: Pick<EventGlobFilter, "event" | "environment">): string =>
  filter.environment === null ? filter.event : `${filter.event} ${filter.environment}`;

/** The root is the folder of zero segments. */
const bodyOf = (path: string): string => (path === "/" ? "" : path);

function* foldersAbove(body: string): Generator<string> {
  yield "";
  for (let slash = body.indexOf("/", 1); slash > 0; slash = body.indexOf("/", slash + 1))
    yield body.slice(0, slash);
  if (body !== "") yield body;
}

function setIn<Member>(map: Map<string, Set<Member>>, key: string): Set<Member> {
  const found = map.get(key) ?? new Set<Member>();
  map.set(key, found);
  return found;
}

function dropFrom<Member>(map: Map<string, Set<Member>>, key: string, member: Member): void {
  const found = map.get(key);
  found?.delete(member);
  if (found?.size === 0) map.delete(key);
}

export class SubscriptionIndex<Member extends object> {
  readonly #shelves = new Map<string, FolderBucket<Member>>();

  add(member: Member, filter: EventGlobFilter): void {
    const name = bucketName(filter);
    const shelf = this.#shelves.get(name) ?? newBucket<Member>();
    this.#shelves.set(name, shelf);
    const shape = filter.glob?.shape;
    if (!filter.glob || !shape || shape.kind === "anything") shelf.everywhere.add(member);
    else if (shape.kind === "exact") setIn(shelf.exact, shape.text).add(member);
    else if (shape.kind === "under") setIn(shelf.under, shape.prefix).add(member);
    else this.#addPattern(shelf, member, filter.glob, shape.stem);
  }

  remove(member: Member, filter: EventGlobFilter): void {
    const name = bucketName(filter);
    const shelf = this.#shelves.get(name);
    if (!shelf) return;
    const shape = filter.glob?.shape;
    if (!filter.glob || !shape || shape.kind === "anything") shelf.everywhere.delete(member);
    else if (shape.kind === "exact") dropFrom(shelf.exact, shape.text, member);
    else if (shape.kind === "under") dropFrom(shelf.under, shape.prefix, member);
    else this.#dropPattern(shelf, member, filter.glob, shape.stem);
    const isEmpty = shelf.everywhere.size + shelf.exact.size + shelf.under.size + shelf.general.size === 0;
    if (isEmpty) this.#shelves.delete(name);
  }

  /** All members with a filter that matches the event; a member with several such filters comes several times. */
  *matching(event: Pick<SecretEvent, "type" | "environment" | "path">): Generator<ReadonlySet<Member>> {
    const body = bodyOf(event.path);
    for (const environment of [null, event.environment]) {
      const shelf = this.#shelves.get(bucketName({ event: event.type, environment }));
      if (!shelf) continue;
      yield shelf.everywhere;
      const exact = shelf.exact.get(body);
      if (exact) yield exact;
      if (shelf.under.size + shelf.general.size === 0) continue;
      for (const folder of foldersAbove(body)) {
        const under = shelf.under.get(folder);
        if (under) yield under;
        for (const { glob, members } of shelf.general.get(folder)?.values() ?? []) {
          if (glob.matchesCanonical(event.path)) yield members;
        }
      }
    }
  }

  #addPattern(shelf: FolderBucket<Member>, member: Member, glob: Glob, stem: string): void {
    const folder = folderOf(stem);
    const patterns = shelf.general.get(folder) ?? new Map<string, Pattern<Member>>();
    shelf.general.set(folder, patterns);
    const pattern = patterns.get(glob.pattern) ?? { glob, members: new Set<Member>() };
    patterns.set(glob.pattern, pattern);
    pattern.members.add(member);
  }

  #dropPattern(shelf: FolderBucket<Member>, member: Member, glob: Glob, stem: string): void {
    const folder = folderOf(stem);
    const patterns = shelf.general.get(folder);
    const pattern = patterns?.get(glob.pattern);
    pattern?.members.delete(member);
    if (pattern?.members.size === 0) patterns?.delete(glob.pattern);
    if (patterns?.size === 0) shelf.general.delete(folder);
  }
}

/** The deepest folder that contains everything with this prefix. */
const folderOf = (stem: string): string => stem.slice(0, Math.max(0, stem.lastIndexOf("/")));

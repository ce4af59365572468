/**
 * CRLs (RFC 5280 5). A CRL is signed in the background after a revocation and at half of its life; a client that fetches
 * one that is past that gets a fresh one signed on request. So `nextUpdate` lies in the future at every instant,
 * also on a server that was down for a year.
 */
import type { MemberActor } from "../platform/actor.ts";
import { requireTrustedClock, type Clock } from "../platform/clock.ts";
import type { Db } from "../platform/db/index.ts";
import type { Log } from "../platform/log.ts";
import { notFound } from "../platform/problem.ts";
import { isFreshCrl, SMALL_STEP_MS } from "./model.ts";
import { createListTurns, nameOf } from "./take-turns.ts";
import {
  ageingLists,
  BEFORE_ALL_LISTS,
  changedLists,
  clearListChange,
  findList,
  findPrevious,
  keysOfAuthority,
  listEntries,
  putList,
  type CrlRow,
  type ListChange,
  type ListPlace,
  type PreviousList,
  type SignedList,
} from "./store.ts";
import { crlUrl, keyIdentifierOf, type Issuers } from "../signing/index.ts";
import type { Authorities } from "../authorities/index.ts";
import { addSeconds, beginning, latest, toSecond, CRL_LIFE_SECONDS } from "../certificates/index.ts";
import { crlToPem, signCrl } from "@keyward/x509";

interface CrlNeeds {
  readonly db: Db;
  readonly clock: Clock;
  readonly log: Log;
  readonly issuers: Issuers;
  readonly authorities: Authorities;
}

/** Each lost race means that another node stored a CRL within the time of one signature. */
const SIGNING_ATTEMPTS = 3;
/** Of all that ever stood in certificates; the oldest are the first that nobody needs. */
const NAMED_URLS = 16;

/** Page after page, each distribution point once, whatever the outcome. */
async function* pagesOf<Place extends ListPlace>(
  read: (after: ListPlace) => Promise<Place[]>,
  from: ListPlace = BEFORE_ALL_LISTS,
): AsyncGenerator<Place> {
  for (let after: ListPlace | undefined = from; after;) {
    const page: Place[] = await read(after);
    yield* page;
    after = page.at(-1);
  }
}

/** After so long somebody who was not there yet may have changed something. */
const LOOK_MS = 2000;
const AT_ONCE = 8;
/** The job comes again in a moment. */
const RUN_MS = 60_000;
const deadlineBy =
  (clock: Clock) =>
  (milliseconds: number): (() => boolean) => {
    const until = clock.elapsed() + milliseconds;
    return () => clock.elapsed() > until;
  };

export type Crls = ReturnType<typeof createCrls>;

export function createCrls({ db, clock, log, issuers, authorities }: CrlNeeds) {
  const underway = new Map<string, Promise<CrlRow>>();
  const deadline = deadlineBy(clock);
  const turns = createListTurns(clock);
  let renewedUpTo = BEFORE_ALL_LISTS;

  const build = async (place: ListPlace, before: PreviousList): Promise<SignedList> => {
    const issuer = await issuers.ofKey(place.keyId);
    if (!issuer || place.shard >= issuer.crlShards) throw notFound("The revocation list");
    requireTrustedClock(clock);
    const number = before.number + 1;
    const now = toSecond(clock.now());
    const nextUpdate = addSeconds(now, CRL_LIFE_SECONDS);
    // A revoked certificate must be on a CRL that was made after its expiry (RFC 5280 3.3): one is, within a CRL's life.
    const { entries, latestAt } = await db.read(
      (q) => listEntries(q, place, addSeconds(now, -CRL_LIFE_SECONDS)),
      { tenant: issuer.orgId },
    );
    // Neither before its entries nor before the CRL it replaces, whichever node's clock that was made by.
    const soon = new Date(now.getTime() + SMALL_STEP_MS);
    const others = [latestAt, before.thisUpdate].flatMap((at) => (at !== null && at <= soon ? [at] : []));
    const thisUpdate = toSecond(latest(beginning(now, CRL_LIFE_SECONDS), ...others));
    const own = crlUrl(issuers.revocationUrl, place.keyId, place.shard);
    const urls = [...new Set([own, ...issuer.crlUrls, ...before.urls])].slice(0, NAMED_URLS);
    const der = await signCrl(
      {
        issuer: issuer.certificate.subject.der,
        thisUpdate,
        nextUpdate,
        number: BigInt(number),
        authorityKeyIdentifier: keyIdentifierOf(issuer.certificate),
        // The issuing distribution point must match the URL in the certificate, of whichever time that is: URLs change.
        issuingDistributionPoint: { urls, covers: "all" },
        entries: [entries],
      },
      issuer.signer,
    );
    return { number, thisUpdate, nextUpdate, der, urls };
  };

  /**
   * Undefined when another was faster with this CRL number: two CRLs of one number must not differ. The number is read
   * before the entries, so a CRL of a higher number never has less than one of a lower.
   */
  const sign = async (place: ListPlace): Promise<CrlRow | undefined> => {
    const row = await build(place, await db.read((q) => findPrevious(q, place)));
    return (await db.write((tx) => putList(tx, place, row), { audited: false })) ? row : undefined;
  };

  /** For a caller that found no fresh one: another node's is as good. */
  const resign = async (place: ListPlace): Promise<CrlRow> => {
    const row = (await sign(place)) ?? (await db.read((q) => findList(q, place)));
    if (!row) throw notFound("The revocation list");
    return row;
  };

  /** For a caller that knows of a change: another node's CRL may have been read before it, so only our own will do. */
  const signChange = async (change: ListChange): Promise<void> => {
    // The mark goes only if no further change has set it anew since we looked.
    const clear = () => db.write(async (tx) => clearListChange(tx, change), { audited: false });
    // Its project was deleted after the revocation: nobody has that key any more.
    if (!(await issuers.ofKey(change.keyId))) return clear();
    for (let attempt = 1; attempt <= SIGNING_ATTEMPTS; attempt += 1) if (await sign(change)) return clear();
    throw new Error("others kept storing lists of the same number");
  };

  /** However many ask at once, one signature. */
  const renew = (place: ListPlace): Promise<CrlRow> => {
    const key = nameOf(place);
    const running = underway.get(key) ?? resign(place).finally(() => underway.delete(key));
    underway.set(key, running);
    return running;
  };

  const current = async (place: ListPlace): Promise<CrlRow> => {
    const known = await db.read((q) => findList(q, place));
    const now = clock.now();
    if (known && isFreshCrl(known, now)) return known;
    const renewing = renew(place);
    // A full database is no reason to hold back what is still true.
    return known && known.thisUpdate <= now && now < known.nextUpdate
      ? renewing.catch(() => known)
      : renewing;
  };

  const tellStuck = (place: ListPlace) => (error: unknown) =>
    log.error(
      { keyId: place.keyId, shard: place.shard, reason: (error as Error).message },
      "a revocation list could not be signed; it is tried again",
    );

  /** For a while. False when there was nothing to do. */
  const signSomeChanges = async (stuck: Set<string>, isStopping: () => boolean): Promise<boolean> => {
    const changes: ListChange[] = [];
    for await (const change of pagesOf((after) => db.read((q) => changedLists(q, after))))
      if (!stuck.has(nameOf(change)) && !turns.isResting(change)) changes.push(change);
    const isTime = deadline(LOOK_MS);
    for (const change of turns.inOrder(changes)) {
      if (isStopping()) return false;
      turns.note(change);
      await signChange(change).catch((error: unknown) => {
        stuck.add(nameOf(change));
        tellStuck(change)(error);
      });
      if (isTime()) return true;
    }
    return changes.length > 0;
  };

  /** For a while, from where the last one ended. False when there are no more. */
  const renewSome = async (
    places: AsyncGenerator<ListPlace>,
    isStopping: () => boolean,
  ): Promise<boolean> => {
    const isTime = deadline(LOOK_MS);
    while (!isTime()) {
      if (isStopping()) return false;
      const next = await places.next();
      renewedUpTo = next.done ? BEFORE_ALL_LISTS : next.value;
      if (next.done) return false;
      await renew(next.value).catch(tellStuck(next.value));
    }
    return true;
  };

  return {
    current,

    async ofAuthority(actor: MemberActor, authorityId: string) {
      await authorities.find(actor, authorityId, "read");
      const keys = await db.read((q) => keysOfAuthority(q, authorityId));
      const places = keys.flatMap(({ keyId, crlShards }) =>
        Array.from({ length: crlShards }, (_, shard) => ({ keyId, shard })),
      );
      const lists: { id: string; crl: string }[] = [];
      // A few at a time: an authority of many keys has thousands, and each may have to be signed.
      for (let from = 0; from < places.length; from += AT_ONCE)
        lists.push(
          ...(await Promise.all(
            places.slice(from, from + AT_ONCE).map(async (place) => ({
              id: nameOf(place),
              crl: crlToPem((await current(place)).der),
            })),
          )),
        );
      return lists;
    },

    /**
     * The background job: what changed, organisations in turn, and what has passed half of its life. Neither waits
     * until all of the other is done, and neither begins anew with each run.
     */
    async catchUp(isStopping: () => boolean = () => false): Promise<void> {
      const stuck = new Set<string>();
      const now = clock.now();
      const old = pagesOf((after) => db.read((q) => ageingLists(q, after, now)), renewedUpTo);
      const isOver = deadline(RUN_MS);
      for (let isMore = true; isMore && !isOver() && !isStopping();) {
        const hasChanged = await signSomeChanges(stuck, isStopping);
        isMore = (await renewSome(old, isStopping)) || hasChanged;
      }
    },
  };
}

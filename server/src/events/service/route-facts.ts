/**
 * A fact of the outbox is either an event, which goes to its project's channel, or a change of somebody's rights. After
 * such a change the streams that depend on those rights are checked again, and their channels wait for the
 * outcome before they send anything that was committed later.
 */
import { sessionsChanged, tokensChanged, type Authentication } from "../../auth/index.ts";
import { identityChanged, identityDeleted } from "../../identities/index.ts";
import { licenceChanged, type Licences } from "../../licences/index.ts";
import { accessChanged } from "../../permissions/index.ts";
import type { Log } from "../../platform/log.ts";
import { Touches, type NumberedFact, type Tail } from "../../platform/outbox/index.ts";
import { groupBy } from "../../platform/group-by.ts";
import { projectDeleted } from "../../projects/index.ts";
import { importsMutated, secretsChanged } from "../../secrets/events.ts";
import type { ProjectChannel, SubscriberRights } from "../channels.ts";
import { END, FEATURE, type SecretEvent } from "../model.ts";
import type { LiveStreams } from "./live-streams.ts";

interface EventRouterNeeds {
  readonly tail: Tail;
  readonly log: Log;
  readonly licences: Licences;
  readonly authentication: Authentication;
  readonly streams: LiveStreams;
}

const LOOK_ATTEMPTS = 120;
const LOOK_PAUSE_MS = 250;

/** What a change of rights can be about. */
const about = {
  actor: (id: string): string => `actor ${id}`,
  /** An organisation or a project. */
  place: (id: string): string => `place ${id}`,
};
export const rightsEpochOf = (
  actor: { readonly id: string },
  project: { readonly id: string; readonly orgId: string },
): readonly string[] => [about.actor(actor.id), about.place(project.id), about.place(project.orgId)];

export class EventRouter {
  readonly #needs: EventRouterNeeds;
  /** Changes of rights, by subject: what was checked before the latest of them has to be checked again. */
  readonly news = new Touches();
  /** How often the database connection was re-established. */
  reconnects = 0;

  constructor(needs: EventRouterNeeds) {
    this.#needs = needs;
    needs.tail.onFacts((facts) => {
      for (const fact of facts) this.#hearSafely(fact);
      needs.streams.dispatch();
    });
    needs.tail.onReconnect(() => this.#reconnected());
    needs.tail.onGap(() => {
      this.news.touchAll(); // a change of rights may be among what was lost
      needs.streams.endAll(END.eventsLost);
    });
  }

  /** A change of rights that cannot be parsed may be about anyone, so every stream is checked again. */
  #hearSafely(fact: NumberedFact): void {
    try {
      this.#hear(fact);
    } catch (error) {
      this.#needs.log.error({ err: error, fact: fact.name }, "a fact could not be heard; this is a bug");
      this.news.touchAll();
      const { projectId } = (fact.data ?? {}) as { readonly projectId?: unknown };
      const channel = typeof projectId === "string" ? this.#needs.streams.channelOf(projectId) : undefined;
      if (channel) this.#needs.streams.endEach(channel.subscriptions, END.eventsLost);
      else this.#checkEverybody();
    }
  }

  /** The rights of open streams were read from a server that may have had more commits than the current one. */
  #reconnected(): void {
    this.reconnects += 1;
    this.news.touchAll();
    this.#needs.streams.hearEverything();
    this.#checkEverybody();
    this.#needs.streams.dispatch();
  }

  #checkEverybody(): void {
    const { streams } = this.#needs;
    for (const channel of streams.channels())
      streams.line(
        channel,
        Promise.all([...channel.subscribers.values()].map((rights) => this.refresh(rights))),
      );
    for (const actorId of streams.actorIds()) this.#checkTokens(actorId, null);
    this.#checkLicences(streams.channels());
  }

  /** Never rejects: a stream whose rights cannot be determined is closed. */
  async refresh(rights: SubscriberRights): Promise<void> {
    const { streams } = this.#needs;
    const isKnown = await this.#persistently(async () => {
      await rights.refresh();
      return true;
    });
    if (!isKnown) return streams.endEach(rights.subscriptions, END.rightsUnknown);
    for (const subscription of [...rights.subscriptions]) {
      if (!rights.carries(subscription.filters)) streams.end(subscription, END.rightsGone);
    }
  }

  #hear(fact: NumberedFact): void {
    const event = eventOf(fact);
    if (event) return this.#needs.streams.line(this.#needs.streams.channelOf(event.projectId), event);
    if (accessChanged.is(fact)) this.#accessChanged(fact.data);
    else if (tokensChanged.is(fact)) this.#tokensChanged(fact.data.identityId, fact.data.tokenId);
    else if (sessionsChanged.is(fact)) this.#tokensChanged(fact.data.userId, fact.data.sessionId);
    else if (identityDeleted.is(fact) || identityChanged.is(fact))
      this.#tokensChanged(fact.data.identityId, null);
    else if (licenceChanged.is(fact)) this.#licenceChanged(fact.data.orgId);
    else if (projectDeleted.is(fact)) this.#projectDeleted(fact.data.projectId);
  }

  #accessChanged(changed: { orgId: string; projectId: string | null; actorId: string | null }): void {
    const { orgId, projectId, actorId } = changed;
    const { streams } = this.#needs;
    this.news.touch(actorId !== null ? about.actor(actorId) : about.place(projectId ?? orgId));
    for (const channel of projectId === null ? streams.channelsOf(orgId) : [streams.channelOf(projectId)]) {
      const subscribers =
        channel &&
        (actorId === null ? [...channel.subscribers.values()] : [channel.subscribers.get(actorId)]);
      const known = (subscribers ?? []).filter((rights) => rights !== undefined);
      if (known.length > 0) streams.line(channel, Promise.all(known.map((rights) => this.refresh(rights))));
    }
    // A user's session is valid as long as the membership in its organisation.
    if (projectId === null && actorId !== null) this.#tokensChanged(actorId, null);
  }

  #tokensChanged(actorId: string, tokenId: string | null): void {
    this.news.touch(about.actor(actorId));
    this.#checkTokens(actorId, tokenId);
  }

  #checkTokens(actorId: string, tokenId: string | null): void {
    const { streams, authentication } = this.#needs;
    const byToken = groupBy(streams.of({ id: actorId }), (subscription) => subscription.actor.tokenId);
    for (const [id, subscriptions] of byToken) {
      const [first] = subscriptions;
      if (!first || (tokenId !== null && tokenId !== id)) continue;
      // One token, many addresses: each subscription is checked with its own.
      const checked = Promise.all(
        subscriptions.map(async (subscription) => {
          const isLive = await this.#persistently(() => authentication.isLive(subscription.actor));
          if (isLive !== true)
            streams.end(subscription, isLive === false ? END.tokenRevoked : END.rightsUnknown);
        }),
      );
      for (const channel of new Set(subscriptions.map((subscription) => subscription.channel)))
        streams.line(channel, checked);
    }
  }

  #licenceChanged(orgId: string | null): void {
    const { streams } = this.#needs;
    if (orgId === null) this.news.touchAll();
    else this.news.touch(about.place(orgId));
    this.#checkLicences(orgId === null ? streams.channels() : streams.channelsOf(orgId));
  }

  #checkLicences(channels: readonly ProjectChannel[]): void {
    const { streams } = this.#needs;
    for (const [id, ofOrg] of groupBy(channels, (channel) => channel.orgId)) {
      const checked = this.#checkLicence(id, ofOrg);
      for (const channel of ofOrg) streams.line(channel, checked);
    }
  }

  #projectDeleted(projectId: string): void {
    this.news.touch(about.place(projectId));
    this.#needs.streams.endEach(
      this.#needs.streams.channelOf(projectId)?.subscriptions ?? [],
      END.projectGone,
    );
  }

  async #checkLicence(orgId: string, channels: readonly ProjectChannel[]): Promise<void> {
    const { streams, licences } = this.#needs;
    const isLicensed = await this.#persistently(() => licences.has(orgId, FEATURE));
    if (isLicensed === true) return;
    const why = isLicensed === false ? END.licenceGone : END.rightsUnknown;
    for (const channel of channels) streams.endEach(channel.subscriptions, why);
  }

  /** Retries while the database is unreachable for a moment; undefined if it stays so. */
  async #persistently<T>(look: () => Promise<T>): Promise<T | undefined> {
    for (let attempt = 1; attempt <= LOOK_ATTEMPTS; attempt += 1) {
      try {
        return await look();
      } catch (error) {
        this.#needs.log.debug(
          { reason: (error as Error).message },
          "rights could not be looked up; trying again",
        );
        await new Promise((resolve) => setTimeout(resolve, LOOK_PAUSE_MS));
      }
    }
    return undefined;
  }
}

function eventOf(fact: NumberedFact): SecretEvent | undefined {
  if (secretsChanged.is(fact)) {
    const { projectId, environment, path, change, keys } = fact.data;
    return { type: `secret:${change}`, projectId, environment, path, keys, xid: fact.xid };
  }
  if (!importsMutated.is(fact)) return undefined;
  const { projectId, environment, path } = fact.data;
  return { type: "secret:import-mutation", projectId, environment, path, keys: null, xid: fact.xid };
}

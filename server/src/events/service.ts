/**
 * Subscriptions to a project's events (SSE). Every node tails the outbox and sends events to the streams that
 * are open on it; nothing is kept for later subscribers. See route-facts.ts for which facts are events, channels.ts for how
 * they are sent, send-heartbeats.ts for what happens on a timer.
 */
import type { Authentication } from "../auth/index.ts";
import type { Licences } from "../licences/index.ts";
import { deny, type Permissions, type EffectiveRights } from "../permissions/index.ts";
import type { MemberActor } from "../platform/actor.ts";
import type { Clock } from "../platform/clock.ts";
import type { ReplyControl } from "../platform/http/index.ts";
import type { Log } from "../platform/log.ts";
import type { Measure } from "../platform/measure.ts";
import type { Tail } from "../platform/outbox/index.ts";
import { unauthorized } from "../platform/problem.ts";
import type { ProjectRow, Projects } from "../projects/index.ts";
import type { Subscribe } from "./contract.ts";
import { SubscriberRights, Subscription } from "./channels.ts";
import {
  ACTION_OF,
  END,
  EVER,
  FEATURE,
  nodeBehind,
  nodeStopping,
  readRegister,
  SUBJECT,
  tooManyGlobs,
  type EventGlobFilter,
  type Since,
} from "./model.ts";
import { EventRouter, rightsEpochOf } from "./service/route-facts.ts";
import { Heartbeat } from "./service/send-heartbeats.ts";
import { LiveStreams, PROMPT_LINGER_MS, SLOW_LINGER_MS } from "./service/live-streams.ts";
import type { StreamQuota } from "./stream-quota.ts";

/** Of the time that a node has to close its streams. */
const DRAINED_BY = 0.8;
const DRAIN_MS = 200;

interface EventNeeds {
  readonly tail: Tail;
  readonly clock: Clock;
  readonly log: Log;
  readonly projects: Projects;
  readonly permissions: Permissions;
  readonly licences: Licences;
  readonly authentication: Authentication;
  readonly quota: StreamQuota;
}

interface StreamDoor {
  readonly header: string | undefined;
  readonly open: ReplyControl["stream"];
}

export interface Events {
  /** Opens the stream once all checks have passed; throws the refusal before. */
  subscribe(actor: MemberActor, input: Subscribe, door: StreamDoor): Promise<void>;
  /** How many streams are open on this node. */
  openStreams(): number;
  readonly measures: readonly Measure[];
  /** Ends the streams that are open now, one after the other within that time. */
  drain(milliseconds: number): void;
  /** Ends every stream with an error event and admits no more. */
  stop(): Promise<void>;
}

interface Admission {
  readonly project: ProjectRow;
  readonly effective: EffectiveRights;
}

interface StreamOrder extends Admission {
  readonly actor: MemberActor;
  readonly filters: readonly EventGlobFilter[];
  readonly since: Since;
}

export function createEvents(needs: EventNeeds): Events {
  const { clock, quota, authentication, projects, permissions, licences } = needs;
  const streams = new LiveStreams(clock.millis(), needs.log);
  const router = new EventRouter({ ...needs, streams });
  const heartbeat = new Heartbeat({ ...needs, streams, router });
  let isStopping = false;

  const checkNode = (): void => {
    if (isStopping) throw nodeStopping();
    if (heartbeat.isBehind()) throw nodeBehind();
  };

  const admit = async (
    actor: MemberActor,
    ref: string,
    filters: readonly EventGlobFilter[],
  ): Promise<Admission> => {
    checkNode();
    if (!(await authentication.isLive(actor))) throw unauthorized(END.tokenRevoked);
    const project = await projects.resolve(actor, ref);
    const effective = await permissions.rightsInProject(actor, project.id);
    for (const { event } of filters) {
      const wanted = { action: ACTION_OF[event], subject: SUBJECT };
      if (!effective.ability.can(wanted.action, wanted.subject)) deny(effective.ability, wanted);
    }
    await licences.require(project.orgId, FEATURE);
    return { project, effective };
  };

  /** Without an await in between: a client that has the headers misses nothing that is committed from then on. */
  const open = (
    { actor, project, filters, since, effective: effective }: StreamOrder,
    door: StreamDoor,
  ): void => {
    const tokenEndsAt = authentication.endOf(door.header);
    const channel = streams.openChannel(project);
    const load = () => permissions.rightsInProject(actor, project.id);
    const rights = channel.subscribers.get(actor.id) ?? new SubscriberRights(effective, load);
    channel.subscribers.set(actor.id, rights);
    const stream = door.open({
      backlog: streams.backlog,
      elapsed: clock.elapsed,
      onClose: () => {
        streams.leave(subscription);
        quota.release(project.id, actor.id);
      },
      onOverflow: () => streams.end(subscription, END.tooSlow, SLOW_LINGER_MS),
    });
    const pingedWith = heartbeat.drawTick();
    const subscription = new Subscription(
      { actor, channel, rights, filters, since, tokenEndsAt, pingedWith },
      stream,
    );
    streams.enter(subscription);
    heartbeat.start();
  };

  return {
    async subscribe(actor, input, door) {
      const filters = readRegister(input.register);
      const { project } = await admit(actor, input.projectId, filters);
      const events = [...new Set(filters.map((filter) => filter.event))];
      const { reconnects } = router;
      const since = await quota.take({ project, actor, events });
      const topics = rightsEpochOf(actor, project);
      for (;;) {
        const watch = router.news.begin();
        try {
          const admission = await admit(actor, project.id, filters);
          // What was checked must still be true when the stream is added; from there on, facts keep it true.
          if (router.news.isTouched(watch, topics)) continue;
          checkNode();
          if (streams.channelOf(project.id)?.subscribers.get(actor.id)?.hasRoomFor(filters) === false)
            throw tooManyGlobs();
          const isOfThisServer = reconnects === router.reconnects;
          return open({ ...admission, actor, filters, since: isOfThisServer ? since : EVER }, door);
        } catch (error) {
          quota.release(project.id, actor.id);
          throw error;
        } finally {
          router.news.end(watch);
        }
      }
    },

    openStreams: () => streams.count,

    measures: [
      {
        name: "keyward_event_streams",
        help: "Event streams that are open on this node.",
        kind: "gauge",
        read: () => [{ value: streams.count }],
      },
    ],

    /** Clients reconnect to other nodes, but not all in the same moment. */
    drain(milliseconds: number) {
      const open = streams.channels().flatMap((channel) => [...channel.subscriptions]);
      for (const [index, subscription] of open.entries())
        setTimeout(
          () => streams.end(subscription, END.stopping),
          (milliseconds * DRAINED_BY * (index + 1)) / open.length,
        ).unref();
    },

    async stop() {
      isStopping = true;
      // What was committed before is sent before the final error event, unless a slow reader blocks the channel.
      for (let waited = 0; streams.isDispatching() && waited < DRAIN_MS; waited += 5) {
        await new Promise((resolve) => setTimeout(resolve, 5));
      }
      streams.endAll(END.stopping);
      for (let waited = 0; streams.count > 0 && waited < PROMPT_LINGER_MS * 2; waited += 10) {
        await new Promise((resolve) => setTimeout(resolve, 10));
      }
      heartbeat.stop();
      await quota.leave();
    },
  };
}

/**
 * Subscriptions to a project's events. Every node tails the outbox and reads out what it hears to the streams that
 * are open on it; nothing is kept for those who come later. See hear-facts.ts for what is heard, halls/ for how it
 * is read out, keep-time.ts for what happens by the clock.
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
import { Holder, Listener } from "./halls/service.ts";
import {
  ACTION_OF,
  END,
  EVER,
  FEATURE,
  nodeDeaf,
  nodeStopping,
  readRegister,
  SUBJECT,
  tooManyGlobs,
  type Filter,
  type Since,
} from "./model.ts";
import { Hearing, newsAbout } from "./service/hear-facts.ts";
import { Timekeeper } from "./service/keep-time.ts";
import { LiveStreams, PROMPT_LINGER_MS, SLOW_LINGER_MS } from "./service/live-streams.ts";
import type { Slots } from "./slots/service.ts";

/** Of the time that a node has to send its streams away. */
const DRAINED_BY = 0.8;
const DRAIN_MS = 200;

export interface EventNeeds {
  readonly tail: Tail;
  readonly clock: Clock;
  readonly log: Log;
  readonly projects: Projects;
  readonly permissions: Permissions;
  readonly licences: Licences;
  readonly authentication: Authentication;
  readonly slots: Slots;
}

export interface StreamDoor {
  readonly header: string | undefined;
  readonly open: ReplyControl["stream"];
}

export interface Events {
  /** Opens the stream through the door once everything is in order; throws the refusal before. */
  subscribe(actor: MemberActor, input: Subscribe, door: StreamDoor): Promise<void>;
  /** How many streams are open on this node. */
  openStreams(): number;
  readonly measures: readonly Measure[];
  /** Ends the streams that are open now, one after the other within that time. */
  drain(milliseconds: number): void;
  /** Ends every stream with an error event and lets no more in. */
  stop(): Promise<void>;
}

interface Admission {
  readonly project: ProjectRow;
  readonly standing: EffectiveRights;
}

interface Order extends Admission {
  readonly actor: MemberActor;
  readonly filters: readonly Filter[];
  readonly since: Since;
}

export function createEvents(needs: EventNeeds): Events {
  const { clock, slots, authentication, projects, permissions, licences } = needs;
  const streams = new LiveStreams(clock.millis(), needs.log);
  const hearing = new Hearing({ ...needs, streams });
  const timekeeper = new Timekeeper({ ...needs, streams, hearing });
  let isStopping = false;

  const checkNode = (): void => {
    if (isStopping) throw nodeStopping();
    if (timekeeper.isDeaf()) throw nodeDeaf();
  };

  const admit = async (actor: MemberActor, ref: string, filters: readonly Filter[]): Promise<Admission> => {
    checkNode();
    if (!(await authentication.isLive(actor))) throw unauthorized(END.tokenRevoked);
    const project = await projects.resolve(actor, ref);
    const standing = await permissions.standingInProject(actor, project.id);
    for (const { event } of filters) {
      const wanted = { action: ACTION_OF[event], subject: SUBJECT };
      if (!standing.ability.can(wanted.action, wanted.subject)) deny(standing.ability, wanted);
    }
    await licences.require(project.orgId, FEATURE);
    return { project, standing };
  };

  /** In one go: whoever has the headers misses nothing that is committed from then on. */
  const open = ({ actor, project, filters, since, standing }: Order, door: StreamDoor): void => {
    const tokenEndsAt = authentication.endOf(door.header);
    const hall = streams.openHall(project);
    const load = () => permissions.standingInProject(actor, project.id);
    const holder = hall.holders.get(actor.id) ?? new Holder(standing, load);
    hall.holders.set(actor.id, holder);
    const stream = door.open({
      backlog: streams.backlog,
      elapsed: clock.elapsed,
      onClose: () => {
        streams.leave(listener);
        slots.release(project.id, actor.id);
      },
      onOverflow: () => streams.end(listener, END.tooSlow, SLOW_LINGER_MS),
    });
    const pingedWith = timekeeper.drawTick();
    const listener = new Listener({ actor, hall, holder, filters, since, tokenEndsAt, pingedWith }, stream);
    streams.enter(listener);
    timekeeper.start();
  };

  return {
    async subscribe(actor, input, door) {
      const filters = readRegister(input.register);
      const { project } = await admit(actor, input.projectId, filters);
      const events = [...new Set(filters.map((filter) => filter.event))];
      const { reconnects } = hearing;
      const since = await slots.take({ project, actor, events });
      const topics = newsAbout(actor, project);
      for (;;) {
        const watch = hearing.news.begin();
        try {
          const admission = await admit(actor, project.id, filters);
          // What was checked must be true when the stream is entered; from there on, facts keep it true.
          if (hearing.news.isTouched(watch, topics)) continue;
          checkNode();
          if (streams.hallOf(project.id)?.holders.get(actor.id)?.hasRoomFor(filters) === false)
            throw tooManyGlobs();
          const isOfThisServer = reconnects === hearing.reconnects;
          return open({ ...admission, actor, filters, since: isOfThisServer ? since : EVER }, door);
        } catch (error) {
          slots.release(project.id, actor.id);
          throw error;
        } finally {
          hearing.news.end(watch);
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

    /** Everybody comes back elsewhere, but not all in the same moment. */
    drain(milliseconds: number) {
      const open = streams.halls().flatMap((hall) => [...hall.listeners]);
      for (const [index, listener] of open.entries())
        setTimeout(
          () => streams.end(listener, END.stopping),
          (milliseconds * DRAINED_BY * (index + 1)) / open.length,
        ).unref();
    },

    async stop() {
      isStopping = true;
      // What was committed before is heard before the goodbye, unless someone keeps it from being read out.
      for (let waited = 0; streams.isReadingOut() && waited < DRAIN_MS; waited += 5) {
        await new Promise((resolve) => setTimeout(resolve, 5));
      }
      streams.endAll(END.stopping);
      for (let waited = 0; streams.count > 0 && waited < PROMPT_LINGER_MS * 2; waited += 10) {
        await new Promise((resolve) => setTimeout(resolve, 10));
      }
      timekeeper.stop();
      await slots.leave();
    },
  };
}

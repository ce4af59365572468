/**
 * Large answers. To read, decrypt and serialise one takes hundreds of megabytes and seconds, so few are made
 * at once and organisations take turns; each is made in chunks, and other requests are served in between.
 */
import { Readable } from "node:stream";
import { LRUCache } from "lru-cache";
import { Pace } from "../../platform/pace.ts";
import { badRequest } from "../../platform/problem.ts";
import { UnreadBytes } from "../../platform/http/unread.ts";
import { createFairQueue } from "../../platform/fair-queue.ts";
import type { Access, ProjectScope } from "../access.ts";
import { toView, type ReadSecret } from "../model.ts";
import type { ImportBlock } from "../resolution/service.ts";
import { IsLarge } from "../resolution/load-rows.ts";

const KNOWN_MS = 600_000;
const CHUNK_CHARACTERS = 64 * 1024;
const CHUNK_BYTES = 64 * 1024;

interface LargeAnswers {
  /**
   * Does it the quick way; if that finds much, does it again in the organisation's turn, with the rights that the
   * caller has by then. `what` identifies the answer.
   */
  either<T>(
    scope: ProjectScope,
    what: string,
    work: (now: ProjectScope, isLarge: boolean) => Promise<T>,
  ): Promise<T>;
}

export function createLargeAnswers(access: Access): LargeAnswers {
  const turns = createFairQueue({
    what: "large lists of secrets are being answered",
    places: 3,
    perTenant: 1,
    // A waiting request holds nothing: a fleet that starts together is served one after the other, not refused.
    waitingPerTenant: 1000,
    waiting: 5000,
    patienceMs: 30_000,
  });
  /** What was large before skips the quick way. */
  const known = new LRUCache<string, true>({ max: 10_000, ttl: KNOWN_MS });
  return {
    async either(scope, what, work) {
      const { orgId, id } = scope.project;
      if (!known.has(what)) {
        try {
          return await work(scope, false);
        } catch (error) {
          if (!(error instanceof IsLarge)) throw error;
          known.set(what, true);
        }
      }
      refuseUnread(orgId);
      return turns.run(orgId, async () => {
        // Hundreds may have disconnected while they waited; each would be a second of work for nobody.
        if (scope.actor.caller?.isGone?.()) throw badRequest("This connection was closed.");
        refuseUnread(orgId);
        return work(await access.scope(scope.actor, id), true);
      });
    },
  };
}

const blockOf = ({ folder, secrets }: ImportBlock) => ({
  secretPath: folder.path,
  environment: folder.environment,
  folderId: folder.id,
  secrets: secrets.map(toView),
});

interface WrittenList {
  readonly secrets: readonly ReadSecret[];
  readonly imports: readonly ImportBlock[];
}

export const writeList = ({ secrets, imports }: WrittenList): Buffer =>
  Buffer.from(JSON.stringify({ secrets: secrets.map(toView), imports: imports.map(blockOf) }));

/** The same bytes, made in chunks. */
export async function writeLargeList({ secrets, imports }: WrittenList): Promise<Buffer[]> {
  const pace = new Pace();
  const chunks: Buffer[] = [];
  let text = "";
  const cut = (): void => {
    if (text !== "") chunks.push(Buffer.from(text));
    text = "";
  };
  const writeSecrets = async (items: readonly ReadSecret[]): Promise<void> => {
    for (const [at, secret] of items.entries()) {
      text += `${at === 0 ? "" : ","}${JSON.stringify(toView(secret))}`;
      if (text.length >= CHUNK_CHARACTERS) cut();
      if (pace.isDue()) await pace.rest();
    }
  };
  text += '{"secrets":[';
  await writeSecrets(secrets);
  text += '],"imports":[';
  for (const [at, block] of imports.entries()) {
    const head = JSON.stringify({ ...blockOf({ ...block, secrets: [] }) });
    text += `${at === 0 ? "" : ","}${head.slice(0, -"]}".length)}`;
    await writeSecrets(block.secrets);
    text += "]}";
  }
  text += "]}";
  cut();
  return chunks;
}

export const lengthOf = (chunks: readonly Buffer[]): number =>
  chunks.reduce((sum, { length }) => sum + length, 0);

/** Made and not sent yet, by organisation: whoever asks for much and reads nothing fills nobody's memory. */
const unsent = new UnreadBytes(256 * 1024 * 1024, "Large lists");

export const refuseUnread = (orgId: string): void => unsent.requireRoom(orgId);

/** What is counted of an organisation, in bytes. */
export const unreadBytes = (orgId: string): number => unsent.of(orgId);

/** Released piece by piece, as they are sent. */
export function streamOf(orgId: string, chunks: Buffer[]): Readable {
  const left = chunks.reverse();
  unsent.add(orgId, lengthOf(left));
  return new Readable({
    read() {
      const chunk = left.pop();
      unsent.add(orgId, -(chunk?.length ?? 0));
      this.push(chunk ?? null);
    },
    destroy(error, done) {
      unsent.add(orgId, -lengthOf(left.splice(0)));
      done(error);
    },
  });
}

/** The whole buffer stays until its end is sent, so all of it counts until then; what is in the socket is a copy. */
export function streamOfOne(orgId: string, file: Buffer): Readable {
  let whole: Buffer | undefined = file;
  let at = 0;
  unsent.add(orgId, file.length);
  const end = (): void => {
    if (whole) unsent.add(orgId, -whole.length);
    whole = undefined;
  };
  return new Readable({
    read() {
      const chunk = whole && Buffer.from(whole.subarray(at, (at += CHUNK_BYTES)));
      if (whole && at >= whole.length) end();
      this.push(chunk && chunk.length > 0 ? chunk : null);
    },
    destroy(error, done) {
      end();
      done(error);
    },
  });
}

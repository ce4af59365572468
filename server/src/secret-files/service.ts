/** Files in and out. Everything goes through the same reads and writes as any other request, rights included. */
import type { MemberActor } from "../platform/actor.ts";
import { inChunks, Pace } from "../platform/pace.ts";
import { badRequest, invalidField } from "../platform/problem.ts";
import { clip, isWellFormed } from "../platform/text.ts";
import { MAX_BATCH, type ListQuery } from "../secrets/contract.ts";
import { secretName } from "../secrets/paths.contract.ts";
import type { ExportQuery, FileFormat, FileToImport } from "./contract.ts";
import { dotenvEntries, dotenvLines } from "./formats/dotenv.ts";
import {
  FormatError,
  readInChunks,
  type EntriesToCome,
  type FileEntries,
  type EntryReading,
  type Writing,
} from "./formats/entries.ts";
import { jsonEntries, jsonLines } from "./formats/json.ts";
import { yamlEntries, yamlLines } from "./formats/yaml.ts";
import type { Access, ReadSecret, SecretReads, SecretWrites } from "../secrets/index.ts";

interface FileNeeds {
  readonly access: Access;
  readonly reads: SecretReads;
  readonly writes: SecretWrites;
}

const READERS: Readonly<Record<FileFormat, (text: string, orgId: string) => EntryReading | EntriesToCome>> = {
  dotenv: dotenvEntries,
  json: jsonEntries,
  yaml: yamlEntries,
};
const WRITERS: Readonly<Record<FileFormat, (entries: FileEntries) => Writing>> = {
  dotenv: dotenvLines,
  json: jsonLines,
  yaml: yamlLines,
};
const CHUNK_CHARACTERS = 64 * 1024;

async function writeInChunks(writing: Writing): Promise<Buffer[]> {
  const pace = new Pace();
  const chunks: Buffer[] = [];
  let text = "";
  for (const line of writing) {
    text += line;
    if (text.length >= CHUNK_CHARACTERS) {
      chunks.push(Buffer.from(text));
      text = "";
    }
    if (pace.isDue()) await pace.rest();
  }
  return [...chunks, Buffer.from(text)];
}

export type SecretFiles = ReturnType<typeof createSecretFiles>;

export const plainList = (projectId: string, environment: string, secretPath: string): ListQuery => ({
  projectId,
  environment,
  secretPath,
  viewSecretValue: true,
  expandSecretReferences: false,
  recursive: false,
  includeImports: false,
  includePersonalOverrides: false,
});

async function orExplain<T>(field: string, work: () => T | Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof FormatError)
      throw field === "" ? badRequest(error.message) : invalidField([field], error.message);
    throw error;
  }
}

/** Escapes in a file can contain what the door refuses in a request. */
const isStorable = (text: string): boolean => !text.includes("\0") && isWellFormed(text);

export function createSecretFiles({ access, reads, writes }: FileNeeds) {
  return {
    async export(actor: MemberActor, projectId: string, query: ExportQuery): Promise<Buffer[]> {
      const list = await reads.listFresh(actor, {
        ...plainList(projectId, query.environment, query.secretPath),
        includeImports: query.includeImports,
        expandSecretReferences: query.expandSecretReferences,
      });
      const entries = new Map<string, string>();
      const add = ({ row, value }: ReadSecret) => {
        if (value !== undefined && !entries.has(row.key)) entries.set(row.key, value.open());
      };
      await inChunks(list.secrets, add);
      for (const block of list.imports) await inChunks(block.secrets, add);
      return orExplain("", () => writeInChunks(WRITERS[query.format](entries)));
    },

    async import(actor: MemberActor, projectId: string, input: FileToImport) {
      // Before the file is read: it is work, and its faults are told only to members.
      await access.environment(await access.scope(actor, projectId), input.environment);
      const entries = await orExplain("content", () =>
        readInChunks(READERS[input.format](input.content, actor.orgId ?? actor.id), MAX_BATCH),
      );
      const pace = new Pace();
      for (const [key, value] of entries) {
        await pace.giveWay();
        if (!secretName.safeParse(key).success || !isStorable(key))
          throw invalidField(["content"], `${JSON.stringify(clip(key))} cannot be the name of a secret`);
        if (!isStorable(value))
          throw invalidField(
            ["content"],
            `the value of ${JSON.stringify(clip(key))} holds a NUL character or half of a surrogate pair`,
          );
      }
      const { secrets } = await reads.listFresh(
        actor,
        plainList(projectId, input.environment, input.secretPath),
        [...entries.keys()],
      );
      const known = new Map(secrets.map(({ row, value }) => [row.key, value?.open()]));
      const all = [...entries];
      const created = all.filter(([key]) => !known.has(key));
      const updated = all.filter(([key, value]) => known.has(key) && known.get(key) !== value);
      const changes = [...created, ...updated].map(([secretKey, secretValue]) => ({
        secretKey,
        secretValue,
      }));
      if (!input.dryRun && changes.length > 0) {
        await writes.updateMany(actor, {
          projectId,
          environment: input.environment,
          secretPath: input.secretPath,
          mode: "upsert",
          secrets: changes,
        });
      }
      const keys = (list: readonly (readonly [string, string])[]) => list.map(([key]) => key);
      const unchanged = all.filter(([key, value]) => known.get(key) === value);
      return {
        created: keys(created),
        updated: keys(updated),
        unchanged: keys(unchanged),
        dryRun: input.dryRun,
      };
    },
  };
}

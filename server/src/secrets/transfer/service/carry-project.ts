/**
 * A whole project in one file and out of it again. Whoever exports must be able to read every value in it; whoever
 * imports must be able to make everything that is in the file. Importing is a walk through the ordinary use cases and
 * safe to repeat: what is there already is left as it is.
 */
import type { MemberActor } from "../../../platform/actor.ts";
import type { Db } from "../../../platform/db/index.ts";
import { deny } from "../../../permissions/index.ts";
import type { Environments } from "../../../projects/index.ts";
import type { Access, Ground } from "../../access/service.ts";
import type { Folders } from "../../folders/service.ts";
import { folderTree } from "../../folders/store.ts";
import type { Imports } from "../../imports/service.ts";
import { importsOfFolder } from "../../imports/store.ts";
import { attributesOf } from "../../model.ts";
import { namesOf, parentOf } from "../../paths/contract.ts";
import type { SecretReads } from "../../service/read-secrets.ts";
import type { SecretWrites } from "../../service/write-secrets.ts";
import type { Tags } from "../../tags/service.ts";
import { countSecrets } from "../../store.ts";
import { openArchive, sealArchive, type Archive } from "./seal-archive.ts";
import type { ProjectToImport } from "../contract.ts";
import { plainList } from "../service.ts";

export interface ProjectFileNeeds {
  readonly db: Db;
  readonly access: Access;
  readonly environments: Environments;
  readonly folders: Folders;
  readonly imports: Imports;
  readonly tags: Tags;
  readonly reads: SecretReads;
  readonly writes: SecretWrites;
}

export interface Tally {
  readonly created: string[];
  readonly updated: string[];
  unchanged: number;
}
const tally = (): Tally => ({ created: [], updated: [], unchanged: 0 });

export type ProjectFiles = ReturnType<typeof createProjectFiles>;

export function createProjectFiles(needs: ProjectFileNeeds) {
  const { db, access, environments, folders, imports, tags, reads, writes } = needs;

  const gather = async (actor: MemberActor, ground: Ground): Promise<Archive> => {
    const { project } = ground;
    const archive: Archive = {
      project: { name: project.name, slug: project.slug },
      environments: project.environments.map(({ slug, name }) => ({ slug, name })),
      tags: [],
      folders: [],
      secrets: [],
      imports: [],
    };
    archive.tags = (await tags.list(actor, project.id)).map(({ slug, name, color }) => ({
      slug,
      name,
      color,
    }));
    for (const { id, slug } of project.environments) {
      const { secrets } = await reads.listFresh(actor, {
        ...plainList(project.id, slug, "/"),
        recursive: true,
      });
      const hidden = secrets.find(({ value }) => value === undefined);
      const isPartial = secrets.length !== (await db.read((q) => countSecrets(q, id)));
      if (hidden || isPartial)
        deny(ground.ability, {
          action: "readValue",
          subject: "secrets",
          attributes: hidden
            ? attributesOf(hidden.folder, hidden.row.key, hidden.tags)
            : { environment: slug },
        });
      for (const { row, folder, value, comment, metadata, tags: own } of secrets) {
        archive.secrets.push({
          environment: slug,
          path: folder.path,
          key: row.key,
          value: value?.open() ?? "",
          comment: comment.open(),
          metadata: [...metadata.open()],
          tags: own.map((tag) => tag.slug),
          skipMultiline: row.skipMultiline,
          reminderNote: row.reminderNote,
          reminderDays: row.reminderDays,
        });
      }
      for (const folder of await db.read((q) => folderTree(q, id, "/", "/%"))) {
        archive.folders.push({ environment: slug, path: folder.path, description: folder.description });
        for (const one of await db.read((q) => importsOfFolder(q, folder.id))) {
          if (one.sourceProjectId === project.id)
            archive.imports.push({
              environment: slug,
              path: folder.path,
              sourceEnvironment: one.sourceEnvironment,
              sourcePath: one.sourcePath,
            });
        }
      }
    }
    return archive;
  };

  interface Walk {
    readonly actor: MemberActor;
    readonly projectId: string;
    readonly archive: Archive;
    readonly dryRun: boolean;
    /** What stands in the project when the walk begins; empty for an environment that is new. */
    readonly known: ReadonlySet<string>;
  }

  const takeEnvironments = async ({ actor, projectId, archive, dryRun, known }: Walk): Promise<Tally> => {
    const sum = tally();
    for (const { slug, name } of archive.environments) {
      if (known.has(slug)) sum.unchanged += 1;
      else sum.created.push(slug);
      if (!known.has(slug) && !dryRun) await environments.create(actor, projectId, { slug, name });
    }
    return sum;
  };

  const takeTags = async ({
    actor,
    projectId,
    archive,
    dryRun,
  }: Walk): Promise<{ sum: Tally; ids: Map<string, string> }> => {
    const sum = tally();
    const ids = new Map((await tags.list(actor, projectId)).map((tag) => [tag.slug, tag.id]));
    for (const tag of archive.tags) {
      if (ids.has(tag.slug)) sum.unchanged += 1;
      else sum.created.push(tag.slug);
      if (!ids.has(tag.slug) && !dryRun) ids.set(tag.slug, (await tags.create(actor, projectId, tag)).id);
    }
    return { sum, ids };
  };

  const takeFolders = async ({ actor, projectId, archive, dryRun, known }: Walk): Promise<Tally> => {
    const sum = tally();
    const there = new Map<string, Set<string>>();
    for (const environment of known)
      there.set(
        environment,
        new Set(
          (await folders.list(actor, { projectId, environment, path: "/", recursive: true })).map(
            (row) => row.path,
          ),
        ),
      );
    for (const { environment, path, description } of archive.folders.filter(
      (folder) => folder.path !== "/",
    )) {
      if (there.get(environment)?.has(path)) sum.unchanged += 1;
      else sum.created.push(`${environment}:${path}`);
      // Parents come first in the file, so each creation makes exactly one folder.
      if (!there.get(environment)?.has(path) && !dryRun)
        await folders.create(actor, {
          projectId,
          environment,
          path: parentOf(path),
          name: namesOf(path).at(-1) ?? "",
          description,
        });
    }
    return sum;
  };

  const takeSecrets = async (
    { actor, projectId, archive, dryRun, known }: Walk,
    ids: ReadonlyMap<string, string>,
  ): Promise<Tally> => {
    const sum = tally();
    const there = new Map<string, string | undefined>();
    for (const environment of known) {
      const { secrets } = await reads.listFresh(actor, {
        ...plainList(projectId, environment, "/"),
        recursive: true,
      });
      for (const { row, folder, value } of secrets)
        there.set(`${environment}:${folder.path}:${row.key}`, value?.open());
    }
    const batches = new Map<string, Archive["secrets"]>();
    for (const secret of archive.secrets) {
      const name = `${secret.environment}:${secret.path}:${secret.key}`;
      if (there.has(name) && there.get(name) === secret.value) {
        sum.unchanged += 1;
        continue;
      }
      (there.has(name) ? sum.updated : sum.created).push(name);
      const place = `${secret.environment}:${secret.path}`;
      batches.set(place, [...(batches.get(place) ?? []), secret]);
    }
    for (const [place, batch] of dryRun ? [] : batches) {
      const [environment = "", secretPath = "/"] = place.split(":");
      await writes.updateMany(actor, {
        projectId,
        environment,
        secretPath,
        mode: "upsert",
        secrets: batch.map((secret) => ({
          secretKey: secret.key,
          secretValue: secret.value,
          secretComment: secret.comment,
          secretMetadata: secret.metadata,
          tagIds: secret.tags.flatMap((slug) => ids.get(slug) ?? []),
          skipMultilineEncoding: secret.skipMultiline,
          secretReminderNote: secret.reminderNote,
          secretReminderRepeatDays: secret.reminderDays,
        })),
      });
    }
    return sum;
  };

  const takeImports = async ({ actor, projectId, archive, dryRun, known }: Walk): Promise<Tally> => {
    const sum = tally();
    for (const one of archive.imports) {
      const present = known.has(one.environment)
        ? await imports
            .list(actor, { projectId, environment: one.environment, path: one.path })
            .catch(() => [])
        : [];
      if (
        present.some(
          (row) => row.sourceEnvironment === one.sourceEnvironment && row.sourcePath === one.sourcePath,
        )
      ) {
        sum.unchanged += 1;
        continue;
      }
      sum.created.push(`${one.environment}:${one.path} ← ${one.sourceEnvironment}:${one.sourcePath}`);
      if (!dryRun)
        await imports.create(actor, {
          projectId,
          environment: one.environment,
          path: one.path,
          import: { environment: one.sourceEnvironment, path: one.sourcePath },
          isReplication: false,
        });
    }
    return sum;
  };

  return {
    async export(actor: MemberActor, projectRef: string, passphrase: string): Promise<Buffer> {
      const ground = await access.ground(actor, projectRef);
      const file = await sealArchive(await gather(actor, ground), passphrase);
      const { orgId, id: projectId } = ground.project;
      await db.write(async (tx) =>
        tx.audit(actor, { event: "export-project", orgId, projectId, metadata: { bytes: file.length } }),
      );
      return file;
    },

    async import(actor: MemberActor, projectRef: string, input: ProjectToImport) {
      const ground = await access.ground(actor, projectRef);
      const archive = await openArchive(Buffer.from(input.file, "base64"), input.passphrase);
      const known = new Set(
        ground.project.environments
          .map(({ slug }) => slug)
          .filter((slug) => archive.environments.some((one) => one.slug === slug)),
      );
      const walk: Walk = { actor, projectId: ground.project.id, archive, dryRun: input.dryRun, known };
      const made = await takeEnvironments(walk);
      const { sum: taken, ids } = await takeTags(walk);
      return {
        environments: made,
        tags: taken,
        folders: await takeFolders(walk),
        secrets: await takeSecrets(walk, ids),
        imports: await takeImports(walk),
        dryRun: input.dryRun,
      };
    },
  };
}

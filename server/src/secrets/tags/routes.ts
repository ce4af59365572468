import { serve, type Route, inProject } from "../../platform/http/index.ts";
import * as contract from "./contract.ts";
import type { Tags } from "./service.ts";

export const tagRoutes = (tags: Tags): Route[] => [
  serve(contract.listTags, async ({ actor, params }) => ({ tags: await tags.list(actor, params.projectId) })),
  serve(
    contract.createTag,
    async ({ actor, params, body }) => ({
      tag: await tags.create(actor, params.projectId, body),
    }),
    inProject("create", "tags"),
  ),
  serve(contract.getTag, async ({ actor, params }) => ({
    tag: await tags.get(actor, params.projectId, params.tagId),
  })),
  serve(contract.getTagBySlug, async ({ actor, params }) => ({
    tag: await tags.getBySlug(actor, params.projectId, params.tagSlug),
  })),
  serve(
    contract.updateTag,
    async ({ actor, params, body }) => ({
      tag: await tags.update(actor, params.projectId, params.tagId, body),
    }),
    inProject("edit", "tags"),
  ),
  serve(
    contract.deleteTag,
    async ({ actor, params }) => ({
      tag: await tags.delete(actor, params.projectId, params.tagId),
    }),
    inProject("delete", "tags"),
  ),
  serve(contract.listWorkspaceTags, async ({ actor, params }) => ({
    workspaceTags: await tags.list(actor, params.projectId),
  })),
  serve(
    contract.createWorkspaceTag,
    async ({ actor, params, body }) => ({
      workspaceTag: await tags.create(actor, params.projectId, body),
    }),
    inProject("create", "tags"),
  ),
  serve(contract.getWorkspaceTag, async ({ actor, params }) => ({
    workspaceTag: await tags.get(actor, params.projectId, params.tagId),
  })),
  serve(contract.getWorkspaceTagBySlug, async ({ actor, params }) => ({
    workspaceTag: await tags.getBySlug(actor, params.projectId, params.tagSlug),
  })),
  serve(
    contract.updateWorkspaceTag,
    async ({ actor, params, body }) => ({
      workspaceTag: await tags.update(actor, params.projectId, params.tagId, body),
    }),
    inProject("edit", "tags"),
  ),
  serve(
    contract.deleteWorkspaceTag,
    async ({ actor, params }) => ({
      workspaceTag: await tags.delete(actor, params.projectId, params.tagId),
    }),
    inProject("delete", "tags"),
  ),
];

/** Things that writers make, rename and remove while everything around them fails, and where to find them again. */
import type { Answer, Client } from "../harness.ts";
import type { Place } from "./load.ts";

export interface Maker {
  readonly kind: string;
  make(client: Client, place: Place, name: string): Promise<Answer>;
  idOf(body: Answer["body"]): string;
  /** Id → name of all that writers made. */
  list(client: Client, place: Place): Promise<Map<string, string>>;
  readonly rename?: (at: Thing, name: string) => Promise<Answer>;
  readonly remove?: (at: Thing) => Promise<Answer>;
}

export interface Thing {
  readonly client: Client;
  readonly place: Place;
  readonly id: string;
}

interface Shelf {
  readonly kind: string;
  readonly path: (place: Place) => string;
  readonly body: (name: string, place: Place) => Record<string, unknown>;
  /** What an answer calls one of them, and a list all. */
  readonly one: string;
  readonly many: string;
  /** The field that holds a writer's name. */
  readonly named?: string;
  /** Where a list is somewhere else, is narrowed, or comes in pages. */
  readonly listed?: (place: Place) => string;
  readonly page?: number;
  /** Where one of them is changed, and what is sent along. */
  readonly changedAt?: string;
  readonly along?: (place: Place) => Record<string, unknown>;
  readonly canRename?: false;
  readonly canRemove?: false;
}

export const must = (answer: Answer, what: string): Answer["body"] => {
  if (answer.status !== 200) throw new Error(`${what}: ${answer.status} ${JSON.stringify(answer.body)}`);
  return answer.body;
};

function shelf(spec: Shelf): Maker {
  const { kind, path, body, one, many, named = "name", page, along } = spec;
  const pathTo = ({ place, id }: Thing): string => `${spec.changedAt ?? path(place)}/${id}`;
  const pages = async function* (client: Client, place: Place) {
    const address = (spec.listed ?? path)(place);
    const join = address.includes("?") ? "&" : "?";
    for (let offset = 0; ; offset += page ?? 0) {
      const paging = page === undefined ? "" : `${join}limit=${page}&offset=${offset}`;
      const items = must(await client.get(address + paging), `the list of ${kind}s`)[
        many
      ] as Answer["body"][];
      yield items;
      if (page === undefined || items.length < page) return;
    }
  };
  return {
    kind,
    make: (client, place, name) => client.post(path(place), body(name, place)),
    idOf: (answered) => answered[one].id ?? answered[one].certificateId,
    async list(client, place) {
      const found = new Map<string, string>();
      for await (const items of pages(client, place))
        for (const item of items) {
          // An identity is told of as a member.
          const [id, name] = item.identity ? [item.identity.id, item.identity.name] : [item.id, item[named]];
          if (name.startsWith("w")) found.set(id, name);
        }
      return found;
    },
    ...(spec.canRename === false
      ? {}
      : {
          rename: (at: Thing, name: string) =>
            at.client.patch(pathTo(at), { ...along?.(at.place), [named]: name }),
        }),
    ...(spec.canRemove === false
      ? {}
      : { remove: (at: Thing) => at.client.delete(pathTo(at), along?.(at.place)) }),
  };
}

const CM = "/api/v1/cert-manager";
const TOKENS = "/api/v1/auth/token-auth";
const inDev = ({ projectId }: Place) => ({ projectId, environment: "dev", path: "/" });
const inPki = (path: string) => (place: Place) => `${path}?projectId=${place.pkiProjectId}`;

export const MAKERS: readonly Maker[] = [
  shelf({
    ...{ kind: "identity", one: "identity", many: "identities", page: 1000 },
    path: () => "/api/v1/identities",
    body: (name) => ({ name }),
  }),
  shelf({
    ...{ kind: "folder", one: "folder", many: "folders" },
    path: () => "/api/v2/folders",
    listed: ({ projectId }) => `/api/v2/folders?projectId=${projectId}&environment=dev&path=/`,
    body: (name, place) => ({ ...inDev(place), name }),
    along: inDev,
  }),
  shelf({
    ...{ kind: "role", one: "role", many: "roles", named: "slug" },
    path: ({ projectId }) => `/api/v1/projects/${projectId}/roles`,
    body: (slug) => ({ slug, name: slug, permissions: [] }),
  }),
  shelf({
    ...{ kind: "organisation's role", one: "role", many: "roles", named: "slug" },
    path: () => "/api/v1/organization/roles",
    body: (slug) => ({ slug, name: slug, permissions: [] }),
  }),
  shelf({
    ...{ kind: "tag", one: "tag", many: "tags", named: "slug" },
    path: ({ projectId }) => `/api/v1/projects/${projectId}/tags`,
    body: (slug) => ({ slug }),
  }),
  shelf({
    ...{ kind: "project", one: "project", many: "projects" },
    path: () => "/api/v1/projects",
    body: (projectName) => ({ projectName }),
  }),
  shelf({
    ...{ kind: "token", one: "tokenData", many: "tokens", page: 100, canRemove: false },
    path: ({ identityId }) => `${TOKENS}/identities/${identityId}/tokens`,
    body: (name) => ({ name }),
    changedAt: `${TOKENS}/tokens`,
  }),
  shelf({
    ...{ kind: "alert", one: "alert", many: "alerts", page: 100 },
    path: () => `${CM}/alerts`,
    listed: inPki(`${CM}/alerts`),
    body: (name, { pkiProjectId }) => ({
      ...{ projectId: pkiProjectId, name, eventType: "expiration", alertBefore: "30d", filters: [] },
      channels: [{ config: { recipients: ["ops@example.com"] } }],
    }),
  }),
  shelf({
    ...{ kind: "policy", one: "certificatePolicy", many: "certificatePolicies", page: 100 },
    path: () => `${CM}/certificate-policies`,
    listed: inPki(`${CM}/certificate-policies`),
    body: (name, { pkiProjectId }) => ({ name, projectId: pkiProjectId }),
  }),
  shelf({
    ...{ kind: "application", one: "application", many: "applications", page: 100 },
    path: () => `${CM}/applications`,
    listed: inPki(`${CM}/applications`),
    body: (name, { pkiProjectId }) => ({ name, projectId: pkiProjectId }),
  }),
  shelf({
    ...{ kind: "certificate", one: "certificate", many: "certificates", named: "cn", page: 100 },
    ...{ canRename: false, canRemove: false },
    path: () => `${CM}/certificates`,
    listed: ({ profileId }) => `${CM}/certificate-profiles/${profileId}/certificates`,
    // Longer than any alert looks ahead.
    body: (commonName, { profileId }) => ({ profileId, attributes: { commonName, ttl: "90d" } }),
  }),
];

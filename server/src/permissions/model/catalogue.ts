// Everything a role can speak about: the subjects, what can be done with each, and the attributes on which a
// rule may depend. A name that is not here does not exist: a role that mentions it is refused (a typo must not
// silently grant nothing) and code that asks about it fails loudly.
//
// Clients know some things by older or longer names. Those are accepted, stored as they were sent and
// evaluated as what they stand for. An alias may stand for several actions: `read` on secrets is seeing that
// a secret exists and seeing its value.

export type RoleScopeKind = "project" | "organization";

/**
 * text   one string
 * path   one canonical folder path
 * names  several strings of one thing, such as the names in a certificate: an allowing rule must hold for
 *        each of them, a denying rule for any of them, or one good name would carry a bad one in
 * tags   a set of labels
 * pairs  a list of key and value
 */
export type AttributeKind = "text" | "path" | "names" | "tags" | "pairs";

const SCALAR_OPERATORS = ["$eq", "$ne", "$in", "$nin", "$glob"] as const;

export const OPERATORS: Readonly<Record<AttributeKind, readonly string[]>> = {
  text: SCALAR_OPERATORS,
  path: SCALAR_OPERATORS,
  names: SCALAR_OPERATORS,
  tags: ["$in", "$all"],
  pairs: ["$elemMatch"],
};

/** Used by the built-in administrators only: every subject, every action. */
export const EVERY_SUBJECT = "all";
export const EVERY_ACTION = "manage";

interface SubjectEntry {
  readonly subject: string;
  readonly actions: readonly string[];
  readonly attributes: Readonly<Record<string, AttributeKind>>;
  readonly aliases?: readonly string[];
  readonly actionAliases?: Readonly<Record<string, readonly string[]>>;
}

const CRUD = ["read", "create", "edit", "delete"] as const;
const GRANT = [
  "grant-privileges",
  "assign-role",
  "assign-additional-privileges",
  "assume-privileges",
] as const;
const AUTH = ["revoke-auth", "edit-auth", "create-token", "get-token", "delete-token"] as const;

const FOLDER = { environment: "text", secretPath: "path" } as const;
const ASSIGNABLE = { assignableRole: "text", assignableSubject: "text", assignableAction: "text" } as const;
const NAMED = { name: "text" } as const;

const secretSubjects: readonly SubjectEntry[] = [
  {
    subject: "secrets",
    actions: ["describeSecret", "readValue", "create", "edit", "delete"],
    actionAliases: { read: ["describeSecret", "readValue"] },
    attributes: { ...FOLDER, secretName: "text", secretTags: "tags", eventType: "text" },
  },
  { subject: "secret-folders", actions: CRUD, attributes: FOLDER },
  { subject: "secret-imports", actions: CRUD, attributes: FOLDER },
  { subject: "secret-rollback", actions: ["read", "create"], attributes: FOLDER },
  {
    subject: "secret-events",
    aliases: ["secret-event-subscriptions"],
    actions: ["read", "create", "update", "delete"],
    actionAliases: {
      "subscribe-to-creation-events": ["create"],
      "subscribe-to-update-events": ["update"],
      "subscribe-to-deletion-events": ["delete"],
      "subscribe-to-import-mutation-events": ["read"],
    },
    attributes: FOLDER,
  },
  {
    subject: "dynamic-secrets",
    actions: [
      "read-root-credential",
      "create-root-credential",
      "edit-root-credential",
      "delete-root-credential",
      "lease",
    ],
    attributes: { ...FOLDER, metadata: "pairs" },
  },
  {
    subject: "secret-rotation",
    actions: [...CRUD, "read-generated-credentials", "rotate-secrets"],
    attributes: FOLDER,
  },
  {
    subject: "secret-syncs",
    actions: [...CRUD, "sync-secrets", "import-secrets", "remove-secrets"],
    attributes: FOLDER,
  },
  { subject: "secret-approval", actions: CRUD, attributes: {} },
];

const certificateSubjects: readonly SubjectEntry[] = [
  {
    subject: "certificate-authorities",
    actions: [...CRUD, "issue-ca-certificate", "sign-intermediate"],
    attributes: NAMED,
  },
  {
    subject: "certificates",
    actions: [...CRUD, "read-private-key", "import"],
    attributes: {
      commonName: "text",
      altNames: "names",
      serialNumber: "text",
      friendlyName: "text",
      status: "text",
      metadata: "pairs",
    },
  },
  { subject: "certificate-policies", actions: CRUD, attributes: NAMED },
  {
    subject: "certificate-profiles",
    actions: [
      ...CRUD,
      "issue-cert",
      "reveal-acme-eab-secret",
      "rotate-acme-eab-secret",
      "manage-application-attachments",
    ],
    attributes: { slug: "text" },
  },
  { subject: "certificate-templates", actions: [...CRUD, "issue-cert", "list-certs"], attributes: NAMED },
  {
    subject: "pki-applications",
    aliases: ["certificate-applications"],
    actions: CRUD,
    attributes: NAMED,
  },
  { subject: "pki-subscribers", actions: [...CRUD, "issue-cert", "list-certs"], attributes: NAMED },
  { subject: "pki-alerts", actions: CRUD, attributes: {} },
  { subject: "pki-collections", actions: CRUD, attributes: {} },
  {
    subject: "pki-syncs",
    actions: [
      ...CRUD,
      "sync-certificates",
      "import-certificates",
      "remove-certificates",
      "set-post-sync-command",
    ],
    attributes: NAMED,
  },
];

const projectSubjects: readonly SubjectEntry[] = [
  ...secretSubjects,
  ...certificateSubjects,
  { subject: "environments", actions: CRUD, attributes: { environment: "text" } },
  { subject: "tags", actions: CRUD, attributes: {} },
  { subject: "role", actions: CRUD, attributes: {} },
  { subject: "member", actions: [...CRUD, ...GRANT], attributes: { userEmail: "text", ...ASSIGNABLE } },
  {
    subject: "groups",
    actions: [...CRUD, "grant-privileges", "assign-role"],
    attributes: { groupName: "text", ...ASSIGNABLE },
  },
  {
    subject: "identity",
    actions: [...CRUD, ...GRANT, ...AUTH],
    attributes: { identityId: "text", ...ASSIGNABLE },
  },
  // To edit is to set the retention: a caller who may do that can have the past deleted.
  { subject: "audit-logs", actions: ["read", "edit"], attributes: {} },
  { subject: "settings", actions: CRUD, attributes: {} },
  { subject: "project", aliases: ["workspace"], actions: ["edit", "delete"], attributes: {} },
  { subject: "kms", actions: ["edit"], attributes: {} },
  {
    subject: "cmek",
    actions: [
      ...CRUD,
      "encrypt",
      "decrypt",
      "sign",
      "verify",
      "generate-mac",
      "verify-mac",
      "rotate",
      "export-private-key",
    ],
    attributes: {},
  },
  {
    subject: "kmip",
    actions: [
      "create-clients",
      "update-clients",
      "delete-clients",
      "read-clients",
      "generate-client-certificates",
    ],
    attributes: {},
  },
  { subject: "service-tokens", actions: CRUD, attributes: {} },
  { subject: "webhooks", actions: CRUD, attributes: {} },
  { subject: "integrations", actions: CRUD, attributes: {} },
  { subject: "ip-allowlist", actions: CRUD, attributes: {} },
  {
    subject: "app-connections",
    actions: [
      "read-app-connections",
      "create-app-connections",
      "edit-app-connections",
      "delete-app-connections",
      "connect-app-connections",
      "rotate-credentials",
    ],
    attributes: { connectionId: "text" },
  },
];

const organizationSubjects: readonly SubjectEntry[] = [
  { subject: "project", aliases: ["workspace"], actions: ["create"], attributes: {} },
  { subject: "role", actions: CRUD, attributes: {} },
  { subject: "member", actions: [...CRUD, ...GRANT], attributes: { userEmail: "text", ...ASSIGNABLE } },
  {
    subject: "groups",
    actions: [...CRUD, "grant-privileges", "assign-role"],
    attributes: { groupName: "text", ...ASSIGNABLE },
  },
  {
    subject: "identity",
    actions: [...CRUD, ...GRANT, ...AUTH],
    attributes: { identityId: "text", ...ASSIGNABLE },
  },
  { subject: "settings", actions: CRUD, attributes: {} },
  { subject: "audit-logs", actions: ["read"], attributes: {} },
  { subject: "project-templates", actions: CRUD, attributes: {} },
  { subject: "licence", aliases: ["billing", "license"], actions: ["read", "edit"], attributes: {} },
  { subject: "incident-contact", actions: CRUD, attributes: {} },
  { subject: "sso", actions: CRUD, attributes: {} },
  { subject: "scim", actions: CRUD, attributes: {} },
  { subject: "ldap", actions: CRUD, attributes: {} },
  { subject: "kms", actions: CRUD, attributes: {} },
];

export const CATALOGUE: Readonly<Record<RoleScopeKind, readonly SubjectEntry[]>> = {
  project: projectSubjects,
  organization: organizationSubjects,
};

/** A subject under one of its names, ready to be asked. */
export interface KnownSubject {
  readonly name: string;
  /** What an action stands for: itself, or several if it is an alias; null if there is no such action. */
  readonly actions: ReadonlyMap<string, readonly string[]>;
  readonly attributes: ReadonlyMap<string, AttributeKind>;
}

function actionsOf(entry: SubjectEntry): [string, readonly string[]][] {
  const plain = entry.actions.map((action): [string, readonly string[]] => [action, [action]]);
  return [...plain, ...Object.entries(entry.actionAliases ?? {})];
}

function index(entries: readonly SubjectEntry[]): ReadonlyMap<string, KnownSubject> {
  const known = new Map<string, KnownSubject>();
  for (const entry of entries) {
    const before = known.get(entry.subject);
    const subject: KnownSubject = {
      name: entry.subject,
      actions: new Map([...(before?.actions ?? []), ...actionsOf(entry)]),
      attributes: new Map([...(before?.attributes ?? []), ...Object.entries(entry.attributes)]),
    };
    for (const name of [entry.subject, ...(entry.aliases ?? [])]) known.set(name, subject);
  }
  return known;
}

const byScope: Readonly<Record<RoleScopeKind, ReadonlyMap<string, KnownSubject>>> = {
  project: index(projectSubjects),
  organization: index(organizationSubjects),
};
const everywhere = index([...projectSubjects, ...organizationSubjects]);

/** Maps, not objects: `constructor` is no subject. */
export function findSubject(name: string, scope?: RoleScopeKind): KnownSubject | null {
  return (scope === undefined ? everywhere : byScope[scope]).get(name) ?? null;
}

export interface Pair {
  readonly subject: string;
  readonly action: string;
}

/** What is really asked when someone names this subject and action; null if the catalogue has no such pair. */
export function resolvePairs(subject: string, action: string): readonly Pair[] | null {
  const known = findSubject(subject);
  const actions = known?.actions.get(action);
  if (!known || !actions) return null;
  return actions.map((name) => ({ subject: known.name, action: name }));
}

/** Every pair that can be asked, aliases left out. */
export const ALL_PAIRS: readonly Pair[] = [...new Set(everywhere.values())].flatMap((subject) =>
  [...subject.actions]
    .filter(([action, meaning]) => meaning.length === 1 && meaning[0] === action)
    .map(([action]) => ({ subject: subject.name, action })),
);

// The roles that exist everywhere and cannot be edited. They are found by their exact slug: `Admin`,
// ` admin` or `admin` with an invisible character inside is nobody's role.

import { EVERY_ACTION, EVERY_SUBJECT, type RoleScopeKind } from "./catalogue.ts";
import type { Rule } from "./rules.ts";

const NO_ACCESS = "no-access";

const EVERYTHING: readonly Rule[] = [{ subject: EVERY_SUBJECT, action: EVERY_ACTION }];
const CRUD = ["read", "create", "edit", "delete"] as const;

/** Looking only. Secret values are part of looking; private keys are not, they are the power to sign. */
const projectViewer: readonly Rule[] = [
  { subject: "secrets", action: ["describeSecret", "readValue"] },
  {
    subject: [
      "secret-folders",
      "secret-imports",
      "secret-rollback",
      "environments",
      "tags",
      "role",
      "member",
      "groups",
      "identity",
      "settings",
      "audit-logs",
      "certificate-authorities",
      "certificates",
      "certificate-policies",
      "certificate-profiles",
      "certificate-templates",
      "pki-applications",
      "pki-subscribers",
      "pki-alerts",
      "pki-collections",
      "cmek",
    ],
    action: "read",
  },
  { subject: "pki-subscribers", action: "list-certs" },
  // The actions name the events one may receive; a viewer may read those secrets anyway.
  { subject: "secret-events", action: ["read", "create", "update", "delete"] },
];

/** Daily work with secrets and certificates; who may do what, and the project itself, stay with admins. */
const projectMember: readonly Rule[] = [
  ...projectViewer,
  { subject: "secrets", action: ["create", "edit", "delete"] },
  {
    subject: ["secret-folders", "secret-imports", "tags", "pki-alerts", "webhooks", "integrations"],
    action: CRUD,
  },
  { subject: "secret-rollback", action: "create" },
  {
    subject: "dynamic-secrets",
    action: [
      "read-root-credential",
      "create-root-credential",
      "edit-root-credential",
      "delete-root-credential",
      "lease",
    ],
  },
  { subject: "certificates", action: ["create", "edit", "read-private-key", "import"] },
  { subject: "certificate-profiles", action: "issue-cert" },
  { subject: ["certificate-templates", "pki-subscribers"], action: ["issue-cert", "list-certs"] },
  {
    subject: "cmek",
    action: [
      "create",
      "edit",
      "delete",
      "encrypt",
      "decrypt",
      "sign",
      "verify",
      "generate-mac",
      "verify-mac",
    ],
  },
  { subject: ["service-tokens", "ip-allowlist"], action: "read" },
];

const organizationMember: readonly Rule[] = [
  { subject: "project", action: "create" },
  {
    subject: [
      "role",
      "member",
      "groups",
      "identity",
      "settings",
      "project-templates",
      "licence",
      "incident-contact",
    ],
    action: "read",
  },
];

const builtin: Readonly<Record<RoleScopeKind, ReadonlyMap<string, readonly Rule[]>>> = {
  project: new Map<string, readonly Rule[]>([
    ["admin", EVERYTHING],
    ["member", projectMember],
    ["viewer", projectViewer],
    [NO_ACCESS, []],
  ]),
  organization: new Map<string, readonly Rule[]>([
    ["admin", EVERYTHING],
    ["member", organizationMember],
    [NO_ACCESS, []],
  ]),
};

/** The rules of a built-in role, or null if the slug is not exactly one of them. */
export function builtinRules(scope: RoleScopeKind, slug: string): readonly Rule[] | null {
  return builtin[scope].get(slug) ?? null;
}

export function builtinSlugs(scope: RoleScopeKind): readonly string[] {
  return [...builtin[scope].keys()];
}

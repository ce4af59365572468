-- The ground floor: keys, outbox, jobs, limits, audit; people, organisations, projects, roles, identities, tokens.

-- Proof of the right root key; one row.
CREATE TABLE root_key (
  only_one boolean PRIMARY KEY DEFAULT true CHECK (only_one),
  check_value bytea NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now()
);

-- What was announced. Swept after two minutes: every node has read it long before. xid comes before seq on purpose:
-- defaults are computed in column order, and a transaction must have its id before it draws a number (see tail.ts).
CREATE TABLE outbox (
  xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
  seq bigint GENERATED ALWAYS AS IDENTITY (CACHE 1) PRIMARY KEY,
  at timestamptz NOT NULL DEFAULT clock_timestamp(),
  name text NOT NULL,
  data jsonb NOT NULL
);

-- The highest number that was ever swept: a node that has not read that far knows that it missed something.
CREATE TABLE outbox_swept (
  only_one boolean PRIMARY KEY DEFAULT true CHECK (only_one),
  seq bigint NOT NULL
);
INSERT INTO outbox_swept (seq) VALUES (0);

CREATE TABLE jobs (
  name text PRIMARY KEY,
  next_at timestamptz NOT NULL,
  leased_until timestamptz,
  leased_by uuid,
  last_finished_at timestamptz,
  last_error text
);

-- A minute's counters; losing them in a crash of the database only forgives some requests.
CREATE UNLOGGED TABLE rate_limits (
  key text NOT NULL,
  window_start timestamptz NOT NULL,
  count bigint NOT NULL,
  PRIMARY KEY (key, window_start)
);

-- Partitioned by month, so that retention is a dropped partition. The default one catches what no month claims.
CREATE TABLE audit_log (
  id uuid NOT NULL,
  at timestamptz NOT NULL,
  org_id uuid,
  project_id uuid,
  event text NOT NULL,
  actor_type text NOT NULL,
  actor_id uuid,
  actor_name text NOT NULL,
  ip text,
  user_agent text,
  request_id text,
  metadata jsonb NOT NULL
) PARTITION BY RANGE (at);
CREATE TABLE audit_log_default PARTITION OF audit_log DEFAULT;
CREATE INDEX audit_log_by_org ON audit_log (org_id, at DESC, id DESC);
CREATE INDEX audit_log_by_project ON audit_log (project_id, at DESC, id DESC) WHERE project_id IS NOT NULL;

CREATE TABLE users (
  id uuid PRIMARY KEY,
  -- Trimmed, NFKC, lower case: one account however the address is typed.
  email text NOT NULL CONSTRAINT users_email_unique UNIQUE,
  first_name text NOT NULL DEFAULT '',
  last_name text NOT NULL DEFAULT '',
  password_hash text,
  is_instance_admin boolean NOT NULL DEFAULT false,
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL
);

CREATE TABLE organizations (
  id uuid PRIMARY KEY,
  name text NOT NULL,
  slug text NOT NULL CONSTRAINT organizations_slug_unique UNIQUE,
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL
);

-- Of all bootstrap calls exactly one can insert this row.
CREATE TABLE bootstrap (
  only_one boolean CONSTRAINT bootstrap_once PRIMARY KEY DEFAULT true CHECK (only_one),
  org_id uuid NOT NULL,
  at timestamptz NOT NULL
);

CREATE TABLE projects (
  id uuid PRIMARY KEY,
  org_id uuid NOT NULL REFERENCES organizations ON DELETE CASCADE,
  name text NOT NULL,
  slug text NOT NULL,
  description text,
  type text NOT NULL CHECK (type IN ('secret-manager', 'cert-manager')),
  has_delete_protection boolean NOT NULL DEFAULT false,
  audit_retention_days integer,
  version_limit integer NOT NULL DEFAULT 10,
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL,
  CONSTRAINT projects_slug_unique UNIQUE (org_id, slug)
);

CREATE TABLE data_keys (
  id uuid PRIMARY KEY,
  parent_id uuid REFERENCES data_keys,
  org_id uuid REFERENCES organizations ON DELETE CASCADE,
  project_id uuid REFERENCES projects ON DELETE CASCADE,
  purpose text NOT NULL,
  wrapped bytea NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now(),
  retired_at timestamptz
);
CREATE INDEX data_keys_by_parent ON data_keys (parent_id) WHERE parent_id IS NOT NULL;
CREATE INDEX data_keys_by_org ON data_keys (org_id) WHERE org_id IS NOT NULL;
CREATE INDEX data_keys_by_project ON data_keys (project_id) WHERE project_id IS NOT NULL;
CREATE UNIQUE INDEX data_keys_instance ON data_keys (purpose) WHERE org_id IS NULL;
CREATE UNIQUE INDEX data_keys_active_org ON data_keys (org_id) WHERE project_id IS NULL AND org_id IS NOT NULL AND retired_at IS NULL;
CREATE UNIQUE INDEX data_keys_active_project ON data_keys (project_id) WHERE project_id IS NOT NULL AND retired_at IS NULL;

CREATE TABLE environments (
  id uuid PRIMARY KEY,
  project_id uuid NOT NULL REFERENCES projects ON DELETE CASCADE,
  name text NOT NULL,
  slug text NOT NULL,
  position integer NOT NULL,
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL,
  CONSTRAINT environments_slug_unique UNIQUE (project_id, slug)
);

-- Custom roles of an organisation (project_id null) or of a project. The built-in ones are code.
CREATE TABLE roles (
  id uuid PRIMARY KEY,
  org_id uuid NOT NULL REFERENCES organizations ON DELETE CASCADE,
  project_id uuid REFERENCES projects ON DELETE CASCADE,
  slug text NOT NULL,
  name text NOT NULL,
  description text,
  rules jsonb NOT NULL,
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL
);
CREATE UNIQUE INDEX roles_org_slug_unique ON roles (org_id, slug) WHERE project_id IS NULL;
CREATE UNIQUE INDEX roles_project_slug_unique ON roles (project_id, slug) WHERE project_id IS NOT NULL;

CREATE TABLE identities (
  id uuid PRIMARY KEY,
  org_id uuid NOT NULL REFERENCES organizations ON DELETE CASCADE,
  -- The project it was created in and goes with; null for one of the organisation.
  project_id uuid REFERENCES projects ON DELETE CASCADE,
  name text NOT NULL,
  has_delete_protection boolean NOT NULL DEFAULT false,
  is_instance_admin boolean NOT NULL DEFAULT false,
  auth_methods text[] NOT NULL DEFAULT '{}',
  -- [{id, key, value}], in the order given.
  metadata jsonb NOT NULL DEFAULT '[]',
  last_login_method text,
  last_login_at timestamptz,
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL
);
CREATE INDEX identities_by_org ON identities (org_id);
CREATE INDEX identities_of_org ON identities (org_id, created_at, id) WHERE project_id IS NULL;
CREATE INDEX identities_by_project ON identities (project_id, created_at, id) WHERE project_id IS NOT NULL;

-- A user's or identity's place in an organisation (project_id null) or in a project.
CREATE TABLE memberships (
  id uuid PRIMARY KEY,
  org_id uuid NOT NULL REFERENCES organizations ON DELETE CASCADE,
  project_id uuid REFERENCES projects ON DELETE CASCADE,
  user_id uuid REFERENCES users ON DELETE CASCADE,
  identity_id uuid REFERENCES identities ON DELETE CASCADE,
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL,
  CHECK ((user_id IS NULL) <> (identity_id IS NULL))
);
CREATE UNIQUE INDEX memberships_org_user ON memberships (org_id, user_id) WHERE project_id IS NULL AND user_id IS NOT NULL;
CREATE UNIQUE INDEX memberships_org_identity ON memberships (org_id, identity_id) WHERE project_id IS NULL AND identity_id IS NOT NULL;
CREATE UNIQUE INDEX memberships_project_user ON memberships (project_id, user_id) WHERE project_id IS NOT NULL AND user_id IS NOT NULL;
CREATE UNIQUE INDEX memberships_project_identity ON memberships (project_id, identity_id) WHERE project_id IS NOT NULL AND identity_id IS NOT NULL;
-- For the cascade of a deleted project, which knows nothing of the other indexes' conditions.
CREATE INDEX memberships_by_project ON memberships (project_id) WHERE project_id IS NOT NULL;
CREATE INDEX memberships_by_user ON memberships (user_id) WHERE user_id IS NOT NULL;
CREATE INDEX memberships_by_identity ON memberships (identity_id) WHERE identity_id IS NOT NULL;

CREATE TABLE membership_roles (
  id uuid PRIMARY KEY,
  membership_id uuid NOT NULL REFERENCES memberships ON DELETE CASCADE,
  -- A built-in slug, or 'custom' with role_id.
  role text NOT NULL,
  role_id uuid REFERENCES roles ON DELETE CASCADE,
  is_temporary boolean NOT NULL DEFAULT false,
  temporary_range text,
  starts_at timestamptz,
  ends_at timestamptz,
  CHECK ((role = 'custom') = (role_id IS NOT NULL)),
  CHECK (NOT is_temporary OR (starts_at IS NOT NULL AND ends_at IS NOT NULL))
);
CREATE INDEX membership_roles_by_membership ON membership_roles (membership_id);
CREATE INDEX membership_roles_by_role ON membership_roles (role_id) WHERE role_id IS NOT NULL;

CREATE TABLE universal_auths (
  id uuid PRIMARY KEY,
  identity_id uuid NOT NULL CONSTRAINT universal_auths_identity_unique UNIQUE REFERENCES identities ON DELETE CASCADE,
  client_id uuid NOT NULL UNIQUE,
  access_token_ttl bigint NOT NULL,
  access_token_max_ttl bigint NOT NULL,
  access_token_period bigint NOT NULL,
  access_token_uses_limit bigint NOT NULL,
  access_token_trusted_ips text[] NOT NULL,
  client_secret_trusted_ips text[] NOT NULL,
  lockout_enabled boolean NOT NULL,
  lockout_threshold integer NOT NULL,
  lockout_seconds integer NOT NULL,
  lockout_reset_seconds integer NOT NULL,
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL
);

CREATE TABLE client_secrets (
  id uuid PRIMARY KEY,
  universal_auth_id uuid NOT NULL REFERENCES universal_auths ON DELETE CASCADE,
  -- HMAC-SHA-256 under an instance key: 256 random bits need no slow hash.
  digest bytea NOT NULL UNIQUE,
  prefix text NOT NULL,
  description text NOT NULL,
  uses bigint NOT NULL DEFAULT 0,
  uses_limit bigint NOT NULL,
  ttl bigint NOT NULL,
  expires_at timestamptz,
  is_revoked boolean NOT NULL DEFAULT false,
  last_used_at timestamptz,
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL
);
CREATE INDEX client_secrets_by_auth ON client_secrets (universal_auth_id, created_at);

CREATE TABLE token_auths (
  id uuid PRIMARY KEY,
  identity_id uuid NOT NULL CONSTRAINT token_auths_identity_unique UNIQUE REFERENCES identities ON DELETE CASCADE,
  access_token_ttl bigint NOT NULL,
  access_token_max_ttl bigint NOT NULL,
  access_token_period bigint NOT NULL,
  access_token_uses_limit bigint NOT NULL,
  access_token_trusted_ips text[] NOT NULL,
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL
);

CREATE TABLE access_tokens (
  id uuid PRIMARY KEY,
  identity_id uuid NOT NULL REFERENCES identities ON DELETE CASCADE,
  auth_method text NOT NULL,
  name text,
  client_secret_id uuid REFERENCES client_secrets ON DELETE CASCADE,
  ttl bigint NOT NULL,
  max_ttl bigint NOT NULL,
  period bigint NOT NULL,
  uses bigint NOT NULL DEFAULT 0,
  uses_limit bigint NOT NULL,
  is_revoked boolean NOT NULL DEFAULT false,
  expires_at timestamptz NOT NULL,
  last_used_at timestamptz,
  last_renewed_at timestamptz,
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL
);
CREATE INDEX access_tokens_by_identity ON access_tokens (identity_id, created_at DESC, id DESC);
CREATE INDEX access_tokens_by_client_secret ON access_tokens (client_secret_id) WHERE client_secret_id IS NOT NULL;
CREATE INDEX access_tokens_by_expiry ON access_tokens (expires_at);

-- Failed logins of one account from one address.
CREATE TABLE lockouts (
  subject_id uuid NOT NULL,
  method text NOT NULL,
  address text NOT NULL,
  failures integer NOT NULL,
  last_failed_at timestamptz NOT NULL,
  locked_until timestamptz,
  PRIMARY KEY (subject_id, method, address)
);

CREATE TABLE user_sessions (
  id uuid PRIMARY KEY,
  user_id uuid NOT NULL REFERENCES users ON DELETE CASCADE,
  org_id uuid REFERENCES organizations ON DELETE CASCADE,
  -- The login it goes back to: selecting an organisation makes a branch that ends with its root, at the same time.
  root_id uuid NOT NULL,
  is_revoked boolean NOT NULL DEFAULT false,
  expires_at timestamptz NOT NULL,
  created_at timestamptz NOT NULL
);
CREATE INDEX user_sessions_by_root ON user_sessions (root_id);
CREATE INDEX user_sessions_by_org ON user_sessions (org_id) WHERE org_id IS NOT NULL;
CREATE INDEX user_sessions_by_user ON user_sessions (user_id);
CREATE INDEX user_sessions_by_expiry ON user_sessions (expires_at);

-- Signed documents; org_id null = for the whole instance.
CREATE TABLE licences (
  id uuid PRIMARY KEY,
  org_id uuid REFERENCES organizations ON DELETE CASCADE,
  document text NOT NULL,
  installed_at timestamptz NOT NULL,
  revoked_at timestamptz
);
CREATE INDEX licences_by_org ON licences (org_id);

-- Whose signature on a licence this instance believes.
CREATE TABLE licence_issuers (
  id uuid PRIMARY KEY,
  public_key bytea NOT NULL UNIQUE,
  created_at timestamptz NOT NULL
);

-- Certificates: authorities and their keys, policies, profiles, applications, the requests that pass the gate, the
-- inventory, revocation. See docs/decisions for why the inventory keeps a phase and counted blocks.

CREATE EXTENSION IF NOT EXISTS pg_trgm;
CREATE EXTENSION IF NOT EXISTS btree_gin;

-- Projects that hold certificates. No foreign key on purpose: a project may be deleted at once while its
-- certificates, possibly millions, are cleared out in the background; this row says that there is something to clear.
CREATE TABLE certificate_projects (
  project_id uuid PRIMARY KEY
);

CREATE TABLE certificate_authorities (
  id uuid PRIMARY KEY,
  project_id uuid NOT NULL REFERENCES projects ON DELETE CASCADE,
  name text NOT NULL,
  kind text NOT NULL CHECK (kind IN ('root', 'intermediate')),
  status text NOT NULL CHECK (status IN ('active', 'disabled', 'pending-certificate')),
  key_algorithm text NOT NULL,
  -- The wished subject: commonName, organization, ou, country, province, locality, friendlyName.
  subject jsonb NOT NULL,
  parent_id uuid REFERENCES certificate_authorities ON DELETE SET NULL,
  max_path_length integer,
  name_constraints jsonb,
  crl_urls text[] NOT NULL DEFAULT '{}',
  has_managed_crl boolean NOT NULL DEFAULT true,
  crl_shards integer NOT NULL DEFAULT 1 CHECK (crl_shards BETWEEN 1 AND 128),
  active_key_id uuid NOT NULL,
  active_certificate_id uuid,
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL,
  -- A deleted authority issues nothing, but goes on saying which of its certificates are revoked.
  deleted_at timestamptz
);
CREATE UNIQUE INDEX certificate_authorities_name_unique ON certificate_authorities (project_id, name) WHERE deleted_at IS NULL;

CREATE TABLE authority_keys (
  id uuid PRIMARY KEY,
  authority_id uuid NOT NULL REFERENCES certificate_authorities ON DELETE CASCADE,
  key_algorithm text NOT NULL,
  public_key bytea NOT NULL,
  data_key_id uuid NOT NULL,
  sealed_key bytea NOT NULL,
  crl_shards integer NOT NULL,
  created_at timestamptz NOT NULL
);
CREATE INDEX authority_keys_by_authority ON authority_keys (authority_id);

CREATE TABLE authority_certificates (
  id uuid PRIMARY KEY,
  authority_id uuid NOT NULL REFERENCES certificate_authorities ON DELETE CASCADE,
  key_id uuid NOT NULL REFERENCES authority_keys ON DELETE CASCADE,
  version integer NOT NULL,
  serial_number text NOT NULL,
  not_before timestamptz NOT NULL,
  not_after timestamptz NOT NULL,
  der bytea NOT NULL,
  -- Its issuers, nearest first, root last; empty for a root.
  chain bytea[] NOT NULL,
  created_at timestamptz NOT NULL,
  UNIQUE (authority_id, version)
);

CREATE TABLE certificate_policies (
  id uuid PRIMARY KEY,
  project_id uuid NOT NULL REFERENCES projects ON DELETE CASCADE,
  name text NOT NULL,
  description text,
  -- As sent: subject, sans, keyUsages, extendedKeyUsages, algorithms, validity, basicConstraints.
  rules jsonb NOT NULL,
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL,
  CONSTRAINT certificate_policies_name_unique UNIQUE (project_id, name)
);

CREATE TABLE certificate_profiles (
  id uuid PRIMARY KEY,
  project_id uuid NOT NULL REFERENCES projects ON DELETE CASCADE,
  authority_id uuid REFERENCES certificate_authorities,
  policy_id uuid NOT NULL CONSTRAINT certificate_profiles_policy REFERENCES certificate_policies,
  slug text NOT NULL,
  description text,
  issuer_type text NOT NULL CHECK (issuer_type IN ('ca', 'self-signed')),
  enrollment_type text NOT NULL,
  defaults jsonb,
  external_configs jsonb,
  auto_renew boolean NOT NULL DEFAULT false,
  renew_before_days integer,
  renew_before_percent integer,
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL,
  CONSTRAINT certificate_profiles_slug_unique UNIQUE (project_id, slug)
);
CREATE INDEX certificate_profiles_by_policy ON certificate_profiles (policy_id);
CREATE INDEX certificate_profiles_by_authority ON certificate_profiles (authority_id);

CREATE TABLE pki_applications (
  id uuid PRIMARY KEY,
  project_id uuid NOT NULL REFERENCES projects ON DELETE CASCADE,
  name text NOT NULL,
  description text,
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL,
  CONSTRAINT pki_applications_name_unique UNIQUE (project_id, name)
);

CREATE TABLE pki_application_profiles (
  application_id uuid NOT NULL REFERENCES pki_applications ON DELETE CASCADE,
  profile_id uuid NOT NULL REFERENCES certificate_profiles ON DELETE CASCADE,
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL,
  PRIMARY KEY (application_id, profile_id)
);
CREATE INDEX pki_application_profiles_by_profile ON pki_application_profiles (profile_id);

-- What passed the gate. The row, with the very bytes that will be signed, is committed before the signer is asked:
-- whatever dies afterwards, there is no certificate in the world that this table does not know.
CREATE TABLE certificate_requests (
  id uuid PRIMARY KEY,
  project_id uuid NOT NULL,
  profile_id uuid,
  application_id uuid,
  authority_id uuid,
  authority_certificate_id uuid,
  certificate_id uuid NOT NULL,
  serial_number text NOT NULL,
  status text NOT NULL CHECK (status IN ('pending', 'issued', 'failed')),
  error text,
  -- Until it is issued: what to sign, and what the certificate's row will say besides.
  tbs bytea,
  context jsonb,
  data_key_id uuid,
  sealed_key bytea,
  -- One caller's Idempotency-Key in one project, and a digest of what was asked under it.
  idempotency_key text,
  request_digest bytea,
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL
);
CREATE UNIQUE INDEX certificate_requests_serial_unique ON certificate_requests (authority_id, serial_number) WHERE authority_id IS NOT NULL;
CREATE UNIQUE INDEX certificate_requests_idempotent ON certificate_requests (project_id, idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE INDEX certificate_requests_pending ON certificate_requests (created_at) WHERE status = 'pending';
CREATE INDEX certificate_requests_by_age ON certificate_requests (created_at);

-- The inventory. No foreign keys: each would lock a parent row that every insert shares.
--
-- phase: 0 live, 1 expired, 2 revoked. Status is derived from revoked_at and not_after wherever it is shown; the
-- phase only lets an index find it. Live rows whose time has passed are moved to 1 by a job within a minute, and
-- every query treats them as expired from the very instant.
CREATE TABLE certificates (
  id uuid NOT NULL,
  project_id uuid NOT NULL,
  profile_id uuid,
  application_id uuid,
  authority_id uuid,
  authority_key_id uuid,
  authority_certificate_id uuid,
  renewed_from_id uuid,
  renewed_by_id uuid,
  not_before timestamptz NOT NULL,
  not_after timestamptz NOT NULL,
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL,
  revoked_at timestamptz,
  -- When the server renews it by itself; null for never.
  renew_at timestamptz,
  renewal_attempts integer NOT NULL DEFAULT 0,
  phase smallint NOT NULL DEFAULT 0 CHECK (phase BETWEEN 0 AND 2),
  revocation_reason smallint,
  crl_shard smallint,
  is_ca boolean NOT NULL DEFAULT false,
  source text NOT NULL CHECK (source IN ('issued', 'imported')),
  serial_number text NOT NULL,
  common_name text NOT NULL,
  key_algorithm text,
  signature_algorithm text,
  renewal_error text,
  -- common name, every alternative name and the serial number, small letters, one per line
  search_text text NOT NULL,
  -- [{type, value}]
  alt_names jsonb NOT NULL,
  -- SHA-256 of the public key: all certificates of a compromised key are found by it.
  key_fingerprint bytea NOT NULL,
  -- Its entry in a revocation list, encoded once.
  crl_entry bytea,
  CONSTRAINT certificates_pkey PRIMARY KEY (id),
  CHECK ((phase = 2) = (revoked_at IS NOT NULL))
);
ALTER TABLE certificates SET (autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);

CREATE INDEX certificates_by_profile ON certificates (profile_id, created_at DESC, id DESC);
CREATE INDEX certificates_by_phase ON certificates (profile_id, phase, created_at DESC, id DESC);
CREATE INDEX certificates_by_project ON certificates (project_id, created_at DESC, id DESC);
CREATE UNIQUE INDEX certificates_serial_unique ON certificates (authority_id, serial_number) WHERE authority_id IS NOT NULL;
-- Covering, so that "expired since the last sweep" never touches the table.
CREATE INDEX certificates_by_end ON certificates (not_after) INCLUDE (profile_id, created_at, id) WHERE phase = 0;
CREATE INDEX certificates_by_renewal ON certificates (renew_at) WHERE renew_at IS NOT NULL;
CREATE INDEX certificates_revoked ON certificates (authority_key_id, crl_shard) WHERE phase = 2;
CREATE INDEX certificates_by_key ON certificates (key_fingerprint);
-- One index answers both searches: in a profile and in a project.
CREATE INDEX certificates_search ON certificates USING gin (project_id, profile_id, search_text gin_trgm_ops);

-- What only a look at one certificate needs, beside the inventory, so that lists and searches read a third of the pages.
CREATE TABLE certificate_bodies (
  certificate_id uuid PRIMARY KEY,
  der bytea NOT NULL,
  -- Issuers of an imported certificate, nearest first; an issued one finds them through its authority.
  chain bytea[],
  -- subject, keyUsages, extendedKeyUsages, basicConstraints, friendlyName, metadata
  details jsonb NOT NULL,
  data_key_id uuid,
  sealed_key bytea
);

-- Counted blocks of a profile's list, oldest first; each names its newest member. A deep page adds up counts
-- instead of walking rows.
CREATE TABLE certificate_blocks (
  profile_id uuid NOT NULL,
  until_at timestamptz NOT NULL,
  until_id uuid NOT NULL,
  count integer NOT NULL,
  PRIMARY KEY (profile_id, until_at, until_id)
);

CREATE TABLE crls (
  authority_key_id uuid NOT NULL REFERENCES authority_keys ON DELETE CASCADE,
  shard smallint NOT NULL,
  number bigint NOT NULL,
  this_update timestamptz NOT NULL,
  next_update timestamptz NOT NULL,
  der bytea NOT NULL,
  PRIMARY KEY (authority_key_id, shard)
);
ALTER TABLE crls ALTER COLUMN der SET STORAGE EXTERNAL;

-- Lists that a revocation made out of date.
CREATE TABLE crl_changes (
  authority_key_id uuid NOT NULL,
  shard smallint NOT NULL,
  at timestamptz NOT NULL,
  PRIMARY KEY (authority_key_id, shard)
);

CREATE TABLE ocsp_signers (
  authority_key_id uuid PRIMARY KEY REFERENCES authority_keys ON DELETE CASCADE,
  der bytea NOT NULL,
  data_key_id uuid NOT NULL,
  sealed_key bytea NOT NULL,
  not_after timestamptz NOT NULL
);

-- Keys that were revoked as compromised: no certificate is ever issued for them again.
CREATE TABLE blocked_keys (
  key_fingerprint bytea PRIMARY KEY,
  created_at timestamptz NOT NULL
);

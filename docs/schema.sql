-- The schema after all files of server/migrations. Written by npm run generate from PostgreSQL's catalogue:
-- for reading, not for building a database. Rooms own tables (scripts/tables.mjs); what a trigger does
-- stands below the table that it watches.

CREATE EXTENSION btree_gin;
CREATE EXTENSION pg_trgm;

CREATE FUNCTION hold_identity_count(place uuid)
 RETURNS void
 LANGUAGE sql
AS $function$ SELECT pg_advisory_xact_lock(1768187246, hashtext(place::text)) $function$;

CREATE FUNCTION project_lock_key(project uuid)
 RETURNS bigint
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
RETURN hashtextextended((project)::text, (3)::bigint);

-- room: platform
-- migrations: 0001_foundation
CREATE TABLE data_keys (
  id uuid NOT NULL,
  parent_id uuid,
  org_id uuid,
  project_id uuid,
  purpose text NOT NULL,
  wrapped bytea NOT NULL,
  created_at timestamp with time zone NOT NULL DEFAULT now(),
  retired_at timestamp with time zone,
  CONSTRAINT data_keys_pkey PRIMARY KEY (id),
  CONSTRAINT data_keys_org_id_fkey FOREIGN KEY (org_id) REFERENCES organizations(id) ON DELETE CASCADE,
  CONSTRAINT data_keys_parent_id_fkey FOREIGN KEY (parent_id) REFERENCES data_keys(id),
  CONSTRAINT data_keys_project_id_fkey FOREIGN KEY (project_id) REFERENCES projects(id) ON DELETE CASCADE
);
CREATE UNIQUE INDEX data_keys_active_org ON data_keys USING btree (org_id) WHERE ((project_id IS NULL) AND (org_id IS NOT NULL) AND (retired_at IS NULL));
CREATE UNIQUE INDEX data_keys_active_project ON data_keys USING btree (project_id) WHERE ((project_id IS NOT NULL) AND (retired_at IS NULL));
CREATE INDEX data_keys_by_org ON data_keys USING btree (org_id) WHERE (org_id IS NOT NULL);
CREATE INDEX data_keys_by_parent ON data_keys USING btree (parent_id) WHERE (parent_id IS NOT NULL);
CREATE INDEX data_keys_by_project ON data_keys USING btree (project_id) WHERE (project_id IS NOT NULL);
CREATE UNIQUE INDEX data_keys_instance ON data_keys USING btree (purpose) WHERE (org_id IS NULL);

-- room: platform
-- migrations: 0001_foundation
CREATE TABLE jobs (
  name text NOT NULL,
  next_at timestamp with time zone NOT NULL,
  leased_until timestamp with time zone,
  leased_by uuid,
  last_finished_at timestamp with time zone,
  last_error text,
  CONSTRAINT jobs_pkey PRIMARY KEY (name)
);

-- room: platform
CREATE TABLE migrations (
  id text NOT NULL,
  digest text NOT NULL,
  applied_at timestamp with time zone NOT NULL DEFAULT now(),
  CONSTRAINT migrations_pkey PRIMARY KEY (id)
);

-- room: platform
-- migrations: 0001_foundation, 0005_alerts
CREATE TABLE outbox (
  xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
  seq bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
  at timestamp with time zone NOT NULL DEFAULT clock_timestamp(),
  name text NOT NULL,
  data jsonb NOT NULL,
  CONSTRAINT outbox_pkey PRIMARY KEY (seq)
);

CREATE TRIGGER outbox_keep_certificate_facts AFTER INSERT ON outbox FOR EACH ROW
  WHEN (new.name = ANY (ARRAY['certificate.issued'::text, 'certificate.renewed'::text, 'certificate.revoked'::text, 'certificate.renewal-failed'::text, 'certificate.imported'::text, 'certificate.released'::text]))
  EXECUTE FUNCTION keep_certificate_fact();
CREATE FUNCTION keep_certificate_fact()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
DECLARE
  project uuid := NEW.data ->> 'projectId';
BEGIN
  IF EXISTS (SELECT 1 FROM alerts WHERE project_id = project) THEN
    INSERT INTO alert_inbox (name, project_id, certificate_id, data) VALUES (NEW.name, project, (NEW.data ->> 'certificateId')::uuid, NEW.data);
  END IF;
  RETURN NULL;
END $function$;

-- room: platform
-- migrations: 0001_foundation, 0018_outbox_story
CREATE TABLE outbox_swept (
  only_one boolean NOT NULL DEFAULT true,
  seq bigint NOT NULL,
  count bigint NOT NULL DEFAULT 0,
  sum bigint NOT NULL DEFAULT 0,
  CONSTRAINT outbox_swept_pkey PRIMARY KEY (only_one),
  CONSTRAINT outbox_swept_only_one_check CHECK (only_one)
);

-- room: platform
-- migrations: 0001_foundation
CREATE UNLOGGED TABLE rate_limits (
  key text NOT NULL,
  window_start timestamp with time zone NOT NULL,
  count bigint NOT NULL,
  CONSTRAINT rate_limits_pkey PRIMARY KEY (key, window_start)
);

-- room: platform
-- migrations: 0001_foundation
CREATE TABLE root_key (
  only_one boolean NOT NULL DEFAULT true,
  check_value bytea NOT NULL,
  created_at timestamp with time zone NOT NULL DEFAULT now(),
  CONSTRAINT root_key_pkey PRIMARY KEY (only_one),
  CONSTRAINT root_key_only_one_check CHECK (only_one)
);

-- room: alerts
-- migrations: 0005_alerts
CREATE TABLE alert_calendars (
  id uuid NOT NULL,
  project_id uuid NOT NULL,
  created_at timestamp with time zone NOT NULL,
  last_used_at timestamp with time zone,
  CONSTRAINT alert_calendars_pkey PRIMARY KEY (id),
  CONSTRAINT alert_calendars_project_id_fkey FOREIGN KEY (project_id) REFERENCES projects(id) ON DELETE CASCADE
);
CREATE INDEX alert_calendars_by_project ON alert_calendars USING btree (project_id, created_at);

-- room: alerts
-- migrations: 0005_alerts
CREATE TABLE alert_channels (
  id uuid NOT NULL,
  alert_id uuid NOT NULL,
  "position" smallint NOT NULL,
  channel_type text NOT NULL,
  enabled boolean NOT NULL,
  destination text NOT NULL,
  data_key_id uuid NOT NULL,
  settings bytea NOT NULL,
  created_at timestamp with time zone NOT NULL,
  updated_at timestamp with time zone NOT NULL,
  CONSTRAINT alert_channels_pkey PRIMARY KEY (id),
  CONSTRAINT alert_channels_alert_id_fkey FOREIGN KEY (alert_id) REFERENCES alerts(id) ON DELETE CASCADE
);
CREATE INDEX alert_channels_by_alert ON alert_channels USING btree (alert_id, "position");

-- room: alerts
-- migrations: 0007_alert_counts
-- rows come, change or go by triggers:
--   alerts_counted_in on alerts
--   alerts_counted_out on alerts
--   alerts_recounted on alerts
--   alert_counts_forgotten on pki_applications
--   alert_counts_forgotten on projects
CREATE TABLE alert_counts (
  scope_id uuid NOT NULL,
  event_type text NOT NULL,
  enabled boolean NOT NULL,
  slot smallint NOT NULL,
  count bigint NOT NULL,
  changes bigint NOT NULL,
  CONSTRAINT alert_counts_pkey PRIMARY KEY (scope_id, event_type, enabled, slot)
) WITH (fillfactor = 50);

-- room: alerts
-- migrations: 0005_alerts
CREATE TABLE alert_cursor (
  only_one boolean NOT NULL DEFAULT true,
  evaluated_until timestamp with time zone NOT NULL,
  CONSTRAINT alert_cursor_pkey PRIMARY KEY (only_one),
  CONSTRAINT alert_cursor_only_one_check CHECK (only_one)
);

-- room: alerts
-- migrations: 0005_alerts, 0007_alert_counts, 0012_alert_recipients
CREATE TABLE alert_deliveries (
  id uuid NOT NULL,
  alert_id uuid NOT NULL,
  message_id uuid NOT NULL,
  channel_id uuid NOT NULL,
  channel_type text NOT NULL,
  destination text NOT NULL,
  status text NOT NULL,
  attempts integer NOT NULL DEFAULT 0,
  next_at timestamp with time zone NOT NULL,
  first_attempt_at timestamp with time zone,
  last_attempt_at timestamp with time zone,
  delivered_at timestamp with time zone,
  last_error text,
  created_at timestamp with time zone NOT NULL,
  updated_at timestamp with time zone NOT NULL,
  left_to smallint[],
  CONSTRAINT alert_deliveries_pkey PRIMARY KEY (id),
  CONSTRAINT alert_deliveries_status_check CHECK (status = ANY (ARRAY['pending'::text, 'delivered'::text, 'failed'::text])),
  CONSTRAINT alert_deliveries_alert_id_fkey FOREIGN KEY (alert_id) REFERENCES alerts(id) ON DELETE CASCADE,
  CONSTRAINT alert_deliveries_message_id_fkey FOREIGN KEY (message_id) REFERENCES alert_messages(id) ON DELETE CASCADE
);
CREATE INDEX alert_deliveries_by_alert ON alert_deliveries USING btree (alert_id, created_at DESC, id DESC);
CREATE INDEX alert_deliveries_by_channel ON alert_deliveries USING btree (channel_id) WHERE (status = 'pending'::text);
CREATE INDEX alert_deliveries_by_message ON alert_deliveries USING btree (message_id);
CREATE INDEX alert_deliveries_due ON alert_deliveries USING btree (destination, next_at) WHERE (status = 'pending'::text);
CREATE INDEX alert_deliveries_unfinished ON alert_deliveries USING btree (alert_id, status, created_at DESC, id DESC) WHERE (status <> 'delivered'::text);

CREATE TRIGGER alert_deliveries_counted_in AFTER INSERT ON alert_deliveries
  REFERENCING NEW TABLE AS changed FOR EACH STATEMENT
  EXECUTE FUNCTION count_deliveries();
CREATE FUNCTION count_deliveries()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
BEGIN
  -- Deliveries that go with their alert need no count any more.
  INSERT INTO alert_delivery_counts AS c (alert_id, status, slot, count)
  SELECT d.alert_id, d.status, pg_backend_pid() % 16, CASE TG_OP WHEN 'INSERT' THEN count(*) ELSE -count(*) END
  FROM changed d WHERE EXISTS (SELECT 1 FROM alerts a WHERE a.id = d.alert_id) GROUP BY 1, 2 ORDER BY 1, 2
  ON CONFLICT (alert_id, status, slot) DO UPDATE SET count = c.count + excluded.count;
  RETURN NULL;
END $function$;

CREATE TRIGGER alert_deliveries_counted_out AFTER DELETE ON alert_deliveries
  REFERENCING OLD TABLE AS changed FOR EACH STATEMENT
  EXECUTE FUNCTION count_deliveries();
-- count_deliveries() stands above

CREATE TRIGGER alert_deliveries_recounted AFTER UPDATE ON alert_deliveries
  REFERENCING OLD TABLE AS before NEW TABLE AS after FOR EACH STATEMENT
  EXECUTE FUNCTION recount_deliveries();
CREATE FUNCTION recount_deliveries()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
BEGIN
  INSERT INTO alert_delivery_counts AS c (alert_id, status, slot, count)
  SELECT d.alert_id, d.status, pg_backend_pid() % 16, sum(d.difference)
  FROM (SELECT alert_id, status, -1 AS difference FROM before UNION ALL SELECT alert_id, status, 1 FROM after) d
  GROUP BY 1, 2 HAVING sum(d.difference) <> 0 ORDER BY 1, 2
  ON CONFLICT (alert_id, status, slot) DO UPDATE SET count = c.count + excluded.count;
  RETURN NULL;
END $function$;

-- room: alerts
-- migrations: 0007_alert_counts
-- rows come, change or go by triggers:
--   alert_deliveries_counted_in on alert_deliveries
--   alert_deliveries_counted_out on alert_deliveries
--   alert_deliveries_recounted on alert_deliveries
CREATE TABLE alert_delivery_counts (
  alert_id uuid NOT NULL,
  status text NOT NULL,
  slot smallint NOT NULL,
  count bigint NOT NULL,
  CONSTRAINT alert_delivery_counts_pkey PRIMARY KEY (alert_id, status, slot),
  CONSTRAINT alert_delivery_counts_alert_id_fkey FOREIGN KEY (alert_id) REFERENCES alerts(id) ON DELETE CASCADE
) WITH (fillfactor = 50);

-- room: alerts
-- migrations: 0005_alerts, 0016_alert_turns
-- rows come, change or go by triggers:
--   outbox_keep_certificate_facts on outbox
CREATE TABLE alert_inbox (
  id bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
  name text NOT NULL,
  project_id uuid NOT NULL,
  certificate_id uuid NOT NULL,
  data jsonb NOT NULL,
  CONSTRAINT alert_inbox_pkey PRIMARY KEY (id)
);
CREATE INDEX alert_inbox_by_project ON alert_inbox USING btree (project_id, id);

-- room: alerts
-- migrations: 0005_alerts
CREATE TABLE alert_messages (
  id uuid NOT NULL,
  alert_id uuid NOT NULL,
  kind text NOT NULL,
  content jsonb NOT NULL,
  total integer NOT NULL,
  created_at timestamp with time zone NOT NULL,
  CONSTRAINT alert_messages_pkey PRIMARY KEY (id),
  CONSTRAINT alert_messages_alert_id_fkey FOREIGN KEY (alert_id) REFERENCES alerts(id) ON DELETE CASCADE
);
CREATE INDEX alert_messages_by_age ON alert_messages USING btree (created_at);
CREATE INDEX alert_messages_by_alert ON alert_messages USING btree (alert_id, created_at DESC, id DESC);

-- room: alerts
-- migrations: 0005_alerts
CREATE TABLE alert_occasions (
  certificate_id uuid NOT NULL,
  alert_id uuid NOT NULL,
  occasion text NOT NULL,
  not_after timestamp with time zone NOT NULL,
  detail text,
  message_id uuid,
  created_at timestamp with time zone NOT NULL,
  CONSTRAINT alert_occasions_pkey PRIMARY KEY (certificate_id, alert_id, occasion),
  CONSTRAINT alert_occasions_alert_id_fkey FOREIGN KEY (alert_id) REFERENCES alerts(id) ON DELETE CASCADE
);
CREATE INDEX alert_occasions_by_alert ON alert_occasions USING btree (alert_id);
CREATE INDEX alert_occasions_by_end ON alert_occasions USING btree (not_after);
CREATE INDEX alert_occasions_waiting ON alert_occasions USING btree (alert_id, not_after) WHERE (message_id IS NULL);

-- room: alerts
-- migrations: 0005_alerts, 0007_alert_counts, 0019_large_alerts
CREATE TABLE alerts (
  id uuid NOT NULL,
  org_id uuid NOT NULL,
  project_id uuid NOT NULL,
  application_id uuid,
  name text NOT NULL,
  description text NOT NULL,
  event_type text NOT NULL,
  alert_before text NOT NULL,
  filters jsonb NOT NULL,
  enabled boolean NOT NULL,
  is_daily boolean NOT NULL,
  digest text,
  looked_at timestamp with time zone,
  gathered_at timestamp with time zone NOT NULL,
  created_at timestamp with time zone NOT NULL,
  updated_at timestamp with time zone NOT NULL,
  CONSTRAINT alerts_pkey PRIMARY KEY (id),
  CONSTRAINT alerts_digest_check CHECK (digest = ANY (ARRAY['hourly'::text, 'daily'::text])),
  CONSTRAINT alerts_event_type_check CHECK (event_type = ANY (ARRAY['expiration'::text, 'renewal'::text, 'issuance'::text, 'revocation'::text, 'renewal-failed'::text])),
  CONSTRAINT alerts_application_id_fkey FOREIGN KEY (application_id) REFERENCES pki_applications(id) ON DELETE CASCADE,
  CONSTRAINT alerts_org_id_fkey FOREIGN KEY (org_id) REFERENCES organizations(id) ON DELETE CASCADE,
  CONSTRAINT alerts_project_id_fkey FOREIGN KEY (project_id) REFERENCES projects(id) ON DELETE CASCADE
);
CREATE INDEX alerts_by_application ON alerts USING btree (application_id, created_at DESC, id DESC) WHERE (application_id IS NOT NULL);
CREATE INDEX alerts_by_org ON alerts USING btree (org_id, project_id);
CREATE INDEX alerts_by_project ON alerts USING btree (project_id, created_at DESC, id DESC) INCLUDE (updated_at);
CREATE INDEX alerts_expiring ON alerts USING btree (id) WHERE ((event_type = 'expiration'::text) AND enabled);
CREATE INDEX alerts_large ON alerts USING btree (project_id) WHERE (octet_length((filters)::text) > 4096);

CREATE TRIGGER alerts_counted_in AFTER INSERT ON alerts
  REFERENCING NEW TABLE AS changed FOR EACH STATEMENT
  EXECUTE FUNCTION count_alerts();
CREATE FUNCTION count_alerts()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
BEGIN
  INSERT INTO alert_counts AS c (scope_id, event_type, enabled, slot, count, changes)
  SELECT s.id, a.event_type, a.enabled, pg_backend_pid() % 16, CASE TG_OP WHEN 'INSERT' THEN count(*) ELSE -count(*) END, count(*)
  FROM changed a CROSS JOIN LATERAL (VALUES (a.project_id), (a.application_id)) AS s(id)
  WHERE s.id IS NOT NULL AND (TG_OP = 'INSERT'
    OR EXISTS (SELECT 1 FROM projects p WHERE p.id = s.id) OR EXISTS (SELECT 1 FROM pki_applications p WHERE p.id = s.id))
  GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
  ON CONFLICT (scope_id, event_type, enabled, slot) DO UPDATE SET count = c.count + excluded.count, changes = c.changes + excluded.changes;
  RETURN NULL;
END $function$;

CREATE TRIGGER alerts_counted_out AFTER DELETE ON alerts
  REFERENCING OLD TABLE AS changed FOR EACH STATEMENT
  EXECUTE FUNCTION count_alerts();
-- count_alerts() stands above

CREATE TRIGGER alerts_recounted AFTER UPDATE OF updated_at ON alerts FOR EACH ROW
  EXECUTE FUNCTION recount_alert();
CREATE FUNCTION recount_alert()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
BEGIN
  INSERT INTO alert_counts AS c (scope_id, event_type, enabled, slot, count, changes)
  SELECT s.id, v.event_type, v.enabled, pg_backend_pid() % 16, sum(v.difference), 1
  FROM (VALUES (OLD.event_type, OLD.enabled, -1), (NEW.event_type, NEW.enabled, 1)) AS v(event_type, enabled, difference)
  CROSS JOIN (VALUES (NEW.project_id), (NEW.application_id)) AS s(id)
  WHERE s.id IS NOT NULL GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
  ON CONFLICT (scope_id, event_type, enabled, slot) DO UPDATE SET count = c.count + excluded.count, changes = c.changes + 1;
  RETURN NULL;
END $function$;

-- room: audit
-- migrations: 0001_foundation
CREATE TABLE audit_log (
  id uuid NOT NULL,
  at timestamp with time zone NOT NULL,
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
CREATE INDEX audit_log_by_org ON ONLY audit_log USING btree (org_id, at DESC, id DESC);
CREATE INDEX audit_log_by_project ON ONLY audit_log USING btree (project_id, at DESC, id DESC) WHERE (project_id IS NOT NULL);

-- room: audit
-- migrations: 0001_foundation
CREATE TABLE audit_log_default PARTITION OF audit_log DEFAULT;

-- room: auth
-- migrations: 0001_foundation
CREATE TABLE access_tokens (
  id uuid NOT NULL,
  identity_id uuid NOT NULL,
  auth_method text NOT NULL,
  name text,
  client_secret_id uuid,
  ttl bigint NOT NULL,
  max_ttl bigint NOT NULL,
  period bigint NOT NULL,
  uses bigint NOT NULL DEFAULT 0,
  uses_limit bigint NOT NULL,
  is_revoked boolean NOT NULL DEFAULT false,
  expires_at timestamp with time zone NOT NULL,
  last_used_at timestamp with time zone,
  last_renewed_at timestamp with time zone,
  created_at timestamp with time zone NOT NULL,
  updated_at timestamp with time zone NOT NULL,
  CONSTRAINT access_tokens_pkey PRIMARY KEY (id),
  CONSTRAINT access_tokens_client_secret_id_fkey FOREIGN KEY (client_secret_id) REFERENCES client_secrets(id) ON DELETE CASCADE,
  CONSTRAINT access_tokens_identity_id_fkey FOREIGN KEY (identity_id) REFERENCES identities(id) ON DELETE CASCADE
);
CREATE INDEX access_tokens_by_client_secret ON access_tokens USING btree (client_secret_id) WHERE (client_secret_id IS NOT NULL);
CREATE INDEX access_tokens_by_expiry ON access_tokens USING btree (expires_at);
CREATE INDEX access_tokens_by_identity ON access_tokens USING btree (identity_id, created_at DESC, id DESC);

-- room: auth
-- migrations: 0001_foundation
CREATE TABLE client_secrets (
  id uuid NOT NULL,
  universal_auth_id uuid NOT NULL,
  digest bytea NOT NULL,
  prefix text NOT NULL,
  description text NOT NULL,
  uses bigint NOT NULL DEFAULT 0,
  uses_limit bigint NOT NULL,
  ttl bigint NOT NULL,
  expires_at timestamp with time zone,
  is_revoked boolean NOT NULL DEFAULT false,
  last_used_at timestamp with time zone,
  created_at timestamp with time zone NOT NULL,
  updated_at timestamp with time zone NOT NULL,
  CONSTRAINT client_secrets_pkey PRIMARY KEY (id),
  CONSTRAINT client_secrets_digest_key UNIQUE (digest),
  CONSTRAINT client_secrets_universal_auth_id_fkey FOREIGN KEY (universal_auth_id) REFERENCES universal_auths(id) ON DELETE CASCADE
);
CREATE INDEX client_secrets_by_auth ON client_secrets USING btree (universal_auth_id, created_at);

-- room: auth
-- migrations: 0022_known_networks
CREATE TABLE known_networks (
  user_id uuid NOT NULL,
  network text NOT NULL,
  let_in_at timestamp with time zone NOT NULL,
  CONSTRAINT known_networks_pkey PRIMARY KEY (user_id, network),
  CONSTRAINT known_networks_user_id_fkey FOREIGN KEY (user_id) REFERENCES users(id) ON DELETE CASCADE
);

-- room: auth
-- migrations: 0001_foundation
CREATE TABLE lockouts (
  subject_id uuid NOT NULL,
  method text NOT NULL,
  address text NOT NULL,
  failures integer NOT NULL,
  last_failed_at timestamp with time zone NOT NULL,
  locked_until timestamp with time zone,
  CONSTRAINT lockouts_pkey PRIMARY KEY (subject_id, method, address)
);

-- room: auth
-- migrations: 0014_password_resets
CREATE TABLE password_resets (
  id uuid NOT NULL,
  user_id uuid NOT NULL,
  digest bytea NOT NULL,
  expires_at timestamp with time zone NOT NULL,
  created_at timestamp with time zone NOT NULL,
  CONSTRAINT password_resets_pkey PRIMARY KEY (id),
  CONSTRAINT password_resets_digest_key UNIQUE (digest),
  CONSTRAINT password_resets_user_id_fkey FOREIGN KEY (user_id) REFERENCES users(id) ON DELETE CASCADE
);
CREATE INDEX password_resets_by_expiry ON password_resets USING btree (expires_at);
CREATE INDEX password_resets_by_user ON password_resets USING btree (user_id);

-- room: auth
-- migrations: 0001_foundation
CREATE TABLE token_auths (
  id uuid NOT NULL,
  identity_id uuid NOT NULL,
  access_token_ttl bigint NOT NULL,
  access_token_max_ttl bigint NOT NULL,
  access_token_period bigint NOT NULL,
  access_token_uses_limit bigint NOT NULL,
  access_token_trusted_ips text[] NOT NULL,
  created_at timestamp with time zone NOT NULL,
  updated_at timestamp with time zone NOT NULL,
  CONSTRAINT token_auths_pkey PRIMARY KEY (id),
  CONSTRAINT token_auths_identity_unique UNIQUE (identity_id),
  CONSTRAINT token_auths_identity_id_fkey FOREIGN KEY (identity_id) REFERENCES identities(id) ON DELETE CASCADE
);

-- room: auth
-- migrations: 0001_foundation
CREATE TABLE universal_auths (
  id uuid NOT NULL,
  identity_id uuid NOT NULL,
  client_id uuid NOT NULL,
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
  created_at timestamp with time zone NOT NULL,
  updated_at timestamp with time zone NOT NULL,
  CONSTRAINT universal_auths_pkey PRIMARY KEY (id),
  CONSTRAINT universal_auths_client_id_key UNIQUE (client_id),
  CONSTRAINT universal_auths_identity_unique UNIQUE (identity_id),
  CONSTRAINT universal_auths_identity_id_fkey FOREIGN KEY (identity_id) REFERENCES identities(id) ON DELETE CASCADE
);

-- room: auth
-- migrations: 0001_foundation
CREATE TABLE user_sessions (
  id uuid NOT NULL,
  user_id uuid NOT NULL,
  org_id uuid,
  root_id uuid NOT NULL,
  is_revoked boolean NOT NULL DEFAULT false,
  expires_at timestamp with time zone NOT NULL,
  created_at timestamp with time zone NOT NULL,
  CONSTRAINT user_sessions_pkey PRIMARY KEY (id),
  CONSTRAINT user_sessions_org_id_fkey FOREIGN KEY (org_id) REFERENCES organizations(id) ON DELETE CASCADE,
  CONSTRAINT user_sessions_user_id_fkey FOREIGN KEY (user_id) REFERENCES users(id) ON DELETE CASCADE
);
CREATE INDEX user_sessions_by_expiry ON user_sessions USING btree (expires_at);
CREATE INDEX user_sessions_by_org ON user_sessions USING btree (org_id) WHERE (org_id IS NOT NULL);
CREATE INDEX user_sessions_by_root ON user_sessions USING btree (root_id);
CREATE INDEX user_sessions_by_user ON user_sessions USING btree (user_id);

-- room: applications
-- migrations: 0004_certificates
CREATE TABLE pki_application_profiles (
  application_id uuid NOT NULL,
  profile_id uuid NOT NULL,
  created_at timestamp with time zone NOT NULL,
  updated_at timestamp with time zone NOT NULL,
  CONSTRAINT pki_application_profiles_pkey PRIMARY KEY (application_id, profile_id),
  CONSTRAINT pki_application_profiles_application_id_fkey FOREIGN KEY (application_id) REFERENCES pki_applications(id) ON DELETE CASCADE,
  CONSTRAINT pki_application_profiles_profile_id_fkey FOREIGN KEY (profile_id) REFERENCES certificate_profiles(id) ON DELETE CASCADE
);
CREATE INDEX pki_application_profiles_by_profile ON pki_application_profiles USING btree (profile_id);

-- room: applications
-- migrations: 0004_certificates, 0007_alert_counts
CREATE TABLE pki_applications (
  id uuid NOT NULL,
  project_id uuid NOT NULL,
  name text NOT NULL,
  description text,
  created_at timestamp with time zone NOT NULL,
  updated_at timestamp with time zone NOT NULL,
  CONSTRAINT pki_applications_pkey PRIMARY KEY (id),
  CONSTRAINT pki_applications_name_unique UNIQUE (project_id, name),
  CONSTRAINT pki_applications_project_id_fkey FOREIGN KEY (project_id) REFERENCES projects(id) ON DELETE CASCADE
);

CREATE TRIGGER alert_counts_forgotten AFTER DELETE ON pki_applications FOR EACH ROW
  EXECUTE FUNCTION forget_alert_counts();
CREATE FUNCTION forget_alert_counts()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
BEGIN
  DELETE FROM alert_counts WHERE scope_id = OLD.id;
  RETURN NULL;
END $function$;

-- room: authorities
-- migrations: 0004_certificates
CREATE TABLE authority_certificates (
  id uuid NOT NULL,
  authority_id uuid NOT NULL,
  key_id uuid NOT NULL,
  version integer NOT NULL,
  serial_number text NOT NULL,
  not_before timestamp with time zone NOT NULL,
  not_after timestamp with time zone NOT NULL,
  der bytea NOT NULL,
  chain bytea[] NOT NULL,
  created_at timestamp with time zone NOT NULL,
  CONSTRAINT authority_certificates_pkey PRIMARY KEY (id),
  CONSTRAINT authority_certificates_authority_id_version_key UNIQUE (authority_id, version),
  CONSTRAINT authority_certificates_authority_id_fkey FOREIGN KEY (authority_id) REFERENCES certificate_authorities(id) ON DELETE CASCADE,
  CONSTRAINT authority_certificates_key_id_fkey FOREIGN KEY (key_id) REFERENCES authority_keys(id) ON DELETE CASCADE
);

-- room: authorities
-- migrations: 0004_certificates
CREATE TABLE authority_keys (
  id uuid NOT NULL,
  authority_id uuid NOT NULL,
  key_algorithm text NOT NULL,
  public_key bytea NOT NULL,
  data_key_id uuid NOT NULL,
  sealed_key bytea NOT NULL,
  crl_shards integer NOT NULL,
  created_at timestamp with time zone NOT NULL,
  CONSTRAINT authority_keys_pkey PRIMARY KEY (id),
  CONSTRAINT authority_keys_authority_id_fkey FOREIGN KEY (authority_id) REFERENCES certificate_authorities(id) ON DELETE CASCADE
);
CREATE INDEX authority_keys_by_authority ON authority_keys USING btree (authority_id);

-- room: authorities
-- migrations: 0004_certificates
CREATE TABLE certificate_authorities (
  id uuid NOT NULL,
  project_id uuid NOT NULL,
  name text NOT NULL,
  kind text NOT NULL,
  status text NOT NULL,
  key_algorithm text NOT NULL,
  subject jsonb NOT NULL,
  parent_id uuid,
  max_path_length integer,
  name_constraints jsonb,
  crl_urls text[] NOT NULL DEFAULT '{}'::text[],
  has_managed_crl boolean NOT NULL DEFAULT true,
  crl_shards integer NOT NULL DEFAULT 1,
  active_key_id uuid NOT NULL,
  active_certificate_id uuid,
  created_at timestamp with time zone NOT NULL,
  updated_at timestamp with time zone NOT NULL,
  deleted_at timestamp with time zone,
  CONSTRAINT certificate_authorities_pkey PRIMARY KEY (id),
  CONSTRAINT certificate_authorities_crl_shards_check CHECK (crl_shards >= 1 AND crl_shards <= 128),
  CONSTRAINT certificate_authorities_kind_check CHECK (kind = ANY (ARRAY['root'::text, 'intermediate'::text])),
  CONSTRAINT certificate_authorities_status_check CHECK (status = ANY (ARRAY['active'::text, 'disabled'::text, 'pending-certificate'::text])),
  CONSTRAINT certificate_authorities_parent_id_fkey FOREIGN KEY (parent_id) REFERENCES certificate_authorities(id) ON DELETE SET NULL,
  CONSTRAINT certificate_authorities_project_id_fkey FOREIGN KEY (project_id) REFERENCES projects(id) ON DELETE CASCADE
);
CREATE UNIQUE INDEX certificate_authorities_name_unique ON certificate_authorities USING btree (project_id, name) WHERE (deleted_at IS NULL);

-- room: certificates
-- migrations: 0004_certificates
CREATE TABLE certificate_projects (
  project_id uuid NOT NULL,
  CONSTRAINT certificate_projects_pkey PRIMARY KEY (project_id)
);

-- room: inventory
-- migrations: 0004_certificates, 0008_certificate_chapters
CREATE TABLE certificate_blocks (
  profile_id uuid NOT NULL,
  until_at timestamp with time zone NOT NULL,
  until_id uuid NOT NULL,
  count integer NOT NULL,
  letters bytea,
  CONSTRAINT certificate_blocks_pkey PRIMARY KEY (profile_id, until_at, until_id)
);
CREATE INDEX certificate_blocks_without_letters ON certificate_blocks USING btree (profile_id) WHERE (letters IS NULL);

-- room: inventory
-- migrations: 0004_certificates
CREATE TABLE certificate_bodies (
  certificate_id uuid NOT NULL,
  der bytea NOT NULL,
  chain bytea[],
  details jsonb NOT NULL,
  data_key_id uuid,
  sealed_key bytea,
  CONSTRAINT certificate_bodies_pkey PRIMARY KEY (certificate_id)
);

-- room: inventory
-- migrations: 0008_certificate_chapters
CREATE TABLE certificate_chapters (
  profile_id uuid NOT NULL,
  until_at timestamp with time zone NOT NULL,
  until_id uuid NOT NULL,
  count integer NOT NULL,
  CONSTRAINT certificate_chapters_pkey PRIMARY KEY (profile_id, until_at, until_id)
);

-- room: inventory
-- migrations: 0004_certificates, 0005_alerts, 0008_certificate_chapters, 0011_application_certificates, 0020_due_renewals
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
  not_before timestamp with time zone NOT NULL,
  not_after timestamp with time zone NOT NULL,
  created_at timestamp with time zone NOT NULL,
  updated_at timestamp with time zone NOT NULL,
  revoked_at timestamp with time zone,
  renew_at timestamp with time zone,
  renewal_attempts integer NOT NULL DEFAULT 0,
  phase smallint NOT NULL DEFAULT 0,
  revocation_reason smallint,
  crl_shard smallint,
  is_ca boolean NOT NULL DEFAULT false,
  source text NOT NULL,
  serial_number text NOT NULL,
  common_name text NOT NULL,
  key_algorithm text,
  signature_algorithm text,
  renewal_error text,
  search_text text NOT NULL,
  alt_names jsonb NOT NULL,
  key_fingerprint bytea NOT NULL,
  crl_entry bytea,
  CONSTRAINT certificates_pkey PRIMARY KEY (id),
  CONSTRAINT certificates_check CHECK ((phase = 2) = (revoked_at IS NOT NULL)),
  CONSTRAINT certificates_phase_check CHECK (phase >= 0 AND phase <= 2),
  CONSTRAINT certificates_source_check CHECK (source = ANY (ARRAY['issued'::text, 'imported'::text]))
) WITH (autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);
CREATE INDEX certificates_by_application ON certificates USING btree (application_id) WHERE (application_id IS NOT NULL);
CREATE INDEX certificates_by_end ON certificates USING btree (not_after) INCLUDE (profile_id, created_at, id) WHERE (phase = 0);
CREATE INDEX certificates_by_key ON certificates USING btree (key_fingerprint);
CREATE INDEX certificates_by_phase ON certificates USING btree (profile_id, phase, created_at DESC, id DESC) INCLUDE (not_after);
CREATE INDEX certificates_by_profile ON certificates USING btree (profile_id, created_at DESC, id DESC);
CREATE INDEX certificates_by_project ON certificates USING btree (project_id, created_at DESC, id DESC);
CREATE INDEX certificates_due ON certificates USING btree (project_id, not_after, id) WHERE ((phase = 0) AND (renewed_by_id IS NULL));
CREATE INDEX certificates_due_for_renewal ON certificates USING btree (project_id, renew_at) WHERE ((renew_at IS NOT NULL) AND (revoked_at IS NULL));
CREATE INDEX certificates_revoked ON certificates USING btree (authority_key_id, crl_shard) WHERE (phase = 2);
CREATE INDEX certificates_search ON certificates USING gin (project_id, profile_id, search_text gin_trgm_ops);
CREATE UNIQUE INDEX certificates_serial_unique ON certificates USING btree (authority_id, serial_number) WHERE (authority_id IS NOT NULL);

-- room: policies
-- migrations: 0004_certificates
CREATE TABLE certificate_policies (
  id uuid NOT NULL,
  project_id uuid NOT NULL,
  name text NOT NULL,
  description text,
  rules jsonb NOT NULL,
  created_at timestamp with time zone NOT NULL,
  updated_at timestamp with time zone NOT NULL,
  CONSTRAINT certificate_policies_pkey PRIMARY KEY (id),
  CONSTRAINT certificate_policies_name_unique UNIQUE (project_id, name),
  CONSTRAINT certificate_policies_project_id_fkey FOREIGN KEY (project_id) REFERENCES projects(id) ON DELETE CASCADE
);

-- room: profiles
-- migrations: 0004_certificates
CREATE TABLE certificate_profiles (
  id uuid NOT NULL,
  project_id uuid NOT NULL,
  authority_id uuid,
  policy_id uuid NOT NULL,
  slug text NOT NULL,
  description text,
  issuer_type text NOT NULL,
  enrollment_type text NOT NULL,
  defaults jsonb,
  external_configs jsonb,
  auto_renew boolean NOT NULL DEFAULT false,
  renew_before_days integer,
  renew_before_percent integer,
  created_at timestamp with time zone NOT NULL,
  updated_at timestamp with time zone NOT NULL,
  CONSTRAINT certificate_profiles_pkey PRIMARY KEY (id),
  CONSTRAINT certificate_profiles_slug_unique UNIQUE (project_id, slug),
  CONSTRAINT certificate_profiles_issuer_type_check CHECK (issuer_type = ANY (ARRAY['ca'::text, 'self-signed'::text])),
  CONSTRAINT certificate_profiles_authority_id_fkey FOREIGN KEY (authority_id) REFERENCES certificate_authorities(id),
  CONSTRAINT certificate_profiles_policy FOREIGN KEY (policy_id) REFERENCES certificate_policies(id),
  CONSTRAINT certificate_profiles_project_id_fkey FOREIGN KEY (project_id) REFERENCES projects(id) ON DELETE CASCADE
);
CREATE INDEX certificate_profiles_by_authority ON certificate_profiles USING btree (authority_id);
CREATE INDEX certificate_profiles_by_policy ON certificate_profiles USING btree (policy_id);

-- room: revocation
-- migrations: 0004_certificates
CREATE TABLE crl_changes (
  authority_key_id uuid NOT NULL,
  shard smallint NOT NULL,
  at timestamp with time zone NOT NULL,
  CONSTRAINT crl_changes_pkey PRIMARY KEY (authority_key_id, shard)
);

-- room: revocation
-- migrations: 0004_certificates, 0013_revocation_scope
CREATE TABLE crls (
  authority_key_id uuid NOT NULL,
  shard smallint NOT NULL,
  number bigint NOT NULL,
  this_update timestamp with time zone NOT NULL,
  next_update timestamp with time zone NOT NULL,
  der bytea STORAGE EXTERNAL NOT NULL,
  urls text[] NOT NULL DEFAULT '{}'::text[],
  CONSTRAINT crls_pkey PRIMARY KEY (authority_key_id, shard),
  CONSTRAINT crls_authority_key_id_fkey FOREIGN KEY (authority_key_id) REFERENCES authority_keys(id) ON DELETE CASCADE
);

-- room: revocation
-- migrations: 0004_certificates
CREATE TABLE ocsp_signers (
  authority_key_id uuid NOT NULL,
  der bytea NOT NULL,
  data_key_id uuid NOT NULL,
  sealed_key bytea NOT NULL,
  not_after timestamp with time zone NOT NULL,
  CONSTRAINT ocsp_signers_pkey PRIMARY KEY (authority_key_id),
  CONSTRAINT ocsp_signers_authority_key_id_fkey FOREIGN KEY (authority_key_id) REFERENCES authority_keys(id) ON DELETE CASCADE
);

-- room: signing
-- migrations: 0004_certificates, 0013_revocation_scope
CREATE TABLE blocked_keys (
  key_fingerprint bytea NOT NULL,
  created_at timestamp with time zone NOT NULL,
  org_id uuid
);
CREATE UNIQUE INDEX blocked_keys_unique ON blocked_keys USING btree (key_fingerprint, org_id) NULLS NOT DISTINCT;

-- room: signing
-- migrations: 0004_certificates
CREATE TABLE certificate_requests (
  id uuid NOT NULL,
  project_id uuid NOT NULL,
  profile_id uuid,
  application_id uuid,
  authority_id uuid,
  authority_certificate_id uuid,
  certificate_id uuid NOT NULL,
  serial_number text NOT NULL,
  status text NOT NULL,
  error text,
  tbs bytea,
  context jsonb,
  data_key_id uuid,
  sealed_key bytea,
  idempotency_key text,
  request_digest bytea,
  created_at timestamp with time zone NOT NULL,
  updated_at timestamp with time zone NOT NULL,
  CONSTRAINT certificate_requests_pkey PRIMARY KEY (id),
  CONSTRAINT certificate_requests_status_check CHECK (status = ANY (ARRAY['pending'::text, 'issued'::text, 'failed'::text]))
);
CREATE INDEX certificate_requests_by_age ON certificate_requests USING btree (created_at);
CREATE UNIQUE INDEX certificate_requests_idempotent ON certificate_requests USING btree (project_id, idempotency_key) WHERE (idempotency_key IS NOT NULL);
CREATE INDEX certificate_requests_pending ON certificate_requests USING btree (created_at) WHERE (status = 'pending'::text);
CREATE UNIQUE INDEX certificate_requests_serial_unique ON certificate_requests USING btree (authority_id, serial_number) WHERE (authority_id IS NOT NULL);

-- room: events
-- migrations: 0006_events
CREATE UNLOGGED TABLE stream_counts (
  subject_id uuid NOT NULL,
  node_id uuid NOT NULL,
  open integer NOT NULL,
  CONSTRAINT stream_counts_pkey PRIMARY KEY (subject_id, node_id)
) WITH (fillfactor = 50);

-- room: events
-- migrations: 0006_events
CREATE UNLOGGED TABLE stream_nodes (
  node_id uuid NOT NULL,
  seen_at timestamp with time zone NOT NULL,
  CONSTRAINT stream_nodes_pkey PRIMARY KEY (node_id)
);

-- room: identities
-- migrations: 0001_foundation, 0009_identity_counts
CREATE TABLE identities (
  id uuid NOT NULL,
  org_id uuid NOT NULL,
  project_id uuid,
  name text NOT NULL,
  has_delete_protection boolean NOT NULL DEFAULT false,
  is_instance_admin boolean NOT NULL DEFAULT false,
  auth_methods text[] NOT NULL DEFAULT '{}'::text[],
  metadata jsonb NOT NULL DEFAULT '[]'::jsonb,
  last_login_method text,
  last_login_at timestamp with time zone,
  created_at timestamp with time zone NOT NULL,
  updated_at timestamp with time zone NOT NULL,
  CONSTRAINT identities_pkey PRIMARY KEY (id),
  CONSTRAINT identities_org_id_fkey FOREIGN KEY (org_id) REFERENCES organizations(id) ON DELETE CASCADE,
  CONSTRAINT identities_project_id_fkey FOREIGN KEY (project_id) REFERENCES projects(id) ON DELETE CASCADE
);
CREATE INDEX identities_by_org ON identities USING btree (org_id);
CREATE INDEX identities_by_project ON identities USING btree (project_id, created_at, id) WHERE (project_id IS NOT NULL);
CREATE INDEX identities_of_org ON identities USING btree (org_id, created_at, id) WHERE (project_id IS NULL);

CREATE TRIGGER identities_counted_late AFTER INSERT ON identities FOR EACH ROW
  WHEN (new.created_at < (now() - '00:01:00'::interval))
  EXECUTE FUNCTION count_late_identity();
CREATE FUNCTION count_late_identity()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
DECLARE place uuid := coalesce(NEW.project_id, NEW.org_id);
BEGIN
  PERFORM hold_identity_count(place);
  UPDATE identity_counts SET count = count + 1 WHERE place_id = place AND kind = 'identity' AND until > NEW.created_at;
  RETURN NULL;
END $function$;

CREATE TRIGGER identities_uncounted AFTER DELETE ON identities
  REFERENCING OLD TABLE AS changed FOR EACH STATEMENT
  EXECUTE FUNCTION uncount_identities();
CREATE FUNCTION uncount_identities()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
BEGIN
  PERFORM hold_identity_count(place) FROM (SELECT DISTINCT coalesce(project_id, org_id) AS place FROM changed ORDER BY 1) places;
  UPDATE identity_counts c SET count = c.count - gone.count FROM (
    SELECT k.place_id, count(*) AS count FROM changed JOIN identity_counts k
      ON k.place_id = coalesce(changed.project_id, changed.org_id) AND k.kind = 'identity' AND k.until > changed.created_at
    GROUP BY 1) gone
  WHERE c.place_id = gone.place_id AND c.kind = 'identity';
  RETURN NULL;
END $function$;

-- room: identities
-- migrations: 0009_identity_counts
-- rows come, change or go by triggers:
--   identities_counted_late on identities
--   identities_uncounted on identities
--   memberships_counted_late on memberships
--   memberships_uncounted on memberships
--   identity_counts_forgotten on organizations
--   identity_counts_forgotten on projects
CREATE TABLE identity_counts (
  place_id uuid NOT NULL,
  kind text NOT NULL,
  until timestamp with time zone NOT NULL,
  count bigint NOT NULL,
  CONSTRAINT identity_counts_pkey PRIMARY KEY (place_id, kind),
  CONSTRAINT identity_counts_kind_check CHECK (kind = ANY (ARRAY['identity'::text, 'membership'::text]))
);

-- room: licences
-- migrations: 0001_foundation
CREATE TABLE licence_issuers (
  id uuid NOT NULL,
  public_key bytea NOT NULL,
  created_at timestamp with time zone NOT NULL,
  CONSTRAINT licence_issuers_pkey PRIMARY KEY (id),
  CONSTRAINT licence_issuers_public_key_key UNIQUE (public_key)
);

-- room: licences
-- migrations: 0001_foundation
CREATE TABLE licences (
  id uuid NOT NULL,
  org_id uuid,
  document text NOT NULL,
  installed_at timestamp with time zone NOT NULL,
  revoked_at timestamp with time zone,
  CONSTRAINT licences_pkey PRIMARY KEY (id),
  CONSTRAINT licences_org_id_fkey FOREIGN KEY (org_id) REFERENCES organizations(id) ON DELETE CASCADE
);
CREATE INDEX licences_by_org ON licences USING btree (org_id);

-- room: members
-- migrations: 0002_invitations
CREATE TABLE invitations (
  id uuid NOT NULL,
  org_id uuid NOT NULL,
  email text NOT NULL,
  first_name text NOT NULL,
  last_name text NOT NULL,
  role text NOT NULL,
  projects jsonb NOT NULL,
  inviter_kind text NOT NULL,
  inviter_id uuid NOT NULL,
  digest bytea NOT NULL,
  expires_at timestamp with time zone NOT NULL,
  created_at timestamp with time zone NOT NULL,
  CONSTRAINT invitations_pkey PRIMARY KEY (id),
  CONSTRAINT invitations_digest_key UNIQUE (digest),
  CONSTRAINT invitations_email_unique UNIQUE (org_id, email),
  CONSTRAINT invitations_inviter_kind_check CHECK (inviter_kind = ANY (ARRAY['user'::text, 'identity'::text])),
  CONSTRAINT invitations_org_id_fkey FOREIGN KEY (org_id) REFERENCES organizations(id) ON DELETE CASCADE
);
CREATE INDEX invitations_by_expiry ON invitations USING btree (expires_at);

-- room: members
-- migrations: 0017_mail_budgets
CREATE UNLOGGED TABLE mail_budgets (
  key text NOT NULL,
  window_start timestamp with time zone NOT NULL,
  count integer NOT NULL,
  CONSTRAINT mail_budgets_pkey PRIMARY KEY (key, window_start)
);

-- room: memberships
-- migrations: 0001_foundation
CREATE TABLE membership_roles (
  id uuid NOT NULL,
  membership_id uuid NOT NULL,
  role text NOT NULL,
  role_id uuid,
  is_temporary boolean NOT NULL DEFAULT false,
  temporary_range text,
  starts_at timestamp with time zone,
  ends_at timestamp with time zone,
  CONSTRAINT membership_roles_pkey PRIMARY KEY (id),
  CONSTRAINT membership_roles_check CHECK ((role = 'custom'::text) = (role_id IS NOT NULL)),
  CONSTRAINT membership_roles_check1 CHECK (NOT is_temporary OR starts_at IS NOT NULL AND ends_at IS NOT NULL),
  CONSTRAINT membership_roles_membership_id_fkey FOREIGN KEY (membership_id) REFERENCES memberships(id) ON DELETE CASCADE,
  CONSTRAINT membership_roles_role_id_fkey FOREIGN KEY (role_id) REFERENCES roles(id) ON DELETE CASCADE
);
CREATE INDEX membership_roles_by_membership ON membership_roles USING btree (membership_id);
CREATE INDEX membership_roles_by_role ON membership_roles USING btree (role_id) WHERE (role_id IS NOT NULL);

-- room: memberships
-- migrations: 0001_foundation, 0009_identity_counts
CREATE TABLE memberships (
  id uuid NOT NULL,
  org_id uuid NOT NULL,
  project_id uuid,
  user_id uuid,
  identity_id uuid,
  created_at timestamp with time zone NOT NULL,
  updated_at timestamp with time zone NOT NULL,
  CONSTRAINT memberships_pkey PRIMARY KEY (id),
  CONSTRAINT memberships_check CHECK ((user_id IS NULL) <> (identity_id IS NULL)),
  CONSTRAINT memberships_identity_id_fkey FOREIGN KEY (identity_id) REFERENCES identities(id) ON DELETE CASCADE,
  CONSTRAINT memberships_org_id_fkey FOREIGN KEY (org_id) REFERENCES organizations(id) ON DELETE CASCADE,
  CONSTRAINT memberships_project_id_fkey FOREIGN KEY (project_id) REFERENCES projects(id) ON DELETE CASCADE,
  CONSTRAINT memberships_user_id_fkey FOREIGN KEY (user_id) REFERENCES users(id) ON DELETE CASCADE
);
CREATE INDEX memberships_by_identity ON memberships USING btree (identity_id) WHERE (identity_id IS NOT NULL);
CREATE INDEX memberships_by_user ON memberships USING btree (user_id) WHERE (user_id IS NOT NULL);
CREATE INDEX memberships_of_project ON memberships USING btree (project_id, created_at, id) INCLUDE (identity_id) WHERE (project_id IS NOT NULL);
CREATE UNIQUE INDEX memberships_org_identity ON memberships USING btree (org_id, identity_id) WHERE ((project_id IS NULL) AND (identity_id IS NOT NULL));
CREATE UNIQUE INDEX memberships_org_user ON memberships USING btree (org_id, user_id) WHERE ((project_id IS NULL) AND (user_id IS NOT NULL));
CREATE UNIQUE INDEX memberships_project_identity ON memberships USING btree (project_id, identity_id) WHERE ((project_id IS NOT NULL) AND (identity_id IS NOT NULL));
CREATE UNIQUE INDEX memberships_project_user ON memberships USING btree (project_id, user_id) WHERE ((project_id IS NOT NULL) AND (user_id IS NOT NULL));

CREATE TRIGGER memberships_counted_late AFTER INSERT ON memberships FOR EACH ROW
  WHEN (new.project_id IS NOT NULL AND new.identity_id IS NOT NULL AND new.created_at < (now() - '00:01:00'::interval))
  EXECUTE FUNCTION count_late_membership();
CREATE FUNCTION count_late_membership()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
BEGIN
  PERFORM hold_identity_count(NEW.project_id);
  UPDATE identity_counts SET count = count + 1 WHERE place_id = NEW.project_id AND kind = 'membership' AND until > NEW.created_at;
  RETURN NULL;
END $function$;

CREATE TRIGGER memberships_uncounted AFTER DELETE ON memberships
  REFERENCING OLD TABLE AS changed FOR EACH STATEMENT
  EXECUTE FUNCTION uncount_memberships();
CREATE FUNCTION uncount_memberships()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
BEGIN
  PERFORM hold_identity_count(place) FROM (
    SELECT DISTINCT project_id AS place FROM changed WHERE project_id IS NOT NULL AND identity_id IS NOT NULL ORDER BY 1) places;
  UPDATE identity_counts c SET count = c.count - gone.count FROM (
    SELECT k.place_id, count(*) AS count FROM changed JOIN identity_counts k
      ON k.place_id = changed.project_id AND k.kind = 'membership' AND k.until > changed.created_at
    WHERE changed.identity_id IS NOT NULL GROUP BY 1) gone
  WHERE c.place_id = gone.place_id AND c.kind = 'membership';
  RETURN NULL;
END $function$;

-- room: organizations
-- migrations: 0001_foundation
CREATE TABLE bootstrap (
  only_one boolean NOT NULL DEFAULT true,
  org_id uuid NOT NULL,
  at timestamp with time zone NOT NULL,
  CONSTRAINT bootstrap_once PRIMARY KEY (only_one),
  CONSTRAINT bootstrap_only_one_check CHECK (only_one)
);

-- room: organizations
-- migrations: 0001_foundation, 0009_identity_counts
CREATE TABLE organizations (
  id uuid NOT NULL,
  name text NOT NULL,
  slug text NOT NULL,
  created_at timestamp with time zone NOT NULL,
  updated_at timestamp with time zone NOT NULL,
  CONSTRAINT organizations_pkey PRIMARY KEY (id),
  CONSTRAINT organizations_slug_unique UNIQUE (slug)
);

CREATE TRIGGER identity_counts_forgotten AFTER DELETE ON organizations FOR EACH ROW
  EXECUTE FUNCTION forget_identity_counts();
CREATE FUNCTION forget_identity_counts()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
BEGIN
  DELETE FROM identity_counts WHERE place_id = OLD.id;
  RETURN NULL;
END $function$;

-- room: projects
-- migrations: 0001_foundation, 0003_secrets
CREATE TABLE environments (
  id uuid NOT NULL,
  project_id uuid NOT NULL,
  name text NOT NULL,
  slug text NOT NULL,
  "position" integer NOT NULL,
  created_at timestamp with time zone NOT NULL,
  updated_at timestamp with time zone NOT NULL,
  CONSTRAINT environments_pkey PRIMARY KEY (id),
  CONSTRAINT environments_slug_unique UNIQUE (project_id, slug),
  CONSTRAINT environments_project_id_fkey FOREIGN KEY (project_id) REFERENCES projects(id) ON DELETE CASCADE
);

CREATE TRIGGER environment_appeared AFTER INSERT ON environments FOR EACH ROW
  EXECUTE FUNCTION environment_appeared();
CREATE FUNCTION environment_appeared()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
DECLARE
  root uuid := gen_random_uuid();
BEGIN
  INSERT INTO folders (id, project_id, environment_id, name, path, created_at, updated_at)
    VALUES (root, NEW.project_id, NEW.id, '', '/', NEW.created_at, NEW.created_at);
  INSERT INTO folder_history (folder_id, project_id, environment_id, path, from_at)
    VALUES (root, NEW.project_id, NEW.id, '/', NEW.created_at);
  INSERT INTO project_changes AS c (project_id, slot, counter) VALUES (NEW.project_id, 0, 1)
    ON CONFLICT (project_id, slot) DO UPDATE SET counter = c.counter + 1;
  RETURN NULL;
END $function$;

CREATE TRIGGER environment_changed AFTER UPDATE OF name, slug ON environments FOR EACH ROW
  EXECUTE FUNCTION environment_changed();
CREATE FUNCTION environment_changed()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
BEGIN
  UPDATE project_changes SET counter = counter + 1 WHERE project_id = NEW.project_id AND slot = 0;
  RETURN NULL;
END $function$;

CREATE TRIGGER environment_goes BEFORE DELETE ON environments FOR EACH ROW
  EXECUTE FUNCTION environment_goes();
CREATE FUNCTION environment_goes()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
BEGIN
  PERFORM pg_advisory_xact_lock(project_lock_key(OLD.project_id));
  DELETE FROM secrets WHERE folder_id IN (SELECT id FROM folders WHERE environment_id = OLD.id);
  UPDATE project_changes SET counter = counter + 1 WHERE project_id = OLD.project_id AND slot = 0;
  RETURN OLD;
END $function$;

-- room: projects
-- migrations: 0001_foundation, 0003_secrets, 0007_alert_counts, 0009_identity_counts, 0010_secret_history
CREATE TABLE projects (
  id uuid NOT NULL,
  org_id uuid NOT NULL,
  name text NOT NULL,
  slug text NOT NULL,
  description text,
  type text NOT NULL,
  has_delete_protection boolean NOT NULL DEFAULT false,
  audit_retention_days integer,
  version_limit integer,
  created_at timestamp with time zone NOT NULL,
  updated_at timestamp with time zone NOT NULL,
  CONSTRAINT projects_pkey PRIMARY KEY (id),
  CONSTRAINT projects_slug_unique UNIQUE (org_id, slug),
  CONSTRAINT projects_type_check CHECK (type = ANY (ARRAY['secret-manager'::text, 'cert-manager'::text])),
  CONSTRAINT projects_org_id_fkey FOREIGN KEY (org_id) REFERENCES organizations(id) ON DELETE CASCADE
);
CREATE INDEX projects_with_version_limit ON projects USING btree (id) WHERE (version_limit IS NOT NULL);

CREATE TRIGGER alert_counts_forgotten AFTER DELETE ON projects FOR EACH ROW
  EXECUTE FUNCTION forget_alert_counts();
-- forget_alert_counts() stands with pki_applications

CREATE TRIGGER identity_counts_forgotten AFTER DELETE ON projects FOR EACH ROW
  EXECUTE FUNCTION forget_identity_counts();
-- forget_identity_counts() stands with organizations

CREATE TRIGGER project_goes BEFORE DELETE ON projects FOR EACH ROW
  EXECUTE FUNCTION project_goes();
CREATE FUNCTION project_goes()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
BEGIN
  PERFORM pg_advisory_xact_lock(project_lock_key(OLD.id));
  DELETE FROM secrets WHERE folder_id IN (SELECT id FROM folders WHERE project_id = OLD.id);
  DELETE FROM project_changes WHERE project_id = OLD.id;
  DELETE FROM secret_versions WHERE folder_id IN (SELECT DISTINCT folder_id FROM folder_history WHERE project_id = OLD.id);
  RETURN OLD;
END $function$;

-- room: roles
-- migrations: 0001_foundation, 0015_role_weights
CREATE TABLE roles (
  id uuid NOT NULL,
  org_id uuid NOT NULL,
  project_id uuid,
  slug text NOT NULL,
  name text NOT NULL,
  description text,
  rules jsonb NOT NULL,
  created_at timestamp with time zone NOT NULL,
  updated_at timestamp with time zone NOT NULL,
  rule_count integer NOT NULL DEFAULT 0,
  pattern_characters integer NOT NULL DEFAULT 0,
  CONSTRAINT roles_pkey PRIMARY KEY (id),
  CONSTRAINT roles_org_id_fkey FOREIGN KEY (org_id) REFERENCES organizations(id) ON DELETE CASCADE,
  CONSTRAINT roles_project_id_fkey FOREIGN KEY (project_id) REFERENCES projects(id) ON DELETE CASCADE
);
CREATE UNIQUE INDEX roles_org_slug_unique ON roles USING btree (org_id, slug) WHERE (project_id IS NULL);
CREATE UNIQUE INDEX roles_project_slug_unique ON roles USING btree (project_id, slug) WHERE (project_id IS NOT NULL);

-- room: folders
-- migrations: 0003_secrets
-- rows come, change or go by triggers:
--   environment_appeared on environments
CREATE TABLE folder_history (
  folder_id uuid NOT NULL,
  project_id uuid NOT NULL,
  environment_id uuid NOT NULL,
  path text NOT NULL,
  from_at timestamp with time zone NOT NULL,
  to_at timestamp with time zone,
  CONSTRAINT folder_history_project_id_fkey FOREIGN KEY (project_id) REFERENCES projects(id) ON DELETE CASCADE
);
CREATE INDEX folder_history_by_folder ON folder_history USING btree (folder_id);
CREATE INDEX folder_history_by_path ON folder_history USING btree (environment_id, path text_pattern_ops);
CREATE INDEX folder_history_by_project ON folder_history USING btree (project_id);

-- room: folders
-- migrations: 0003_secrets
-- rows come, change or go by triggers:
--   environment_appeared on environments
CREATE TABLE folders (
  id uuid NOT NULL,
  project_id uuid NOT NULL,
  environment_id uuid NOT NULL,
  parent_id uuid,
  name text NOT NULL,
  path text NOT NULL,
  description text,
  version integer NOT NULL DEFAULT 1,
  created_at timestamp with time zone NOT NULL,
  updated_at timestamp with time zone NOT NULL,
  CONSTRAINT folders_pkey PRIMARY KEY (id),
  CONSTRAINT folders_path_unique UNIQUE (environment_id, path),
  CONSTRAINT folders_path_check CHECK (length(path) <= 512),
  CONSTRAINT folders_environment_id_fkey FOREIGN KEY (environment_id) REFERENCES environments(id) ON DELETE CASCADE,
  CONSTRAINT folders_parent_id_fkey FOREIGN KEY (parent_id) REFERENCES folders(id) ON DELETE CASCADE,
  CONSTRAINT folders_project_id_fkey FOREIGN KEY (project_id) REFERENCES projects(id) ON DELETE CASCADE
);
CREATE INDEX folders_by_parent ON folders USING btree (parent_id);
CREATE INDEX folders_by_prefix ON folders USING btree (environment_id, path text_pattern_ops);
CREATE INDEX folders_by_project ON folders USING btree (project_id);

-- room: key-rotation
-- migrations: 0003_secrets
CREATE TABLE key_rotations (
  id uuid NOT NULL,
  project_id uuid NOT NULL,
  old_key_id uuid NOT NULL,
  started_at timestamp with time zone NOT NULL,
  finished_at timestamp with time zone,
  CONSTRAINT key_rotations_pkey PRIMARY KEY (id),
  CONSTRAINT key_rotations_project_id_fkey FOREIGN KEY (project_id) REFERENCES projects(id) ON DELETE CASCADE
);
CREATE INDEX key_rotations_by_project ON key_rotations USING btree (project_id, started_at DESC);
CREATE INDEX key_rotations_running ON key_rotations USING btree (started_at) WHERE (finished_at IS NULL);

-- room: secret-imports
-- migrations: 0003_secrets, 0021_import_bounds
CREATE TABLE secret_imports (
  id uuid NOT NULL,
  project_id uuid NOT NULL,
  folder_id uuid NOT NULL,
  source_project_id uuid NOT NULL,
  source_environment_id uuid NOT NULL,
  source_path text NOT NULL,
  "position" integer NOT NULL,
  is_replication boolean NOT NULL DEFAULT false,
  version integer NOT NULL DEFAULT 1,
  created_at timestamp with time zone NOT NULL,
  updated_at timestamp with time zone NOT NULL,
  CONSTRAINT secret_imports_pkey PRIMARY KEY (id),
  CONSTRAINT secret_imports_source_unique UNIQUE (folder_id, source_environment_id, source_path),
  CONSTRAINT secret_imports_folder_id_fkey FOREIGN KEY (folder_id) REFERENCES folders(id) ON DELETE CASCADE,
  CONSTRAINT secret_imports_project_id_fkey FOREIGN KEY (project_id) REFERENCES projects(id) ON DELETE CASCADE,
  CONSTRAINT secret_imports_source_environment_id_fkey FOREIGN KEY (source_environment_id) REFERENCES environments(id) ON DELETE CASCADE,
  CONSTRAINT secret_imports_source_project_id_fkey FOREIGN KEY (source_project_id) REFERENCES projects(id) ON DELETE CASCADE
);
CREATE INDEX secret_imports_across ON secret_imports USING btree (project_id) WHERE (source_project_id <> project_id);
CREATE INDEX secret_imports_by_project ON secret_imports USING btree (project_id);
CREATE INDEX secret_imports_by_source ON secret_imports USING btree (source_environment_id, source_path);
CREATE INDEX secret_imports_by_source_project ON secret_imports USING btree (source_project_id);

-- room: secret-versions
-- migrations: 0010_secret_history
CREATE TABLE history_horizons (
  folder_id uuid NOT NULL,
  project_id uuid NOT NULL,
  whole_from timestamp with time zone NOT NULL,
  CONSTRAINT history_horizons_pkey PRIMARY KEY (folder_id),
  CONSTRAINT history_horizons_project_id_fkey FOREIGN KEY (project_id) REFERENCES projects(id) ON DELETE CASCADE
);
CREATE INDEX history_horizons_by_project ON history_horizons USING btree (project_id);

-- room: secret-versions
-- migrations: 0010_secret_history
CREATE TABLE version_sweeps (
  project_id uuid NOT NULL,
  version_limit integer NOT NULL,
  stamp bigint NOT NULL,
  swept_to timestamp with time zone NOT NULL,
  CONSTRAINT version_sweeps_pkey PRIMARY KEY (project_id),
  CONSTRAINT version_sweeps_project_id_fkey FOREIGN KEY (project_id) REFERENCES projects(id) ON DELETE CASCADE
);

-- room: secrets
-- migrations: 0003_secrets
-- rows come, change or go by triggers:
--   environment_appeared on environments
--   environment_changed on environments
--   environment_goes on environments
--   project_goes on projects
CREATE TABLE project_changes (
  project_id uuid NOT NULL,
  slot smallint NOT NULL,
  counter bigint NOT NULL,
  CONSTRAINT project_changes_pkey PRIMARY KEY (project_id, slot)
) WITH (fillfactor = 30);

-- room: secrets
-- migrations: 0003_secrets
CREATE TABLE secret_references (
  secret_id uuid NOT NULL,
  project_id uuid NOT NULL,
  folder_id uuid NOT NULL,
  secret_key text NOT NULL,
  environment text,
  path text,
  key text NOT NULL,
  CONSTRAINT secret_references_secret_id_fkey FOREIGN KEY (secret_id) REFERENCES secrets(id) ON DELETE CASCADE
);
CREATE INDEX secret_references_by_secret ON secret_references USING btree (secret_id);
CREATE INDEX secret_references_by_target ON secret_references USING btree (project_id, environment, path, key) WHERE (environment IS NOT NULL);
CREATE INDEX secret_references_local ON secret_references USING btree (folder_id, key) WHERE (environment IS NULL);

-- room: secrets
-- migrations: 0003_secrets, 0010_secret_history
-- rows come, change or go by triggers:
--   project_goes on projects
CREATE TABLE secret_versions (
  secret_id uuid NOT NULL,
  version integer NOT NULL,
  project_id uuid NOT NULL,
  folder_id uuid NOT NULL,
  key text NOT NULL,
  owner_id uuid,
  change text NOT NULL,
  key_id uuid NOT NULL,
  value bytea,
  comment bytea,
  metadata jsonb,
  tag_ids uuid[] NOT NULL,
  skip_multiline boolean,
  reminder_note text,
  reminder_days integer,
  actor_type text NOT NULL,
  actor_id uuid,
  actor_name text NOT NULL,
  created_at timestamp with time zone NOT NULL,
  original_at timestamp with time zone,
  CONSTRAINT secret_versions_pkey PRIMARY KEY (secret_id, version),
  CONSTRAINT secret_versions_change_check CHECK (change = ANY (ARRAY['create'::text, 'update'::text, 'delete'::text]))
);
CREATE INDEX secret_versions_by_folder ON secret_versions USING btree (folder_id, created_at);

-- room: secrets
-- migrations: 0003_secrets
-- rows come, change or go by triggers:
--   environment_goes on environments
--   project_goes on projects
CREATE TABLE secrets (
  id uuid NOT NULL,
  project_id uuid NOT NULL,
  folder_id uuid NOT NULL,
  key text NOT NULL,
  owner_id uuid,
  version integer NOT NULL,
  key_id uuid NOT NULL,
  value bytea NOT NULL,
  comment bytea,
  metadata jsonb,
  tag_ids uuid[] NOT NULL DEFAULT '{}'::uuid[],
  skip_multiline boolean,
  reminder_note text,
  reminder_days integer,
  created_at timestamp with time zone NOT NULL,
  updated_at timestamp with time zone NOT NULL,
  CONSTRAINT secrets_pkey PRIMARY KEY (id),
  CONSTRAINT secrets_key_unique UNIQUE NULLS NOT DISTINCT (folder_id, key, owner_id) DEFERRABLE
) WITH (fillfactor = 85);
CREATE INDEX secrets_by_tag ON secrets USING gin (tag_ids) WHERE (tag_ids <> '{}'::uuid[]);

-- room: secrets
-- migrations: 0003_secrets
CREATE TABLE tags (
  id uuid NOT NULL,
  project_id uuid NOT NULL,
  slug text NOT NULL,
  name text NOT NULL,
  color text NOT NULL DEFAULT ''::text,
  created_at timestamp with time zone NOT NULL,
  updated_at timestamp with time zone NOT NULL,
  CONSTRAINT tags_pkey PRIMARY KEY (id),
  CONSTRAINT tags_slug_unique UNIQUE (project_id, slug),
  CONSTRAINT tags_project_id_fkey FOREIGN KEY (project_id) REFERENCES projects(id) ON DELETE CASCADE
);

-- room: users
-- migrations: 0001_foundation
CREATE TABLE users (
  id uuid NOT NULL,
  email text NOT NULL,
  first_name text NOT NULL DEFAULT ''::text,
  last_name text NOT NULL DEFAULT ''::text,
  password_hash text,
  is_instance_admin boolean NOT NULL DEFAULT false,
  created_at timestamp with time zone NOT NULL,
  updated_at timestamp with time zone NOT NULL,
  CONSTRAINT users_pkey PRIMARY KEY (id),
  CONSTRAINT users_email_unique UNIQUE (email)
);

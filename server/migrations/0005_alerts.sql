-- Alerts: what to watch for, whom to tell, and a ledger of every message until someone took it.

CREATE TABLE alerts (
  id uuid PRIMARY KEY,
  org_id uuid NOT NULL REFERENCES organizations ON DELETE CASCADE,
  project_id uuid NOT NULL REFERENCES projects ON DELETE CASCADE,
  -- Null: the whole project.
  application_id uuid REFERENCES pki_applications ON DELETE CASCADE,
  name text NOT NULL,
  description text NOT NULL,
  event_type text NOT NULL CHECK (event_type IN ('expiration', 'renewal', 'issuance', 'revocation', 'renewal-failed')),
  -- '30d'; empty for all types but expiration.
  alert_before text NOT NULL,
  filters jsonb NOT NULL,
  enabled boolean NOT NULL,
  is_daily boolean NOT NULL,
  digest text CHECK (digest IN ('hourly', 'daily')),
  -- When the whole due window was last looked at; null asks for that now. Between two such looks only what became
  -- due since alert_cursor is looked at.
  looked_at timestamptz,
  -- When waiting occasions were last made into a message.
  gathered_at timestamptz NOT NULL,
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL
);
-- Covering, so that "has any alert of this project changed?" never touches the table.
CREATE INDEX alerts_by_project ON alerts (project_id, created_at DESC, id DESC) INCLUDE (updated_at);
CREATE INDEX alerts_by_org ON alerts (org_id, project_id);
CREATE INDEX alerts_by_application ON alerts (application_id) WHERE application_id IS NOT NULL;
CREATE INDEX alerts_expiring ON alerts (id) WHERE event_type = 'expiration' AND enabled;

-- Settings are sealed: a webhook's secret, a chat's address and a pager's key are credentials.
CREATE TABLE alert_channels (
  id uuid PRIMARY KEY,
  alert_id uuid NOT NULL REFERENCES alerts ON DELETE CASCADE,
  position smallint NOT NULL,
  channel_type text NOT NULL,
  enabled boolean NOT NULL,
  destination text NOT NULL,
  data_key_id uuid NOT NULL,
  settings bytea NOT NULL,
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL
);
CREATE INDEX alert_channels_by_alert ON alert_channels (alert_id, position);

-- Up to here every certificate that became due has its occasions.
CREATE TABLE alert_cursor (
  only_one boolean PRIMARY KEY DEFAULT true CHECK (only_one),
  evaluated_until timestamptz NOT NULL
);

-- Facts about certificates that alerts still have to look at. The outbox forgets after two minutes and tells live
-- nodes only; this copy is made by the database in the very transaction that stated the fact, so that not even the
-- death of all nodes right after its commit loses one. Projects without alerts pay for one look into an index.
CREATE TABLE alert_inbox (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  name text NOT NULL,
  project_id uuid NOT NULL,
  certificate_id uuid NOT NULL,
  data jsonb NOT NULL
);

CREATE FUNCTION keep_certificate_fact() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO alert_inbox (name, project_id, certificate_id, data)
  SELECT NEW.name, (NEW.data ->> 'projectId')::uuid, (NEW.data ->> 'certificateId')::uuid, NEW.data
  WHERE EXISTS (SELECT 1 FROM alerts WHERE project_id = (NEW.data ->> 'projectId')::uuid);
  RETURN NULL;
END $$;
CREATE TRIGGER outbox_keep_certificate_facts AFTER INSERT ON outbox FOR EACH ROW
  WHEN (NEW.name IN ('certificate.issued', 'certificate.renewed', 'certificate.revoked', 'certificate.renewal-failed',
    'certificate.imported', 'certificate.released'))
  EXECUTE FUNCTION keep_certificate_fact();

-- One message of one alert: what it says is frozen here, so that a repeat says the same.
CREATE TABLE alert_messages (
  id uuid PRIMARY KEY,
  alert_id uuid NOT NULL REFERENCES alerts ON DELETE CASCADE,
  kind text NOT NULL,
  content jsonb NOT NULL,
  total integer NOT NULL,
  created_at timestamptz NOT NULL
);
CREATE INDEX alert_messages_by_alert ON alert_messages (alert_id, created_at DESC, id DESC);
CREATE INDEX alert_messages_by_age ON alert_messages (created_at);

-- A reason for one alert to speak of one certificate, once: '' for an expiry, 'day:2026-11-15' for a daily one,
-- 'fact:17' for a fact that waits for a digest. Without message it still waits to be told.
CREATE TABLE alert_occasions (
  certificate_id uuid NOT NULL,
  alert_id uuid NOT NULL REFERENCES alerts ON DELETE CASCADE,
  occasion text NOT NULL,
  not_after timestamptz NOT NULL,
  detail text,
  message_id uuid,
  created_at timestamptz NOT NULL,
  PRIMARY KEY (certificate_id, alert_id, occasion)
);
CREATE INDEX alert_occasions_by_alert ON alert_occasions (alert_id);
CREATE INDEX alert_occasions_waiting ON alert_occasions (alert_id, not_after) WHERE message_id IS NULL;
CREATE INDEX alert_occasions_by_end ON alert_occasions (not_after);

-- One message on its way through one channel. A claim moves next_at ahead, so a node that dies while sending leaves
-- the row to come due again by itself; `attempts` tells the claims apart.
CREATE TABLE alert_deliveries (
  id uuid PRIMARY KEY,
  alert_id uuid NOT NULL REFERENCES alerts ON DELETE CASCADE,
  message_id uuid NOT NULL REFERENCES alert_messages ON DELETE CASCADE,
  channel_id uuid NOT NULL,
  channel_type text NOT NULL,
  destination text NOT NULL,
  status text NOT NULL CHECK (status IN ('pending', 'delivered', 'failed')),
  attempts integer NOT NULL DEFAULT 0,
  next_at timestamptz NOT NULL,
  first_attempt_at timestamptz,
  last_attempt_at timestamptz,
  delivered_at timestamptz,
  last_error text,
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL
);
CREATE INDEX alert_deliveries_due ON alert_deliveries (destination, next_at) WHERE status = 'pending';
CREATE INDEX alert_deliveries_by_alert ON alert_deliveries (alert_id, created_at DESC, id DESC);
CREATE INDEX alert_deliveries_by_message ON alert_deliveries (message_id);
CREATE INDEX alert_deliveries_by_channel ON alert_deliveries (channel_id) WHERE status = 'pending';

-- Links to a calendar of expiries: whoever has the link may look, until it is revoked.
CREATE TABLE alert_calendars (
  id uuid PRIMARY KEY,
  project_id uuid NOT NULL REFERENCES projects ON DELETE CASCADE,
  created_at timestamptz NOT NULL,
  last_used_at timestamptz
);
CREATE INDEX alert_calendars_by_project ON alert_calendars (project_id, created_at);

-- The due set: live certificates without a successor, by the moment they end.
CREATE INDEX certificates_due ON certificates (project_id, not_after, id) WHERE phase = 0 AND renewed_by_id IS NULL;

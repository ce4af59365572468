-- How many alerts there are of each kind, and how many deliveries of each state, kept beside the rows: lists answer an
-- exact total, and counting a million alerts anew for each first page took a third of a second. Each connection adds to
-- a slot of its own, so that writers do not wait for each other; a total is the sum of the slots.

-- Per project, and once more per application for those that watch one.
CREATE TABLE alert_counts (
  scope_id uuid NOT NULL,
  event_type text NOT NULL,
  enabled boolean NOT NULL,
  slot smallint NOT NULL,
  count bigint NOT NULL,
  -- Grows with everything that comes, goes or changes: whoever remembers a project's alerts sees by the sum whether
  -- they are still the same.
  changes bigint NOT NULL,
  PRIMARY KEY (scope_id, event_type, enabled, slot)
) WITH (fillfactor = 50);

-- Alerts that go with their project or application are counted after that is gone (what a cascade sets off waits for
-- the end of the statement): there is nothing left to count for, and a number would stay behind.
CREATE FUNCTION count_alerts() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO alert_counts AS c (scope_id, event_type, enabled, slot, count, changes)
  SELECT s.id, a.event_type, a.enabled, pg_backend_pid() % 16, CASE TG_OP WHEN 'INSERT' THEN count(*) ELSE -count(*) END, count(*)
  FROM changed a CROSS JOIN LATERAL (VALUES (a.project_id), (a.application_id)) AS s(id)
  WHERE s.id IS NOT NULL AND (TG_OP = 'INSERT'
    OR EXISTS (SELECT 1 FROM projects p WHERE p.id = s.id) OR EXISTS (SELECT 1 FROM pki_applications p WHERE p.id = s.id))
  GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
  ON CONFLICT (scope_id, event_type, enabled, slot) DO UPDATE SET count = c.count + excluded.count, changes = c.changes + excluded.changes;
  RETURN NULL;
END $$;

CREATE FUNCTION recount_alert() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO alert_counts AS c (scope_id, event_type, enabled, slot, count, changes)
  SELECT s.id, v.event_type, v.enabled, pg_backend_pid() % 16, sum(v.difference), 1
  FROM (VALUES (OLD.event_type, OLD.enabled, -1), (NEW.event_type, NEW.enabled, 1)) AS v(event_type, enabled, difference)
  CROSS JOIN (VALUES (NEW.project_id), (NEW.application_id)) AS s(id)
  WHERE s.id IS NOT NULL GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
  ON CONFLICT (scope_id, event_type, enabled, slot) DO UPDATE SET count = c.count + excluded.count, changes = c.changes + 1;
  RETURN NULL;
END $$;

CREATE FUNCTION forget_alert_counts() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM alert_counts WHERE scope_id = OLD.id;
  RETURN NULL;
END $$;

CREATE TABLE alert_delivery_counts (
  alert_id uuid NOT NULL REFERENCES alerts ON DELETE CASCADE,
  status text NOT NULL,
  slot smallint NOT NULL,
  count bigint NOT NULL,
  PRIMARY KEY (alert_id, status, slot)
) WITH (fillfactor = 50);

CREATE FUNCTION count_deliveries() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  -- Deliveries that go with their alert need no count any more.
  INSERT INTO alert_delivery_counts AS c (alert_id, status, slot, count)
  SELECT d.alert_id, d.status, pg_backend_pid() % 16, CASE TG_OP WHEN 'INSERT' THEN count(*) ELSE -count(*) END
  FROM changed d WHERE EXISTS (SELECT 1 FROM alerts a WHERE a.id = d.alert_id) GROUP BY 1, 2 ORDER BY 1, 2
  ON CONFLICT (alert_id, status, slot) DO UPDATE SET count = c.count + excluded.count;
  RETURN NULL;
END $$;

CREATE FUNCTION recount_deliveries() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO alert_delivery_counts AS c (alert_id, status, slot, count)
  SELECT d.alert_id, d.status, pg_backend_pid() % 16, sum(d.difference)
  FROM (SELECT alert_id, status, -1 AS difference FROM before UNION ALL SELECT alert_id, status, 1 FROM after) d
  GROUP BY 1, 2 HAVING sum(d.difference) <> 0 ORDER BY 1, 2
  ON CONFLICT (alert_id, status, slot) DO UPDATE SET count = c.count + excluded.count;
  RETURN NULL;
END $$;

-- Nobody may add, change or remove between the count and the first trigger.
LOCK TABLE alerts, alert_deliveries IN SHARE ROW EXCLUSIVE MODE;
INSERT INTO alert_counts (scope_id, event_type, enabled, slot, count, changes)
  SELECT s.id, a.event_type, a.enabled, 0, count(*), 1
  FROM alerts a CROSS JOIN LATERAL (VALUES (a.project_id), (a.application_id)) AS s(id) WHERE s.id IS NOT NULL GROUP BY 1, 2, 3;
INSERT INTO alert_delivery_counts (alert_id, status, slot, count)
  SELECT alert_id, status, 0, count(*) FROM alert_deliveries GROUP BY 1, 2;

CREATE TRIGGER alerts_counted_in AFTER INSERT ON alerts
  REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION count_alerts();
CREATE TRIGGER alerts_counted_out AFTER DELETE ON alerts
  REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION count_alerts();
-- What a caller changes sets updated_at; the house's own notes (looked_at, gathered_at) do not and cost nothing here.
CREATE TRIGGER alerts_recounted AFTER UPDATE OF updated_at ON alerts FOR EACH ROW EXECUTE FUNCTION recount_alert();
CREATE TRIGGER alert_deliveries_counted_in AFTER INSERT ON alert_deliveries
  REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION count_deliveries();
CREATE TRIGGER alert_deliveries_counted_out AFTER DELETE ON alert_deliveries
  REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION count_deliveries();
CREATE TRIGGER alert_deliveries_recounted AFTER UPDATE ON alert_deliveries
  REFERENCING OLD TABLE AS before NEW TABLE AS after FOR EACH STATEMENT EXECUTE FUNCTION recount_deliveries();

CREATE TRIGGER alert_counts_forgotten AFTER DELETE ON projects FOR EACH ROW EXECUTE FUNCTION forget_alert_counts();
CREATE TRIGGER alert_counts_forgotten AFTER DELETE ON pki_applications FOR EACH ROW EXECUTE FUNCTION forget_alert_counts();

-- The alerts of an application in the order of their list; does what the index by application alone did, too.
DROP INDEX alerts_by_application;
CREATE INDEX alerts_by_application ON alerts (application_id, created_at DESC, id DESC) WHERE application_id IS NOT NULL;
-- Few among many that were delivered.
CREATE INDEX alert_deliveries_unfinished ON alert_deliveries (alert_id, status, created_at DESC, id DESC) WHERE status <> 'delivered';

-- Facts are taken by one node at a time, so nothing but their order has to be kept; the project's alerts are looked for
-- once, and only in the index.
CREATE OR REPLACE FUNCTION keep_certificate_fact() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  project uuid := NEW.data ->> 'projectId';
BEGIN
  IF EXISTS (SELECT 1 FROM alerts WHERE project_id = project) THEN
    INSERT INTO alert_inbox (name, project_id, certificate_id, data) VALUES (NEW.name, project, (NEW.data ->> 'certificateId')::uuid, NEW.data);
  END IF;
  RETURN NULL;
END $$;

-- How many identities an organisation or a project has, and how many are members of a project. Lists answer an exact
-- total, and counting a million rows anew for each first page took 150 ms. Kept is how many there are from before a
-- moment; what came since is counted anew. Creating an identity pays nothing for it: only who comes late (a row that
-- says it is older than a minute) or leaves has to correct what is kept. See identities/counts/store.ts.
CREATE TABLE identity_counts (
  place_id uuid NOT NULL,
  kind text NOT NULL CHECK (kind IN ('identity', 'membership')),
  until timestamptz NOT NULL,
  count bigint NOT NULL,
  PRIMARY KEY (place_id, kind)
);

-- Who corrects or moves what is kept of a place holds this until its end: otherwise a row that is not committed yet
-- would be missed by one and left to the other by both.
CREATE FUNCTION hold_identity_count(place uuid) RETURNS void LANGUAGE sql AS
  $$ SELECT pg_advisory_xact_lock(1768187246, hashtext(place::text)) $$;

CREATE FUNCTION count_late_identity() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE place uuid := coalesce(NEW.project_id, NEW.org_id);
BEGIN
  PERFORM hold_identity_count(place);
  UPDATE identity_counts SET count = count + 1 WHERE place_id = place AND kind = 'identity' AND until > NEW.created_at;
  RETURN NULL;
END $$;

CREATE FUNCTION count_late_membership() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM hold_identity_count(NEW.project_id);
  UPDATE identity_counts SET count = count + 1 WHERE place_id = NEW.project_id AND kind = 'membership' AND until > NEW.created_at;
  RETURN NULL;
END $$;

CREATE FUNCTION uncount_identities() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM hold_identity_count(place) FROM (SELECT DISTINCT coalesce(project_id, org_id) AS place FROM changed ORDER BY 1) places;
  UPDATE identity_counts c SET count = c.count - gone.count FROM (
    SELECT k.place_id, count(*) AS count FROM changed JOIN identity_counts k
      ON k.place_id = coalesce(changed.project_id, changed.org_id) AND k.kind = 'identity' AND k.until > changed.created_at
    GROUP BY 1) gone
  WHERE c.place_id = gone.place_id AND c.kind = 'identity';
  RETURN NULL;
END $$;

CREATE FUNCTION uncount_memberships() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM hold_identity_count(place) FROM (
    SELECT DISTINCT project_id AS place FROM changed WHERE project_id IS NOT NULL AND identity_id IS NOT NULL ORDER BY 1) places;
  UPDATE identity_counts c SET count = c.count - gone.count FROM (
    SELECT k.place_id, count(*) AS count FROM changed JOIN identity_counts k
      ON k.place_id = changed.project_id AND k.kind = 'membership' AND k.until > changed.created_at
    WHERE changed.identity_id IS NOT NULL GROUP BY 1) gone
  WHERE c.place_id = gone.place_id AND c.kind = 'membership';
  RETURN NULL;
END $$;

CREATE FUNCTION forget_identity_counts() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM identity_counts WHERE place_id = OLD.id;
  RETURN NULL;
END $$;

CREATE TRIGGER identities_counted_late AFTER INSERT ON identities FOR EACH ROW
  WHEN (NEW.created_at < now() - interval '60 seconds') EXECUTE FUNCTION count_late_identity();
CREATE TRIGGER memberships_counted_late AFTER INSERT ON memberships FOR EACH ROW
  WHEN (NEW.project_id IS NOT NULL AND NEW.identity_id IS NOT NULL AND NEW.created_at < now() - interval '60 seconds')
  EXECUTE FUNCTION count_late_membership();
CREATE TRIGGER identities_uncounted AFTER DELETE ON identities
  REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION uncount_identities();
CREATE TRIGGER memberships_uncounted AFTER DELETE ON memberships
  REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION uncount_memberships();
CREATE TRIGGER identity_counts_forgotten AFTER DELETE ON projects
  FOR EACH ROW EXECUTE FUNCTION forget_identity_counts();
CREATE TRIGGER identity_counts_forgotten AFTER DELETE ON organizations
  FOR EACH ROW EXECUTE FUNCTION forget_identity_counts();

-- The members of a project in the order of its list, and whether each is an identity, so that counting those since a
-- moment touches the index alone; does what the index by project did, too.
CREATE INDEX memberships_of_project ON memberships (project_id, created_at, id) INCLUDE (identity_id) WHERE project_id IS NOT NULL;
DROP INDEX memberships_by_project;

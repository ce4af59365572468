-- Secrets: folders, secrets with their whole history, imports, references, tags.
--
-- Locks. Whoever writes secrets holds the project's advisory lock shared; whoever changes the tree above them
-- (folders renamed, moved, deleted; environments and projects deleted) holds it exclusively. So a path that was
-- authorised is the path that is written, and rows need no foreign key to a folder that thousands of writers share
-- (each would leave a row lock on it). The triggers at the end clear out what a foreign key would have.

CREATE FUNCTION project_lock_key(project uuid) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN hashtextextended(project::text, 3);

-- One number per project that grows with every change of what its secrets answer; the ETag of reads is made of it.
-- In slots, so that writers of one project do not queue for one row: the sum is the number.
CREATE TABLE project_changes (
  project_id uuid NOT NULL,
  slot smallint NOT NULL,
  counter bigint NOT NULL,
  PRIMARY KEY (project_id, slot)
) WITH (fillfactor = 30);

CREATE TABLE folders (
  id uuid PRIMARY KEY,
  project_id uuid NOT NULL REFERENCES projects ON DELETE CASCADE,
  environment_id uuid NOT NULL REFERENCES environments ON DELETE CASCADE,
  -- Null for the root of an environment, whose name is empty.
  parent_id uuid REFERENCES folders ON DELETE CASCADE,
  name text NOT NULL,
  -- The canonical path, kept in step with the tree: looking up is one probe, not a walk.
  path text NOT NULL CHECK (length(path) <= 512),
  description text,
  version integer NOT NULL DEFAULT 1,
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL,
  CONSTRAINT folders_path_unique UNIQUE (environment_id, path)
);
CREATE INDEX folders_by_project ON folders (project_id);
CREATE INDEX folders_by_parent ON folders (parent_id);
-- Path prefixes, whatever the collation.
CREATE INDEX folders_by_prefix ON folders (environment_id, path text_pattern_ops);

-- Where each folder was when: a rollback needs the tree as it was.
CREATE TABLE folder_history (
  folder_id uuid NOT NULL,
  project_id uuid NOT NULL REFERENCES projects ON DELETE CASCADE,
  -- No foreign key: the history outlives the environment, so that a project's end finds all of it.
  environment_id uuid NOT NULL,
  path text NOT NULL,
  from_at timestamptz NOT NULL,
  to_at timestamptz
);
CREATE INDEX folder_history_by_folder ON folder_history (folder_id);
CREATE INDEX folder_history_by_path ON folder_history (environment_id, path text_pattern_ops);
CREATE INDEX folder_history_by_project ON folder_history (project_id);

-- The newest version of each secret, ready to be read without a look at its history.
CREATE TABLE secrets (
  id uuid PRIMARY KEY,
  project_id uuid NOT NULL,
  folder_id uuid NOT NULL,
  key text NOT NULL,
  -- Null = shared; else the user or identity whose personal override this is.
  owner_id uuid,
  version integer NOT NULL,
  -- The data key that value, comment and encrypted metadata are encrypted with.
  key_id uuid NOT NULL,
  value bytea NOT NULL,
  comment bytea,
  -- [{key, value, isEncrypted}]; an encrypted value is base64 of its ciphertext. Null = none.
  metadata jsonb,
  tag_ids uuid[] NOT NULL DEFAULT '{}',
  skip_multiline boolean,
  reminder_note text,
  reminder_days integer,
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL,
  -- Checked at the end of a statement: two secrets may trade names.
  CONSTRAINT secrets_key_unique UNIQUE NULLS NOT DISTINCT (folder_id, key, owner_id) DEFERRABLE INITIALLY IMMEDIATE
) WITH (fillfactor = 85);
CREATE INDEX secrets_by_tag ON secrets USING gin (tag_ids) WHERE tag_ids <> '{}';

-- Every state a secret ever had, in order and without gaps; never updated except to change the data key. A deletion
-- is a version too, without a value.
CREATE TABLE secret_versions (
  secret_id uuid NOT NULL,
  version integer NOT NULL,
  project_id uuid NOT NULL,
  folder_id uuid NOT NULL,
  key text NOT NULL,
  owner_id uuid,
  change text NOT NULL CHECK (change IN ('create', 'update', 'delete')),
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
  created_at timestamptz NOT NULL,
  PRIMARY KEY (secret_id, version)
);
CREATE INDEX secret_versions_by_folder ON secret_versions (folder_id, created_at);

-- What the shared secrets' values mention: ${KEY} has no environment and means the secret's own folder.
CREATE TABLE secret_references (
  secret_id uuid NOT NULL REFERENCES secrets ON DELETE CASCADE,
  project_id uuid NOT NULL,
  folder_id uuid NOT NULL,
  secret_key text NOT NULL,
  environment text,
  path text,
  key text NOT NULL
);
CREATE INDEX secret_references_by_secret ON secret_references (secret_id);
CREATE INDEX secret_references_by_target ON secret_references (project_id, environment, path, key) WHERE environment IS NOT NULL;
CREATE INDEX secret_references_local ON secret_references (folder_id, key) WHERE environment IS NULL;

CREATE TABLE secret_imports (
  id uuid PRIMARY KEY,
  project_id uuid NOT NULL REFERENCES projects ON DELETE CASCADE,
  folder_id uuid NOT NULL REFERENCES folders ON DELETE CASCADE,
  source_project_id uuid NOT NULL REFERENCES projects ON DELETE CASCADE,
  source_environment_id uuid NOT NULL REFERENCES environments ON DELETE CASCADE,
  source_path text NOT NULL,
  position integer NOT NULL,
  is_replication boolean NOT NULL DEFAULT false,
  version integer NOT NULL DEFAULT 1,
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL,
  CONSTRAINT secret_imports_source_unique UNIQUE (folder_id, source_environment_id, source_path)
);
CREATE INDEX secret_imports_by_source ON secret_imports (source_environment_id, source_path);
CREATE INDEX secret_imports_by_source_project ON secret_imports (source_project_id);
CREATE INDEX secret_imports_across ON secret_imports (project_id) WHERE source_project_id <> project_id;

CREATE TABLE tags (
  id uuid PRIMARY KEY,
  project_id uuid NOT NULL REFERENCES projects ON DELETE CASCADE,
  slug text NOT NULL,
  name text NOT NULL,
  color text NOT NULL DEFAULT '',
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL,
  CONSTRAINT tags_slug_unique UNIQUE (project_id, slug)
);

-- A change of a project's data key under way, and those that are over.
CREATE TABLE key_rotations (
  id uuid PRIMARY KEY,
  project_id uuid NOT NULL REFERENCES projects ON DELETE CASCADE,
  old_key_id uuid NOT NULL,
  started_at timestamptz NOT NULL,
  finished_at timestamptz
);
CREATE INDEX key_rotations_by_project ON key_rotations (project_id, started_at DESC);
CREATE INDEX key_rotations_running ON key_rotations (started_at) WHERE finished_at IS NULL;

-- Every environment has a root folder from its first instant; a change of an environment's slug changes what
-- references mean.
CREATE FUNCTION environment_appeared() RETURNS trigger LANGUAGE plpgsql AS $$
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
END $$;
CREATE TRIGGER environment_appeared AFTER INSERT ON environments FOR EACH ROW EXECUTE FUNCTION environment_appeared();

CREATE FUNCTION environment_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  UPDATE project_changes SET counter = counter + 1 WHERE project_id = NEW.project_id AND slot = 0;
  RETURN NULL;
END $$;
CREATE TRIGGER environment_changed AFTER UPDATE OF name, slug ON environments FOR EACH ROW EXECUTE FUNCTION environment_changed();

CREATE FUNCTION environment_goes() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_advisory_xact_lock(project_lock_key(OLD.project_id));
  DELETE FROM secrets WHERE folder_id IN (SELECT id FROM folders WHERE environment_id = OLD.id);
  UPDATE project_changes SET counter = counter + 1 WHERE project_id = OLD.project_id AND slot = 0;
  RETURN OLD;
END $$;
CREATE TRIGGER environment_goes BEFORE DELETE ON environments FOR EACH ROW EXECUTE FUNCTION environment_goes();

-- The history goes with its project: with the data key gone nobody could read it anyway.
CREATE FUNCTION project_goes() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_advisory_xact_lock(project_lock_key(OLD.id));
  DELETE FROM secrets WHERE folder_id IN (SELECT id FROM folders WHERE project_id = OLD.id);
  DELETE FROM project_changes WHERE project_id = OLD.id;
  DELETE FROM secret_versions WHERE folder_id IN (SELECT DISTINCT folder_id FROM folder_history WHERE project_id = OLD.id);
  RETURN OLD;
END $$;
CREATE TRIGGER project_goes BEFORE DELETE ON projects FOR EACH ROW EXECUTE FUNCTION project_goes();

INSERT INTO folders (id, project_id, environment_id, name, path, created_at, updated_at)
  SELECT gen_random_uuid(), project_id, id, '', '/', created_at, created_at FROM environments;
INSERT INTO folder_history (folder_id, project_id, environment_id, path, from_at)
  SELECT id, project_id, environment_id, path, created_at FROM folders;
INSERT INTO project_changes (project_id, slot, counter) SELECT id, 0, 1 FROM projects;

-- How much history a project keeps, and history that came along in a file.

-- Until now the limit was answered but never applied, and ten stood there for everybody. From now on a limit is a
-- choice: null keeps everything, and nobody loses history to a number that nobody chose.
ALTER TABLE projects ALTER COLUMN version_limit DROP NOT NULL;
ALTER TABLE projects ALTER COLUMN version_limit DROP DEFAULT;
UPDATE projects SET version_limit = NULL WHERE version_limit = 10;
CREATE INDEX projects_with_version_limit ON projects (id) WHERE version_limit IS NOT NULL;

-- How far the old versions of a project were cleared away: under which limit, at which change of the project, and up
-- to which moment. What has not changed since need not be looked at again.
CREATE TABLE version_sweeps (
  project_id uuid PRIMARY KEY REFERENCES projects ON DELETE CASCADE,
  version_limit integer NOT NULL,
  stamp bigint NOT NULL,
  swept_to timestamptz NOT NULL
);

-- From when on a folder's history is whole. A rollback to an earlier moment would have to guess.
CREATE TABLE history_horizons (
  folder_id uuid PRIMARY KEY,
  project_id uuid NOT NULL REFERENCES projects ON DELETE CASCADE,
  whole_from timestamptz NOT NULL
);
CREATE INDEX history_horizons_by_project ON history_horizons (project_id);

-- A version that came in a project's file was written here when it was imported (created_at, which rollbacks go by)
-- and there when it says so.
ALTER TABLE secret_versions ADD COLUMN original_at timestamptz;

-- The list at a million certificates, second part; see docs/decisions/0007.

-- Runs of 32 counted blocks, added up once more: a deep page sums some chapters and the blocks of one of them.
CREATE TABLE certificate_chapters (
  profile_id uuid NOT NULL,
  until_at timestamptz NOT NULL,
  until_id uuid NOT NULL,
  count integer NOT NULL,
  PRIMARY KEY (profile_id, until_at, until_id)
);

-- With the end of validity in it, a deep page of one status is counted in the index alone.
DROP INDEX certificates_by_phase;
CREATE INDEX certificates_by_phase ON certificates (profile_id, phase, created_at DESC, id DESC) INCLUDE (not_after);

-- Which letters, and which two in a row, the names of a block hold: a search for one or two letters, which the trigram
-- index does not know, passes over blocks that cannot hold them. Filled in by the job that makes blocks.
ALTER TABLE certificate_blocks ADD COLUMN letters bytea;
CREATE INDEX certificate_blocks_without_letters ON certificate_blocks (profile_id) WHERE letters IS NULL;

-- A list names every address under which certificates of its key were told to look for it: clients refuse one that
-- does not name theirs. So what a list has named once, its successors name too.
ALTER TABLE crls ADD COLUMN urls text[] NOT NULL DEFAULT '{}';

-- A key is blocked by the organisation that has revoked it as compromised, and for that organisation. The proof that
-- a request's sender holds its key can be copied with the request: with one list for all, any tenant could so block
-- another's keys. Rows from before have no organisation and go on to count for everybody.
ALTER TABLE blocked_keys ADD COLUMN org_id uuid;
ALTER TABLE blocked_keys DROP CONSTRAINT blocked_keys_pkey;
CREATE UNIQUE INDEX blocked_keys_unique ON blocked_keys (key_fingerprint, org_id) NULLS NOT DISTINCT;

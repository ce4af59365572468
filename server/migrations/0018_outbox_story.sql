-- How many facts were swept, and a sum over the times at which they were stated (in microseconds, modulo 2^52): with
-- the rows that are left, a server can say whether it tells the story that a node has heard, however long ago.
ALTER TABLE outbox_swept
  ADD COLUMN count bigint NOT NULL DEFAULT 0,
  ADD COLUMN sum bigint NOT NULL DEFAULT 0;

-- What a decision may have to look at because of a role: the sum over all roles of a holder is bounded.
ALTER TABLE roles
  ADD COLUMN rule_count integer NOT NULL DEFAULT 0,
  ADD COLUMN pattern_characters integer NOT NULL DEFAULT 0;
-- Of roles that are there already every pattern counts, also one that costs nothing: until they are written again.
UPDATE roles SET rule_count = jsonb_array_length(rules), pattern_characters = coalesce(
  (SELECT sum(length(pattern #>> '{}')) FROM jsonb_path_query(rules, '$.**."$glob"') AS pattern), 0);

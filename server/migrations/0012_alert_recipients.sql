-- A mail that some of its recipients took and others did not yet: the places, in the channel's list, of those it is still
-- for. Null: all of them. Places instead of addresses, which are kept sealed in the channel's settings.
ALTER TABLE alert_deliveries ADD COLUMN left_to smallint[];

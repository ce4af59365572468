-- Alerts with long filters are few: all filters of a project are compiled together.
CREATE INDEX alerts_large ON alerts (project_id) WHERE octet_length(filters::text) > 4096;

-- Facts are taken by turns, project by project: who has a million of them waits for their own turn only.
CREATE INDEX alert_inbox_by_project ON alert_inbox (project_id, id);

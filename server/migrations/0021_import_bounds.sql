-- How many imports a project has is asked when one is added.
CREATE INDEX secret_imports_by_project ON secret_imports (project_id);

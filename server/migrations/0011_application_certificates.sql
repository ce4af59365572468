-- How many certificates an application has. Most certificates belong to none, so they are not in the index.
CREATE INDEX certificates_by_application ON certificates (application_id) WHERE application_id IS NOT NULL;

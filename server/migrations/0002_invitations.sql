-- Who was asked into an organisation and has not answered yet. Taking an invitation deletes its row, so that it
-- can be taken once; what became of it is in the audit log.
CREATE TABLE invitations (
  id uuid PRIMARY KEY,
  org_id uuid NOT NULL REFERENCES organizations ON DELETE CASCADE,
  email text NOT NULL,
  first_name text NOT NULL,
  last_name text NOT NULL,
  -- Roles are kept as they were asked for and granted at acceptance, by the inviter's rights of that moment.
  role text NOT NULL,
  projects jsonb NOT NULL,
  -- No foreign keys: an inviter who is gone has no rights left, and that ends the invitation.
  inviter_kind text NOT NULL CHECK (inviter_kind IN ('user', 'identity')),
  inviter_id uuid NOT NULL,
  -- HMAC-SHA-256 under an instance key: 256 random bits need no slow hash.
  digest bytea NOT NULL UNIQUE,
  expires_at timestamptz NOT NULL,
  created_at timestamptz NOT NULL,
  -- Inviting again replaces: an older token must not grant what was corrected since.
  CONSTRAINT invitations_email_unique UNIQUE (org_id, email)
);
CREATE INDEX invitations_by_expiry ON invitations (expires_at);

-- From where people were let in of late: whoever comes from there again waits behind no crowd of strangers. A few of each.
CREATE TABLE known_networks (
  user_id uuid NOT NULL REFERENCES users ON DELETE CASCADE,
  -- An IPv4 address, or the /64 of an IPv6 one.
  network text NOT NULL,
  let_in_at timestamptz NOT NULL,
  PRIMARY KEY (user_id, network)
);

-- How many event streams each node holds open, per project and per actor, so that limits hold for the whole cluster.
-- Unlogged: after a crash of the database the nodes write their numbers again.
CREATE UNLOGGED TABLE stream_nodes (
  node_id uuid PRIMARY KEY,
  -- A node that has not shown itself for some seconds is dead and its numbers do not count.
  seen_at timestamptz NOT NULL
);

CREATE UNLOGGED TABLE stream_counts (
  -- A project or an actor.
  subject_id uuid NOT NULL,
  node_id uuid NOT NULL,
  open integer NOT NULL,
  PRIMARY KEY (subject_id, node_id)
) WITH (fillfactor = 50);

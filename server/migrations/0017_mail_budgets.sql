-- How many mails went out in an hour, by whom they were sent for and to whom. Unlogged: a crash may forget them.
CREATE UNLOGGED TABLE mail_budgets (
  key text NOT NULL,
  window_start timestamptz NOT NULL,
  count integer NOT NULL,
  PRIMARY KEY (key, window_start)
);

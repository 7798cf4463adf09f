"""Named expressions of parameters and data columns. May import `transforms` and `compiled`."""

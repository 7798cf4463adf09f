"""Maps from bounded parameters to unconstrained coordinates. May import `compiled`."""

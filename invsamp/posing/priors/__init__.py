"""Joint priors, hierarchies, priors from tables. May import `distributions` and below."""

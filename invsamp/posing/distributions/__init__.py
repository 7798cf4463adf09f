"""Univariate and multivariate distributions. May import `expressions`, `transforms` and `compiled`."""

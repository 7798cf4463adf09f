"""Noise models: the log-likelihood of data given outputs. May import `priors` and below."""

"""Warm-up: descents, metric, step size, temperature schedule. May import `exchange` and `rungs`."""

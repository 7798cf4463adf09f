"""Swap attempts between rungs, their acceptance, and the replicas' round trips. May import `rungs`."""

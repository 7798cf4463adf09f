"""Runs without a chosen sampler: phases, kernel, budget. May import `ensemble` and below."""

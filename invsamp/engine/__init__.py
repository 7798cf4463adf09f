"""A run at work: rungs, warm-up, draws, and the state that they continue from."""

"""A run at work: replicas, warm-up, draws, and the state that they go on from."""

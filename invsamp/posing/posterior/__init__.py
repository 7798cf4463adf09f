"""Posteriors and targets: what a problem offers to the sampler. May import every other package of posing."""

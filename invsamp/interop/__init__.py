"""Models of probabilistic programming languages as problems to sample: `from_pymc`, `from_bridgestan`."""

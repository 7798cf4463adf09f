"""Runs whose warm-up trains a correction of a coarse model. May import all of the engine."""

"""Compiled loops over densities and likelihoods. Imports no other package of posing."""

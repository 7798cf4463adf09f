"""Posing a problem: priors, noise, forward models, posteriors."""

"""Variances of noisy energies and gradients: models, pilots, budgets."""

"""Corrections of coarse models, learned from pairs of coarse and fine solves (`invsamp.correct`).

`polynomial_model` and `gaussian_process_model` make a cheap fidelity from solves of an expensive one.
"""

from invsamp.surrogates.residuals import gaussian_process_model, polynomial_model

__all__ = ["gaussian_process_model", "polynomial_model"]

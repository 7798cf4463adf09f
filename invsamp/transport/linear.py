r"""The linear coordinates in which draws and gradients spread alike.

With A the covariance of draws and B that of their gradients, both are those of one metric where a distribution is
Gaussian, :math:`A = B^{-1}`; elsewhere their geometric mean

.. math:: A \mathbin{\#} B^{-1} = A^{1/2} (A^{-1/2} B^{-1} A^{-1/2})^{1/2} A^{1/2}

minimizes the Fisher divergence (Seyboldt, Carlson and Carpenter 2026, "Preconditioning Hamiltonian Monte Carlo by
minimizing Fisher divergence"). Both are shrunk to a multiple of the identity (Ledoit and Wolf 2004, "A well-conditioned
estimator for large-dimensional covariance matrices", section 3.3), so that few draws change little.
"""

from __future__ import annotations

import numpy as np

from invsamp.protocols import Array


def matched_factor(draws: Array | None, gradients: Array | None) -> Array:
    """F (d, d) with F F^T the geometric mean of a covariance of draws and the inverse of one of gradients.

    Both are centered (steps, chains, d); without one of them the other's alone decides.
    """
    if draws is None:
        assert gradients is not None
        values, vectors = np.linalg.eigh(_shrunk(gradients))
        return np.asarray(vectors / np.sqrt(values))
    root = np.asarray(np.linalg.cholesky(_shrunk(draws)))
    if gradients is None:
        return root
    values, vectors = np.linalg.eigh(root.T @ _shrunk(gradients) @ root)
    return np.asarray(root @ (vectors / np.maximum(values, 1e-300) ** 0.25))


def _shrunk(values: Array) -> Array:
    """Second moments (d, d) of values (steps, chains, d), shrunk to a multiple of the identity.

    Successive draws count for as many independent ones as their first autocorrelation says.
    """
    d = values.shape[-1]
    together, steps = float((values[1:] * values[:-1]).sum()), float((values[1:] * values[1:]).sum())
    correlation = min(max(together / steps, 0.0), 0.999) if steps > 0.0 else 0.0
    values = values.reshape(-1, d)
    n = len(values)
    moments = values.T @ values / n
    mean = float(np.trace(moments)) / d
    if not mean > 0.0:
        return np.eye(d)
    far = float(np.square(moments - mean * np.eye(d)).sum())
    noise = float(np.square(np.square(values).sum(axis=1)).mean() - np.square(moments).sum())
    noise *= (1.0 + correlation) / ((1.0 - correlation) * n)
    share = min(max(noise, 0.0) / far, 1.0) if far > 0.0 else 1.0
    # never singular
    share = max(share, 1e-6)
    return np.asarray(share * mean * np.eye(d) + (1.0 - share) * moments)

"""An inverse problem of three fidelities, cheap and not quite linear, that cannot be solved everywhere."""

from __future__ import annotations

import numpy as np

import invsamp as iv

SLOPES = np.linspace(0.5, 1.5, 12)
#: Of a solve, by how much the line is tilted.
COSTS = {0.3: 1.0, 0.1: 3.0, 0.0: 10.0}


def model(tilt):
    """Observations of a bent line; it cannot be solved in a corner of the box."""

    def predict(theta):
        x, y = theta[:, :1], theta[:, 1:]
        return np.where((x > 0.9) & (y > 0.9), np.nan, SLOPES * (x**2 + tilt * x) + y)

    def jacobian(theta):
        x = theta[:, :1]
        return np.stack([SLOPES * (2.0 * x + tilt), np.ones((len(theta), 12))], axis=2)

    made = iv.with_jacobian(predict, jacobian)
    object.__setattr__(made, "cost", COSTS.get(tilt, 1.0))  # which a run would measure, each time another
    return made


def posterior(**models):
    """Of the line's two parameters, in a box."""
    prior = iv.Prior(x=iv.Uniform(-1.0, 1.0), y=iv.Uniform(-1.0, 1.0))
    return iv.Posterior(prior, models, 0.3 * SLOPES + 0.2, iv.GaussianNoise(1.0))


POSTERIOR = posterior(coarse=model(0.3), medium=model(0.1), fine=model(0.0))

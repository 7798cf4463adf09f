"""Hierarchies with exact moments: estimates of groups whose mean and spread are unknown.

Given the spread tau they are Gaussian; log(tau) is integrated by quadrature.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from _battery_case import Case, Linear

import invsamp as iv
from invsamp.protocols import Array

#: Data in each of 18 groups.
UNEVEN = np.array([1, 1, 1, 2, 2, 3, 3, 5, 8, 10, 20, 50, 100, 200, 400, 1000, 1000, 2000])


def groups(name: str, spread: float, errors: Array, width: float) -> Case:
    """y_j ~ N(theta_j, errors_j), theta_j ~ N(mu, tau), mu ~ N(0, 5), tau ~ half-Cauchy(width)."""
    rng, d = np.random.default_rng(3), len(errors)
    data = 1.0 + spread * rng.standard_normal(d) + errors * rng.standard_normal(d)
    prior = iv.Prior(mu=iv.Normal(0, 5), tau=iv.HalfCauchy(width), theta=iv.Normal("mu", "tau", shape=d))
    posterior = iv.Posterior(prior, Linear(np.eye(d), ("theta",)), data, iv.GaussianNoise(errors))
    log_tau = np.linspace(-14.0, 8.0, 8001)
    tau = np.exp(log_tau)[:, None]
    total = tau**2 + errors**2
    precision = 1.0 / 25.0 + (1.0 / total).sum(axis=1)
    mu = (data / total).sum(axis=1) / precision
    log_weight = -0.5 * (np.log(total) + data**2 / total).sum(axis=1) - 0.5 * np.log(precision)
    log_weight += 0.5 * mu**2 * precision - np.log1p((tau[:, 0] / width) ** 2) + log_tau
    weight = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()
    share = tau**2 / total
    theta = share * data + (1.0 - share) * mu[:, None]
    means = np.column_stack([mu, tau, theta])
    given = [1.0 / precision, 0.0 * mu, share * errors**2 + (1.0 - share) ** 2 / precision[:, None]]
    mean = weight @ means
    sd = np.sqrt(weight @ (np.column_stack(given) + np.square(means)) - mean**2)
    known = {label: (float(m), float(s), 0.0) for label, m, s in zip(posterior.labels, mean, sd, strict=True)}
    return Case(name, posterior, known)


#: Settings by name: the spread of the groups, the errors of their estimates, the width of the prior of tau.
SETTINGS: dict[str, tuple[float, Array, float]] = {
    "groups_strong": (1.0, np.full(6, 0.05), 1.0),
    "groups_even": (0.5, np.full(20, 40.0**-0.5), 2.0),
    "groups_uneven": (0.5, UNEVEN**-0.5, 2.0),
    "groups_alike": (0.05, np.full(20, 40.0**-0.5), 2.0),
}
BUILDERS: dict[str, Callable[[], Case]] = {
    name: partial(groups, name, *settings) for name, settings in SETTINGS.items()
}

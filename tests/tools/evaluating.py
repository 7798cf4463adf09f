"""A posterior of two fidelities, samplers and an evaluator: runs that others evaluate."""

from __future__ import annotations

import numpy as np

import invsamp as iv
from invsamp.evaluate import executors, solve

executors.WORTH = -1.0  # cheap as the models are, they are sent

LENGTH = {"draws": 15, "warmup": 120, "chains": 3, "seed": 7, "progress": False}
SAMPLERS = {
    "hmc": iv.hmc(),
    "ladder": iv.samplers.parallel_tempering(
        (1.0, 2.0, 4.0), fidelities=["fine", "coarse", "coarse"], swap_fraction=0.5
    ),
    "minibatches": iv.resgld(
        (1.0, 2.0), 0.01, estimator=iv.estimators.minibatch(3), fidelities=["fine"] * 2, swap_fraction=0.5
    ),
}


def line(theta):
    return theta[:, :1] + theta[:, 1:] * np.linspace(0.0, 1.0, 5)


def bent(theta):
    return line(theta) + 0.1 * theta[:, :1] ** 2


POSTERIOR = iv.Posterior(
    prior=iv.Prior(a=iv.Normal(0, 1), b=iv.Normal(0, 1)),
    forward={"coarse": iv.finite_differences(line), "fine": iv.finite_differences(bent)},
    data=[0.1, 0.4, 0.6, 0.7, 1.1],
    noise=iv.GaussianNoise(0.2),
)


class Own:
    """Twenty lines of a user's: everything here and now."""

    closed = False

    def open(self, potentials):
        self.potentials, self.rounds = potentials, []

    def evaluate(self, requests):
        self.rounds.append(len(requests))
        return [solve(self.potentials[request.fidelity], request) for request in requests]

    def close(self):
        self.closed = True

    def __repr__(self):
        return "the queue"


def same(one, other):
    """Two runs have the same draws and counts."""
    np.testing.assert_array_equal(one.theta, other.theta)
    for name in ("evaluations", "failed_solves", "swap_accepts", "swap_solves"):
        assert one.report[name] == other.report[name], name

"""The check at the start of runs raises no false alarm on any ready problem, and reports gradients that are off."""

from __future__ import annotations

import numpy as np
import pytest
from parts import cases
from ready_problems import PROBLEMS

from invsamp.engine.rungs.gradient_check import check_one
from invsamp.problems import conductivity, constrained_mixtures, poisson64

MORE = {
    "conductivity.posterior": lambda: conductivity.posterior({"coarse": 8, "fine": 16}),
    "poisson64.posterior": lambda: poisson64.posterior((8, 16)),
    "constrained_mixtures.flower": lambda: constrained_mixtures.target("flower"),
    "constrained_mixtures.heart": lambda: constrained_mixtures.target("heart"),
}
#: For chaotic systems far from the data, and loose tolerances, the check is not informative.
ROUGH = {"robertson.reactions", "lorenz.multiple_shooting", "lotka_volterra.multiple_shooting"}


class TooLong:
    """A potential whose gradient is too long by half."""

    def __init__(self, potential):
        self._potential, self.dimension, self.energy = potential, potential.dimension, potential.energy

    def energy_and_gradient(self, position):
        energy, gradient = self._potential.energy_and_gradient(position)
        return energy, 1.5 * gradient


@pytest.mark.parametrize("name", cases(names := [*PROBLEMS, *MORE], {*names} - {"lorenz.multiple_shooting"}))
def test_right_gradients_pass_and_wrong_ones_are_reported(name):
    made = (PROBLEMS | MORE)[name]()
    problem, seeds = getattr(made, "posterior", made), range(2 if name in ROUGH else 20)
    for fidelity in problem.fidelities:
        potential, reported = problem.potential(fidelity), 0
        for seed in seeds:
            starts = problem.sample_start(np.random.default_rng(seed), 20)
            starts = starts[np.isfinite(potential.energy(starts))][:4]
            if not len(starts):
                continue
            solves, mistake = check_one(problem, problem, fidelity, potential, starts, np.random.default_rng(seed))
            assert mistake is None and solves <= 120, mistake
            wrong = check_one(problem, problem, fidelity, TooLong(potential), starts, np.random.default_rng(seed))
            reported += wrong[1] is not None
        if fidelity == problem.fidelities[-1] and name not in ROUGH:
            assert reported >= len(seeds) - 3

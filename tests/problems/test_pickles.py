"""Every ready posterior is the same after pickling: worker processes and resumed runs get it that way."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from ready_problems import PROBLEMS


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_copy_has_the_same_energies_and_gradients_to_the_bit(name):
    problem = PROBLEMS[name]()
    posterior = getattr(problem, "posterior", problem)
    copy = pickle.loads(pickle.dumps(posterior))
    assert repr(copy) == repr(posterior)
    # before and after the first evaluation: what a model caches must neither hinder nor matter
    position = posterior.sample_start(np.random.default_rng(0), 3)
    for fidelity in posterior.fidelities:
        expected = posterior.potential(fidelity).energy_and_gradient(position)
        again = pickle.loads(pickle.dumps(posterior))
        for one in (copy, again):
            for a, b in zip(one.potential(fidelity).energy_and_gradient(position), expected, strict=True):
                np.testing.assert_array_equal(a, b)

"""Where chains begin that were told no start: where the energy is finite, and together where hardly anything is."""

from __future__ import annotations

import numpy as np
import pytest

import invsamp as iv

#: Half width of the square in which a model works: a fortieth of the prior.
HALF = 0.2


def working(inside):
    """A model that is solved where the largest coordinate is below that."""
    model = iv.with_jacobian(
        lambda x: np.where(np.abs(x).max(axis=1, keepdims=True) > inside, np.nan, x),
        lambda x: np.broadcast_to(np.eye(2), (len(x), 2, 2)),
    )
    return iv.Posterior(iv.Prior(x=iv.Normal(0.0, np.ones(2))), model, np.zeros(2), iv.GaussianNoise(1.0))


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_fortieth_of_the_prior_is_enough(draw, seed):
    run = draw(working(HALF), iv.mala(), draws=500, chains=8, seed=seed)
    assert np.abs(run.theta).max() < HALF
    np.testing.assert_allclose(run.theta.std(axis=(0, 1)), HALF / np.sqrt(3.0), rtol=0.15)  # nearly uniform
    assert run.report["failed_solves"]["model"] > 0


def test_nowhere_is_told_with_what_to_do():
    with pytest.raises(
        RuntimeError, match=r"nor at 100 others of each chain(?s:.*)Give start= points that can be solv"
    ):
        iv.sample(working(-1.0), iv.mala(), draws=10, chains=2, seed=1, progress=False)


def test_a_start_that_was_given_is_taken_as_it_is():
    with pytest.raises(RuntimeError, match=r"starting points \[\[0\.5, 0\.0\]\]"):
        start = np.array([[0.5, 0.0], [0.1, 0.0]])
        iv.sample(working(HALF), iv.mala(), draws=10, chains=2, seed=1, start=start, progress=False)

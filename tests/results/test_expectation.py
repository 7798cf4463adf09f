"""Posterior means with their errors, of the draws alone and with coarse ones between them."""

from __future__ import annotations

import numpy as np
import pytest
from two_levels import exact, posed

import invsamp as iv
from invsamp.results.expectation import expectation
from invsamp.results.run import Run

REPLICATES, CHAINS, DRAWS, STEPS = 400, 4, 150, 10
#: Of the path's x_{k+1} = KEPT x_k + noise, of variance 1 about `MEAN`.
KEPT, MEAN = 0.7, 0.4


def paths(seed: int, steps: int = STEPS, accepted: float = 0.95) -> tuple[np.ndarray, ...]:
    """Fine draws, coarse ones between them, and coarse ones at the same times, of an exchange of equal targets.

    Of shapes (replicates, chains, draws, 1) and, between, (replicates, chains, draws, steps, 1).
    """
    rng, shape = np.random.default_rng(seed), (REPLICATES, CHAINS)
    coarse, fine = rng.standard_normal((2, *shape))
    found = np.empty((steps + 2, *shape, DRAWS))
    for t in range(DRAWS):
        for k in range(steps):
            coarse = KEPT * coarse + np.sqrt(1 - KEPT**2) * rng.standard_normal(shape)
            found[k, ..., t] = coarse
        swap = rng.random(shape) < accepted
        coarse, fine = np.where(swap, fine, coarse), np.where(swap, coarse, fine)
        found[steps - 1, ..., t], found[-2, ..., t], found[-1, ..., t] = coarse, coarse, fine
    found = found[..., None] + MEAN
    return found[-1], np.moveaxis(found[:steps], 0, 3), found[-2]


def scores(seed: int) -> tuple[np.ndarray, np.ndarray, float, np.ndarray]:
    """Of the estimate and of the draws alone, in standard errors; variance saved; without time."""
    fine, between, coarse = paths(seed)
    found = [expectation(lambda x: x[:, 0], fine[k], None, between[k], coarse[k]) for k in range(REPLICATES)]
    means, errors, alone = (np.array([one[j] for one in found]) for j in range(3))
    by_draws = fine.mean(axis=(1, 2, 3)) - MEAN
    naive = 1.0 / np.sqrt(CHAINS * DRAWS * STEPS)
    return (means - MEAN) / errors, by_draws / alone, by_draws.var() / means.var(), (means - MEAN) / naive


def test_errors_hold(within):
    together, alone, gain, naive = scores(5)
    for of in (together, alone):
        # a share .95 of 400, whose sd is .011, and errors that are estimates themselves
        assert within(abs((np.abs(of) < 2.0).mean() - 0.9545), 0.06)
    assert not within(abs((np.abs(naive) < 2.0).mean() - 0.9545), 0.06)
    assert within(1.2 / gain, 1.0)


def test_without_steps_between_the_draws_are_all():
    fine, between, coarse = (part[0] for part in paths(1, steps=1))
    found = expectation(lambda x: x, fine, None, between, coarse)
    np.testing.assert_allclose(found.mean, fine.mean(axis=(0, 1)))
    assert not found.coarse.any() and (found.gain == 1.0).all() and "of the draws alone" in str(found)


def test_weights_count():
    fine = np.random.default_rng(0).standard_normal((4, 500, 1))
    weight = np.exp(fine[..., 0])  # which gives a normal distribution about 1
    found = expectation(lambda x: x[:, 0], fine, weight)
    assert abs(found.mean - 1.0) < 5.0 * found.standard_error < 0.5


@pytest.fixture
def run(monkeypatch, tmp_path):
    monkeypatch.setattr(Run, "warnings", lambda self: [])
    sampler = iv.samplers.surrogate_exchange(
        correct="auto", pairs=30, exchange_interval=10, local_move_interval=5, kernel=iv.kernels.Langevin(adjusted=True)
    )
    settings = {"draws": 30, "warmup": 100, "chains": 64, "seed": 2, "progress": False}
    made = iv.sample(posed(), sampler, **settings)
    stored = iv.sample(posed(), sampler, **settings, directory=tmp_path / "run")
    made.save(tmp_path / "run.nc")
    return made, stored, iv.load(tmp_path / "run.nc")


def test_of_a_run_is_right_and_is_stored_with_it(run, within):
    made, *others = run
    assert made.data["coarse"]["x"].shape == (64, 30, 10, 3)
    found = made.expectation(lambda theta: theta)
    assert within(np.abs(found.mean - exact()[0]) / found.standard_error, 5.0)
    assert not within(np.abs(found.mean + 0.2 - exact()[0]) / found.standard_error, 5.0)
    for other in others:
        np.testing.assert_array_equal(other.expectation(lambda theta: theta).mean, found.mean)


def test_bad_input_is_reported():
    fine = np.zeros((2, 20, 1))
    with pytest.raises(ValueError, match="draws must be at least 16 of each chain"):
        expectation(lambda x: x, fine[:, :10])
    with pytest.raises(ValueError, match="for each of 40 rows, got the shape"):
        expectation(lambda x: x[:3], fine)
    with pytest.raises(ValueError, match="quantity must be finite"):
        expectation(lambda x: x + np.inf, fine)
    assert expectation(lambda x: x[:, 0], fine).standard_error == 0.0

"""Greedy designs against dense computations of information and covariance."""

from __future__ import annotations

from functools import cache
from itertools import combinations

import numpy as np
import pytest

import invsamp as iv
from invsamp.identifiability import choose_sensors
from invsamp.solvers import fields
from invsamp.solvers.fem.mesh import unit_square

MESH = unit_square(3)
RNG = np.random.default_rng(0)
MATRIX, SDS = RNG.standard_normal((7, 16)), np.array([0.5, 0.6, 0.4, 0.5, 0.7, 0.3, 0.5])


@cache
def matern():
    """The prior; not made on import, as that compiles."""
    return fields.matern(MESH, 0.8, sd=1.2)


def posed(noise=None):
    model = iv.with_jacobian(lambda t: t @ MATRIX.T, lambda t: np.broadcast_to(MATRIX, (len(t), 7, 16)))
    return iv.Posterior(iv.Prior(u=matern()), model, np.zeros(7), noise or iv.GaussianNoise(SDS))


def dense(chosen):
    """Information gain, and the trace of the posterior covariance."""
    factor = matern().at().color(np.eye(16))
    covariance, rows = factor.T @ factor, MATRIX[list(chosen)] / SDS[list(chosen), None]
    predicted = np.eye(len(chosen)) + rows @ covariance @ rows.T
    gain = covariance @ rows.T
    left = covariance - gain @ np.linalg.solve(predicted, gain.T)
    return 0.5 * np.linalg.slogdet(predicted)[1], np.trace(left)


@pytest.mark.parametrize("criterion", ["D", "A"])
def test_each_next_sensor_is_the_best_beside_the_others(criterion):
    design = choose_sensors(posed(), 4, criterion=criterion, at={"u": np.zeros(16)})
    score = (lambda chosen: dense(chosen)[0]) if criterion == "D" else (lambda chosen: -dense(chosen)[1])
    chosen = []
    for k in range(4):
        best = max(set(range(7)) - set(chosen), key=lambda i: score([*chosen, i]))
        chosen.append(best)
        assert design.chosen[k] == best
        information, trace = dense(chosen)
        assert design.information[k + 1] == pytest.approx(information, rel=1e-6)
        assert design.reduction[k + 1] == pytest.approx(dense([])[1] - trace, rel=1e-6)


def test_the_information_of_other_sensors_is_that_of_dense_determinants():
    design = choose_sensors(posed(), 2, at={"u": np.zeros(16)})
    np.testing.assert_allclose(design.information_of(design.chosen), design.information, rtol=1e-8)
    others = [6, 0, 3]
    np.testing.assert_allclose(
        design.information_of(others)[1:], [dense(others[: k + 1])[0] for k in range(3)], rtol=1e-6
    )
    with pytest.raises(ValueError, match="sensors must be distinct"):
        design.information_of([1, 1])


def test_the_greedy_choice_is_near_the_best_of_all():
    """At least 63% by theory; the worst set is far below."""
    found = choose_sensors(posed(), 3, at={"u": np.zeros(16)}).information[-1]
    every = [dense(chosen)[0] for chosen in combinations(range(7), 3)]
    assert found > 0.95 * max(every) and min(every) < 0.8 * max(every)


def test_of_a_nonlinear_model_it_is_that_of_the_jacobian_at_the_point():
    def slopes(theta):
        return np.stack([np.diag(np.exp(row)) for row in theta])

    posterior = iv.Posterior(
        iv.Prior(a=iv.Normal(0, 1, shape=3)), iv.with_jacobian(np.exp, slopes), np.ones(3), iv.GaussianNoise(0.5)
    )
    design = choose_sensors(posterior, 3, at={"a": [0.0, 1.0, -1.0]})
    assert design.chosen.tolist() == [1, 0, 2]
    expected = 0.5 * np.log1p(np.exp([2.0, 0.0, -2.0]) / 0.25)
    np.testing.assert_allclose(np.diff(design.information), expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"count": 8}, "count must be an integer"),
        ({"count": 2, "criterion": "E"}, "criterion must be one of 'D', 'A', got 'E'"),
        ({"count": 2, "parameters": "v"}, "parameters must be one of 'u'"),
        ({"count": 2, "at": 3.0}, "at must be a mapping"),
    ],
)
def test_wrong_arguments_are_named(settings, message):
    with pytest.raises(ValueError, match=message):
        choose_sensors(posed(), **settings)


def test_other_noise_is_refused():
    with pytest.raises(ValueError, match="noise must be a GaussianNoise of known numbers"):
        choose_sensors(posed(iv.StudentTNoise(1.0, 4.0)), 2)

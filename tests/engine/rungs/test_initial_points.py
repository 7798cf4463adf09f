"""Default starting points: where the energy is finite, and together if it rarely is."""

from __future__ import annotations

import numpy as np
import pytest

import invsamp as iv
from invsamp.errors import ModelError

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


def test_no_finite_energy_is_reported_with_a_suggestion():
    with pytest.raises(
        RuntimeError, match=r"nor at 100 others of each chain(?s:.*)Give start= points at which the model can be solv"
    ):
        iv.sample(working(-1.0), iv.mala(), draws=10, chains=2, seed=1, progress=False)


def test_a_start_that_was_given_is_taken_as_it_is():
    with pytest.raises(RuntimeError, match=r"starting points \[\[0\.5, 0\.0\]\]"):
        start = np.array([[0.5, 0.0], [0.1, 0.0]])
        iv.sample(working(HALF), iv.mala(), draws=10, chains=2, seed=1, start=start, progress=False)


def posed(function):
    prior = iv.Prior(a=iv.Normal(0, 1), b=iv.Normal(0, 1))
    return iv.Posterior(prior, function, np.zeros(2), iv.GaussianNoise(1.0))


QUICK = {"draws": 100, "warmup": 100, "chains": 2, "seed": 1, "progress": False}


@pytest.mark.parametrize(
    ("function", "kind", "message"),
    [
        (lambda a, b: np.array([a, b]), TypeError, r"1 required positional argument: 'b'.*lambda theta: f\(\*theta"),
        (lambda theta: theta @ np.ones((3, 2)), ValueError, r"theta of shape \(n, 2\).*columns \['a', 'b'\]"),
        (lambda theta: theta + undefined, NameError, r"returns \(n, 2\).*iv.scalar_function\(function\)"),  # noqa: F821
        (lambda theta: {}["mesh"], KeyError, "raised KeyError wherever it was called"),
    ],
)
def test_a_model_that_raises_everywhere_is_reported_with_its_traceback(function, kind, message):
    for act in (
        lambda: iv.sample(posed(function), iv.pcn(), **QUICK),
        lambda: iv.sample(posed(iv.finite_differences(function)), **QUICK),
        lambda: iv.maximize(posed(iv.finite_differences(function))),
    ):
        with pytest.raises(ModelError, match=message) as caught:
            act()
        cause = caught.value.__cause__
        assert type(cause) is kind and cause.__traceback__.tb_next is not None


def test_a_programming_error_is_reported_at_once():
    calls = []

    def model(theta):
        calls.append(len(theta))
        return theta.no_such_thing

    with pytest.raises(ModelError, match="AttributeError"):
        iv.sample(posed(model), iv.pcn(), **QUICK)
    assert len(calls) == 3  # of the batch, and of each row


def test_a_model_that_raises_at_some_starts_is_sampled():
    def model(theta):
        if (theta[:, 0] > 0.0).any():
            raise RuntimeError("not there")
        return theta

    run = iv.sample(posed(model), iv.pcn(), **QUICK)
    assert run.theta[..., 0].max() <= 0.0


@pytest.mark.parametrize("one", [False, True], ids=["batch", "one theta"])
def test_a_plain_function_is_sampled_without_gradients(within, one):
    """The posterior has variance 1/2; the prior's, which is no wrong guess for a bug, is far off."""
    settings = QUICK | {"draws": 2000, "chains": 8}
    function = iv.scalar_function(lambda theta: theta) if one else lambda theta: theta
    draws = iv.sample(posed(function), iv.pcn(), **settings).theta.reshape(-1, 2)
    variance = draws.var(axis=0)
    assert within(np.abs(variance / 0.5 - 1.0), 0.25) and not within(np.abs(variance - 1.0), 0.25)
    whole = iv.with_jacobian(lambda theta: theta, lambda theta: np.broadcast_to(np.eye(2), (len(theta), 2, 2)))
    np.testing.assert_array_equal(draws, iv.sample(posed(whole), iv.pcn(), **settings).theta.reshape(-1, 2))


WAYS = "is a function without derivatives.*finite_differences.*with_jacobian.*from_torch.*pcn"


@pytest.mark.parametrize(
    "act",
    [
        *(lambda p: iv.sample(p, iv.mala(), **QUICK), iv.maximize),
        *(lambda p: p.check_gradient(), lambda p: iv.information(p, at={"a": 0.0, "b": 0.0})),
    ],
    ids=["mala", "maximize", "check_gradient", "information"],
)
def test_where_gradients_are_needed_the_ways_to_them_are_reported(act):
    with pytest.raises(ValueError, match=WAYS):
        act(posed(lambda theta: theta))

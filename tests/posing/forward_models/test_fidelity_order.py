"""The last fidelity of a mapping is the one that is sampled: names and costs that say otherwise are refused."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import invsamp as iv


def model(work=None):
    made = iv.with_jacobian(lambda t: t, lambda t: np.ones((len(t), 1, 1)))
    if work is not None:
        object.__setattr__(made, "work", work)
    return made


def posed(*names, costs=None, works=None):
    models = {name: model(None if works is None else works[k]) for k, name in enumerate(names)}
    return iv.Posterior(iv.Prior(x=iv.Normal(0, 1)), models, [0.0], iv.GaussianNoise(1.0), costs=costs)


@pytest.mark.parametrize(
    "names",
    [
        *(
            ("fine", "coarse"),
            ("high_fidelity", "low_fidelity"),
            ("coarse", "finest", "fine"),
            ("exact", "surrogate"),
            ("high", "low"),
        ),
        *(("Fine mesh", "rough mesh"), ("fine2", "medium1"), ("coarse", "coarser")),
    ],
)
def test_names_in_the_wrong_order_are_refused(names):
    """Also of densities and likelihoods, and where models are replaced."""
    message = "must go from the coarsest fidelity to the finest.*by their names.*Reverse the mapping"
    bowl = iv.LogDensity(lambda x: -0.5 * (x**2).sum(axis=1), lambda x: -x, dimension=1)
    prior = iv.Prior(x=iv.Normal(0, 1))
    for act in (
        lambda: posed(*names),
        lambda: iv.Target(dict.fromkeys(names, bowl)),
        lambda: iv.Posterior(prior, log_likelihood=dict.fromkeys(names, bowl)),
        lambda: posed(*names[::-1]).with_forward(dict.fromkeys(names, model())),
    ):
        with pytest.raises(ValueError, match=message):
            act()


@pytest.mark.parametrize(
    "names",
    [
        *(("coarse", "fine"), ("lo", "hi"), ("a", "b", "a2"), ("n64", "n16"), ("coarse", "medium", "fine", "finest")),
        *(
            ("fine coarse", "coarse"),
            ("high tolerance", "low tolerance"),
            ("refined", "coarse"),
            ("coarse_1", "coarse_0"),
        ),
    ],
)
def test_names_that_say_nothing_else_are_left_alone(names):
    """Numbers may be sizes of meshes or of steps, and two words of different places say nothing."""
    assert posed(*names).fidelities == names


def test_costs_must_not_decrease():
    with pytest.raises(ValueError, match=r"got 'a' before 'b', which is coarser by costs of 100 and 1: .* here 'c'"):
        posed("a", "b", "c", costs={"a": 100, "b": 1, "c": 200})
    assert posed("a", "b", costs={"b": 1, "a": 1}).costs == {"a": 1.0, "b": 1.0}


def test_work_that_models_count_warns():
    """It is only an expectation: another kind of model may be expensive and coarse."""
    with pytest.warns(UserWarning, match="a solve of 'a' takes 4 times its work.*by costs="):
        posed("a", "b", works=(8.0, 2.0))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        posed("a", "b", works=(8.0, 2.0), costs={"a": 1, "b": 2})
        posed("a", "b", works=(2.0, 8.0))


@pytest.mark.parametrize("names", [(0, 1), ("coarse", 1), ("", "b")])
def test_names_are_text(names):
    with pytest.raises(ValueError, match="every name in forward must be a string that is not empty, got"):
        posed(*names)

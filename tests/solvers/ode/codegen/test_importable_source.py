"""Models with formulas go to other processes."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from invsamp.solvers.ode import Event, Experiments, OdeModel
from invsamp.solvers.ode.codegen import importable_source


def decay(t, x, p):
    return (-p[0] * x[0],)


def halved(t, x, p):
    return (x[0] / 2,)


def share(t, x, p):
    return x[0] / p[1], x[0] ** 2


def test_functions_of_sources_are_found_by_name():
    source = "def formula(p):\n    return exp(p[0]) + numpy.log(p[1])\n"
    function = importable_source.of_source(source)
    assert function is importable_source.of_source(source)
    text = pickle.dumps(function)
    assert pickle.loads(text) is function
    importable_source.of_source.cache_clear()  # as in another process
    again = pickle.loads(text)
    assert again is not function and again([0.5, 2.0]) == function([0.5, 2.0]) == np.exp(0.5) + np.log(2.0)
    with pytest.raises(AttributeError, match="has no attribute 'other'"):
        importable_source.other  # noqa: B018


def test_a_model_with_formulas_is_the_same_elsewhere():
    model = OdeModel(
        decay, ["a"], ["rate", "scale"], doses=[("1 / rate", {"a": "scale / 3"})], events=[Event(at=2.5, change=halved)]
    )
    settings = {"initial": ("sqrt(scale)",), "t0": 0.0}
    one, other = model.observe([1.0, 4.0], of=share, **settings), model.observe([3.0], **settings)
    both = Experiments({"one": one, "other": other})
    theta = np.array([[0.7, 2.0], [0.5, 3.0]])
    text, found = pickle.dumps(both), both.jacobian(theta)
    importable_source.of_source.cache_clear()
    for ours, theirs in zip(found, pickle.loads(text).jacobian(theta), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert np.abs(found[1]).min(axis=(0, 1)).max() > 0.01

"""Which method solves, and which takes over."""

from __future__ import annotations

import math

import numpy as np
import pytest
from functions import robertson

from invsamp.solvers.ode.model.ode_model import OdeModel, Status


def test_robertson_needs_an_implicit_method():
    settings = {"rtol": 1e-6, "atol": 1e-10}
    explicit = (("RK45", Status.STIFF), ("DOP853", Status.STIFF))
    for method, status in (("LSODA", 0), ("Rodas5P", 0), ("auto", 0), *explicit):
        model = OdeModel(robertson, tuple("abc"), ("k1", "k2", "k3"), method, **settings)
        solution = model.solve([[0.04, 1e4, 3e7]], [1.0, 0.0, 0.0], [0.0, 1e3])
        assert solution.status[0] == status and solution.switched[0] == (method == "auto")


@pytest.mark.parametrize("implicit", ["Rodas5P", "LSODA"])
def test_auto_leaves_stiff_rows_alone_to_an_implicit_method(implicit):
    """Rows keep their bits; how far a stiff one was tried does not matter."""
    rows = np.array([[1.0], [1e6], [2.0]])
    arguments = rows, [0.0], np.linspace(0.0, 3.0, 7)

    def relaxation(t, x, p):
        return (-p[0] * (x[0] - math.cos(t)),)

    def branching(t, x, p):  # which does not trace
        return (-p[0] * (x[0] - math.cos(t)),) if t < 10 else (0.0,)

    rhs = relaxation if implicit == "Rodas5P" else branching
    models = {name: OdeModel(rhs, ["x"], ["k"], name) for name in ("auto", "RK45", implicit)}
    found = {name: each.solve_with_sensitivities(*arguments) for name, each in models.items()}
    assert found["auto"].switched.tolist() == [False, True, False] and (found["auto"].status == Status.OK).all()
    assert found["RK45"].status.tolist() == [Status.OK, Status.STIFF, Status.OK]
    for row, name in ((0, "RK45"), (1, implicit), (2, "RK45")):
        for part in ("states", "sensitivities"):
            np.testing.assert_array_equal(getattr(found["auto"], part)[row], getattr(found[name], part)[row])
    alone = models["auto"].solve([[1e6]], *arguments[1:])
    np.testing.assert_array_equal(alone.states[0], found["auto"].states[1])
    # a hopeless row is given up long before the bound on steps
    assert models["auto"].solve([[1e6]], *arguments[1:]).steps[0] < 1000
    tight = OdeModel(relaxation, ["x"], ["k"], rtol=1e-9)
    series = OdeModel(relaxation, ["x"], ["k"], "Taylor", rtol=1e-9)
    np.testing.assert_array_equal(tight.solve(*arguments).states[0], series.solve(*arguments).states[0])


def test_an_observation_names_the_method():
    forward = OdeModel(lambda t, x, p: (-p[0] * (x[0] - math.cos(t)),), ["x"], ["k"]).observe(
        [1.0, 2.0], (0.0,), t0=0.0
    )
    assert forward.solver == "auto"
    forward(np.array([[1.0], [1e6]]))
    assert forward.solver == "auto, but another one for 1 of 2 trajectories"


def test_what_is_stiff_for_a_while_is_not_called_stiff():
    pulse = OdeModel(
        lambda t, x, p: (-(5e3 if t < 0.1 else 1.0) * (x[0] - 1.0),), ["x"], [], "RK45", breakpoints=(0.1,)
    )
    assert pulse.solve(np.empty((1, 0)), [0.0], [0.0, 1.0]).status[0] == Status.OK
    few = OdeModel(lambda t, x, p: (x[1], -x[0]), ["x", "y"], [], "RK45", max_steps=200, rtol=1e-10)
    assert few.solve(np.empty((1, 0)), [0.0, 1.0], [0.0, 1e3]).status[0] == Status.TOO_MANY_STEPS

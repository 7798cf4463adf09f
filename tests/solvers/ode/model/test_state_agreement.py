"""Two different integrations of a trajectory are reported; errors that grow with the problem are not."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from invsamp.solvers.ode import OdeModel
from invsamp.solvers.ode.model import ode_solver as solver_module


def made():
    def rhs(t, x, p):
        return (p[0] * np.exp(-(((t - p[1]) / p[2]) ** 2)) - p[3] * x[0],)

    return OdeModel(rhs, ("x",), ("height", "center", "width", "rate"))


def test_a_change_that_one_of_them_misses_is_reported_once(monkeypatch):
    arguments = [[10.0, 5.0, 0.1, 0.1]], [1.0], [1.0, 3.0, 6.0, 9.0, 10.0]
    model = made()
    with monkeypatch.context() as patched:
        patched.setattr(solver_module, "with_own_breakpoints", lambda course, *_: course)
        with pytest.warns(UserWarning, match=r"differ by .* tolerances .*max_step="):
            model.solve_with_sensitivities(*arguments, t0=0.0)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model.solve_with_sensitivities(*arguments, t0=0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made().solve_with_sensitivities(*arguments, t0=0.0)


@pytest.mark.parametrize("rtol", [1e-4, 1e-6])
def test_a_chaotic_trajectory_is_not(rtol):
    def lorenz(t, x, p):
        return (p[0] * (x[1] - x[0]), x[0] * (p[1] - x[2]) - x[1], x[0] * x[1] - p[2] * x[2])

    model = OdeModel(lorenz, ("x", "y", "z"), ("s", "r", "b"), rtol=rtol, atol=rtol)
    p = np.random.default_rng(0).uniform(0.9, 1.1, (20, 3)) * [10.0, 28.0, 8.0 / 3.0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sensitive = model.solve_with_sensitivities(p, [1.0, 1.0, 1.0], np.linspace(0.0, 15.0, 20))
    assert np.isfinite(sensitive.sensitivities).all()

"""Right-hand sides that switch by `numpy.where` trace, small ones by SymPy and large ones as a graph."""

from __future__ import annotations

import numpy as np
import pytest

from invsamp.solvers.ode import Experiments, OdeModel, SteadyState
from invsamp.solvers.ode.codegen.compile_rhs import MOST_ENTRIES

N = 8


def small(t, x, p):
    return (np.where(np.logical_and(t >= p[1], t < 2.0), p[0], 0.0) - x[0],)


def large(t, x, p):
    on = np.where(np.logical_or(t < p[1], np.logical_not(t < 2.0)), 0.0, p[0])
    first = np.maximum(on, -1.0) - x[0]
    return (first, *(np.minimum(x[k - 1], 5.0) - x[k] for k in range(1, N)))


@pytest.mark.parametrize(("rhs", "n"), [(small, 1), (large, N)])
def test_values_and_derivatives(rhs, n):
    model = OdeModel(rhs, [f"x{k}" for k in range(n)], ["size", "on"], breakpoints=["on", 2.0], rtol=1e-9)
    assert (n * (n + 2) > MOST_ENTRIES) == (n == N)
    assert model.derivatives == "traced"
    times = np.array([0.5, 1.5, 3.0])
    found = model.solve_with_sensitivities([[1.7, 0.9]], np.zeros(n), times, t0=0.0, initial_states=[])
    wanted = 1.7 * np.array([0.0, 1 - np.exp(-0.6), (1 - np.exp(-1.1)) * np.exp(-1.0)])
    np.testing.assert_allclose(found.states[0, :, 0], wanted, atol=1e-8)
    np.testing.assert_allclose(found.sensitivities[0, :, 0, 0], wanted / 1.7, atol=1e-8)
    by_time = -1.7 * np.exp(-(times - 0.9)) * (times > 0.9)
    np.testing.assert_allclose(found.sensitivities[0, :, 0, 1], by_time, atol=1e-7)


def test_what_the_other_side_would_be_does_no_harm():
    def rhs(t, x, p):
        root = np.where(x[0] > 1.0, np.sqrt(x[0] - 1.0), 0.0)
        return (p[0] * root, *(root - x[k] for k in range(1, N)))

    model = OdeModel(rhs, [f"x{k}" for k in range(N)], ["a"])
    found = model.solve_with_sensitivities([[2.0]], np.full(N, 0.5), [1.0], t0=0.0, initial_states=[])
    assert np.isfinite(found.sensitivities).all() and found.sensitivities[0, 0, 0, 0] == 0.0


def test_a_jump_where_a_state_crosses_is_reported():
    def rhs(t, x, p):
        return (np.where(x[0] < p[0], 1.0, 3.0),)

    model = OdeModel(rhs, ["x"], ["edge"])
    with pytest.warns(UserWarning, match="Declare the threshold"):
        model.solve_with_sensitivities([[0.7]], [0.0], [1.0], t0=0.0)


def decay(t, x, p):
    return (p[2] - p[0] * x[0], p[0] * x[0] - p[1] * x[1])


class TestColumnsThatAreWanted:
    """Sensitivities are integrated for what the trajectory depends on, and is not known."""

    MODEL = OdeModel(decay, ["a", "b"], ["k", "l", "source", "scale", "offset"], rtol=1e-9)

    def observed(self, **changes):
        settings = {"initial": ("source", 0.0), "t0": 0.0, "of": lambda t, x, p: [p[3] * x[1] + p[4]]}
        return self.MODEL.observe([0.5, 2.0], **{**settings, **changes})

    @pytest.mark.parametrize(
        ("changes", "moving"),
        [
            ({}, (0, 1, 2)),
            ({"given": {"l": 0.3}}, (0, 2)),
            ({"initial": ("offset", lambda p: p[3] * p[0]), "given": {"k": "l"}}, (0, 1, 2, 3, 4)),
            ({"initial": SteadyState((1.0, 1.0), {"source": "offset"}, then={"b": "scale"})}, (0, 1, 2, 3, 4)),
            ({"initial": SteadyState((1.0, 1.0), {"source": 0.5, "k": 2.0}), "given": {"l": 1.0}}, (0, 2)),
        ],
    )
    def test_derivatives_are_those_of_differences(self, changes, moving):
        forward = self.observed(**changes)
        assert forward.moving == moving
        theta = np.linspace(0.8, 1.4, len(forward.parameters))[None]
        y, jacobian = forward.jacobian(theta)
        np.testing.assert_array_equal(y, forward(theta))
        for j in range(theta.shape[1]):
            h = 1e-4 * np.eye(theta.shape[1])[j]
            slope = (forward(theta + h) - forward(theta - h))[0] / 2e-4
            np.testing.assert_allclose(jacobian[0, :, j], slope, rtol=1e-5, atol=1e-6)


class TestRows:
    MODEL = OdeModel(decay, ["a", "b"], ["k", "l", "source"])

    def test_replicates_and_order(self):
        parts = {name: self.MODEL.observe([1.0, 2.0], (a, 0.0), t0=0.0) for name, a in (("low", 1.0), ("high", 2.0))}
        whole, theta = Experiments(parts), np.array([[0.5, 0.3, 0.1]])
        rows = [7, 0, 0, 3]
        chosen = Experiments(parts, rows)
        assert chosen.n_observations == 4
        np.testing.assert_array_equal(chosen(theta), whole(theta)[:, rows])
        for ours, theirs in zip(chosen.jacobian(theta), whole.jacobian(theta), strict=True):
            np.testing.assert_array_equal(ours, theirs[:, rows])
        np.testing.assert_allclose(chosen.coarsen(rtol=1e-3)(theta), whole(theta)[:, rows], rtol=1e-2)

    @pytest.mark.parametrize("rows", [[8], [-1], [0.5], [], [[0]]])
    def test_rows_that_are_not_there(self, rows):
        parts = {"all": self.MODEL.observe([1.0, 2.0], (1.0, 0.0), t0=0.0)}
        with pytest.raises(ValueError, match="rows"):
            Experiments(parts, rows)

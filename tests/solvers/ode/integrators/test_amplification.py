"""Errors that are committed while a state is small, and amplified as it grows."""

from __future__ import annotations

import numpy as np
import pytest
from optional_methods import CVODE

from invsamp.solvers.ode import OdeModel, Status
from invsamp.solvers.ode.integrators.amplification import LEAST_ATOL, amplify, of_sensitivities, set_tolerances

METHODS = ["RK45", "DOP853", "Taylor", "Rodas5P", "LSODA", CVODE]


def logistic(t, x, p):
    return (p[0] * x[0] * (1 - x[0]),)


def predators(t, x, p):
    return x[0] * (p[0] - p[1] * x[1]), x[1] * (p[1] * x[0] - p[2])


def epidemic(t, x, p):
    caught = p[0] * x[0] * x[2]
    return -caught, caught - p[1] * x[1], p[1] * x[1] - p[2] * x[2]


def oscillator(t, x, p):
    return x[1], p[0] * (1 - x[0] ** 2) * x[1] - x[0]


def cascade(t, x, p):
    return [(x[i - 1] if i else 0.0) - p[0] * x[i] for i in range(6)]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("rtol", [1e-6, 1e-9])
def test_growth_from_initial_values_below_atol(method, rtol):
    starts = 10.0 ** -np.arange(3.0, 16.0)
    model = OdeModel(logistic, ("x",), ("rate",), method, rtol=rtol)
    found = model.solve_with_sensitivities(np.ones((len(starts), 1)), starts[:, None], [30.0], t0=0.0)
    odds = np.exp(30.0) * starts / (1 - starts)
    exact = odds / (1 + odds)
    assert (found.status == Status.OK).all()
    # without smaller tolerances some are off by 3e5 tolerances and more, by every method
    assert (np.abs(found.states[:, 0, 0] - exact) / (1e-9 + rtol * exact)).max() < (1000 if method == "CVODE" else 100)
    slope = exact * (1 - exact)
    np.testing.assert_allclose(found.sensitivities[:, 0, 0, 0], 30.0 * slope, rtol=1e-4)
    np.testing.assert_allclose(found.sensitivities[:, 0, 0, 1], slope / (starts * (1 - starts)), rtol=1e-4)


@pytest.mark.parametrize("method", METHODS)
def test_growth_from_a_trough_below_atol(method):
    # prey down to 3e-12 and 2e-16: what is conserved, x - log x + y - log y, has their logarithm
    starts = np.array([[20.0, 1.0], [30.0, 1.0], [40.0, 1.0]])
    model = OdeModel(predators, ("x", "y"), ("a", "b", "c"), method)
    found = model.solve(np.ones((3, 3)), starts, np.linspace(0.0, 30.0, 16))
    assert (found.status == Status.OK).all() and (found.states > 0).all()
    conserved = (found.states - np.log(found.states)).sum(axis=2)
    assert np.abs(conserved / conserved[:, :1] - 1).max() < 1e-3


@pytest.mark.parametrize("method", METHODS)
def test_states_that_start_at_zero_are_fed_by_what_grows(method):
    arguments = [[2.0, 0.5, 0.5]], [1.0, 0.0, 1e-10], np.linspace(0.0, 60.0, 13)
    found = OdeModel(epidemic, tuple("sei"), ("b", "k", "g"), method).solve(*arguments)
    exact = OdeModel(epidemic, tuple("sei"), ("b", "k", "g"), "DOP853", rtol=1e-12, atol=1e-25).solve(*arguments)
    np.testing.assert_allclose(found.states, exact.states, rtol=1e-4, atol=1e-9)


@pytest.mark.parametrize("method", METHODS)
def test_oscillations_that_grow_from_below_atol(method):
    arguments = [[1.0]], [1e-12, 0.0], np.linspace(0.0, 80.0, 9)
    found = OdeModel(oscillator, tuple("xv"), ("mu",), method).solve(*arguments)
    exact = OdeModel(oscillator, tuple("xv"), ("mu",), "DOP853", rtol=1e-12, atol=1e-25).solve(*arguments)
    np.testing.assert_allclose(found.states, exact.states, rtol=0, atol=1e-3)


@pytest.mark.parametrize("method", METHODS)
def test_where_nothing_is_amplified_there_is_one_solve(method):
    valid = [
        (logistic, [1.0], [0.01], 30.0),
        (cascade, [1.0], [1.0, 0, 0, 0, 0, 0], 10.0),
        (oscillator, [1.0], [2.0, 0.0], 30.0),
        (predators, [1.0, 1.0, 1.0], [5.0, 1.0], 30.0),
        (lambda t, x, p: (-p[0] * x[0],), [1.0], [1e-5], 60.0),  # dies
        (lambda t, x, p: (p[0] - x[0],), [1.0], [1e-3], 10.0),  # is filled
    ]
    for rhs, p, start, until in valid:
        names = [f"x{i}" for i in range(len(start))], [f"p{i}" for i in range(len(p))]
        model, times = OdeModel(rhs, *names, method), np.linspace(0.0, until, 11)
        _, _, absolute, _ = model.integrated(np.array([p]), np.array([start]), times[None], np.zeros(1))
        assert (absolute == model.atol).all()


def test_rows_do_not_depend_on_each_other():
    model = OdeModel(logistic, ("x",), ("rate",))
    starts, times = np.array([[0.01], [1e-12], [0.0], [1e-7]]), [0.0, 10.0, 30.0]
    together = model.solve(np.ones((4, 1)), starts, times)
    for row, start in enumerate(starts):
        alone = model.solve([[1.0]], start, times)
        np.testing.assert_array_equal(together.states[row], alone.states[0])
        assert together.evaluations[row] == alone.evaluations[0]


@pytest.mark.parametrize("method", METHODS)
def test_a_dose_amplifies_nothing(method):
    model = OdeModel(lambda t, x, p: (-p[0] * x[0],), ["x"], ["k"], method, doses=[(20.0, {"x": 1.0})])
    _, _, absolute, _ = model.integrated(np.ones((1, 1)), np.ones((1, 1)), np.array([[10.0, 40.0]]), np.zeros(1))
    assert absolute[0, 0] == model.atol


class TestAmplify:
    def steps(self, values, rates, atol=1e-9, rtol=1e-6):
        growth, needed = np.zeros(1), np.full(1, atol)
        path = np.array(values, dtype=float)[:, None], np.array(rates, dtype=float)[:, None]
        for k in range(len(values) - 1):
            amplify.py_func(
                *(1, path[0][k], path[0][k + 1], path[1][k], path[1][k + 1]),
                *(rtol, np.full(1, atol), growth, needed),
            )
        return growth[0], needed[0]

    def test_exponential_growth_after_a_fall(self):
        sizes = np.exp(np.concatenate([np.linspace(-10, -16, 20), np.linspace(-16, -7, 20)]))
        growth, needed = self.steps(sizes, np.concatenate([-sizes[:20], sizes[20:]]))
        assert growth == pytest.approx(np.exp(9)) and needed == pytest.approx(1e-6 * np.exp(-16))

    def test_growth_from_what_flows_in(self):
        sizes = np.concatenate([[1e-5, 1e-7], np.linspace(1e-7, 1e-3, 20)])
        assert self.steps(sizes, [-1.0, -1.0, *np.ones(20)]) == (1.0, 1e-9)

    def test_growth_from_zero_until_it_falls(self):
        times = np.linspace(0, 0.1, 50)
        assert self.steps(times**4, 4 * times**3) == (0.0, 1e-9)

    def test_a_change_of_sign(self):
        times = np.linspace(0, 20, 333)
        growth, needed = self.steps(1e-4 * np.cos(times), -1e-4 * np.sin(times))
        assert growth < 5 and needed == 1e-9


def test_tolerances_have_a_least():
    def tolerances(initial, needed, peaks, before):
        absolute, again = np.array([[*before, *before]]), np.zeros(1, dtype=bool)
        given = (np.array(each) for each in (initial, needed, peaks))
        smaller = set_tolerances(1e-9, 1e-6, *given, absolute, again)
        of_sensitivities(np.array([[-4.0]]), absolute)
        np.testing.assert_allclose(absolute[:, len(before) :], absolute[:, : len(before)] / 4.0)
        return absolute[0, : len(before)], smaller, again[0]

    start = [[0.0, 1e-12, -1e-8, 1e-300]]
    first, *_ = tolerances(start, np.empty((0, 4)), start, [np.nan] * 4)
    np.testing.assert_allclose(first, [1e-9, 1e-18, 1e-9, LEAST_ATOL], rtol=1e-12)
    start, needed = [[0.0, 1e-12, 1.0]], [[1e-9, 1e-6 * 1e-12, 1e-9]]
    assert tolerances(start, needed, [[1e-10, 1.0, 1.0]], needed[0])[1:] == (False, False)
    again, *smaller = tolerances(start, needed, np.ones((1, 3)), needed[0])
    np.testing.assert_allclose(again, [1e-18, 1e-18, 1e-9])
    assert smaller == [True, True]

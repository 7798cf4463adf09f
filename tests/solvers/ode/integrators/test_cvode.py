"""CVODE against Rodas5P and exact solutions; its Newton matrices; what it refuses."""

from __future__ import annotations

import io
import sys
import threading

import numpy as np
import pytest
from functions import robertson
from optional_methods import has_cvode
from scipy.linalg import expm

from invsamp.solvers.ode import Event
from invsamp.solvers.ode.integrators import cvode
from invsamp.solvers.ode.integrators.sparse_factors import pattern_of
from invsamp.solvers.ode.model import ode_solver
from invsamp.solvers.ode.model.adjoint import has_adjoint
from invsamp.solvers.ode.model.ode_model import OdeModel, Status

CELLS = 20


def rod(t, x, p):
    """Diffusion with decay; the last cell feeds the one before the third last."""
    ends = (1.0, *x, x[-1])
    moved = [400.0 * p[0] * (ends[i] - 2 * ends[i + 1] + ends[i + 2]) - x[i] ** 2 for i in range(CELLS)]
    return [*moved[:-4], moved[-4] + p[1] * x[-1], *moved[-3:]]


def model(rhs=rod, method="CVODE", **settings):
    return OdeModel(rhs, [f"x{i}" for i in range(CELLS)], ["d", "back"], method, **settings)


CALL = [[0.5, 0.3]], np.linspace(0.0, 0.5, CELLS), [0.0, 0.01, 0.1, 1.0]


@pytest.fixture(scope="module")
def exact():
    return model(method="Rodas5P", rtol=1e-10, atol=1e-13).solve_with_sensitivities(*CALL)


@has_cvode
@pytest.mark.parametrize("form", ["banded", "sparse"])
def test_both_matrices_give_states_and_sensitivities(form, exact, monkeypatch):
    """The error at the end is some tolerances; a matrix with wrong entries takes far more evaluations or fails."""
    if form == "sparse":
        monkeypatch.setattr(cvode, "_WIDEST", 2)
        ode_solver._newton.cache_clear()
    found = model().solve_with_sensitivities(*CALL)
    ode_solver._newton.cache_clear()
    assert found.status[0] == Status.OK and found.evaluations[0] < 1000
    for part in ("states", "sensitivities"):
        ours, theirs = getattr(found, part), getattr(exact, part)
        assert (abs(ours - theirs) < 30 * (1e-9 + 1e-6 * abs(theirs).max())).all()


def traced(t, x, p):
    return -p[0] * (x[0] - x[1]), p[0] * (x[0] - x[1]) - x[1] ** 2


def branching(t, x, p):
    return -p[0] * (x[0] - x[1]), p[0] * (x[0] - x[1]) - x[1] ** 2 if t >= 0 else 0.0


def given(t, x, p):
    return ((-p[0], p[0]), (p[0], -p[0] - 2 * x[1])), ((x[1] - x[0],), (x[0] - x[1],))


@has_cvode
def test_what_does_not_trace_has_dense_blocks():
    """From a Jacobian that is given, and from complex steps."""
    arguments = [[1000.0]], [1.0, 0.5], [0.0, 0.01, 2.0]
    exact = OdeModel(traced, ("a", "b"), ("k",), "Rodas5P", rtol=1e-9).solve_with_sensitivities(*arguments)
    for rhs, jacobian in ((traced, None), (branching, given), (branching, None)):
        solver = OdeModel(rhs, ("a", "b"), ("k",), "CVODE", jacobian=jacobian)
        found = solver.solve_with_sensitivities(*arguments)
        assert found.status[0] == Status.OK and found.evaluations[0] < 600
        np.testing.assert_allclose(found.states, exact.states, atol=2e-5)
        np.testing.assert_allclose(found.sensitivities, exact.sensitivities, atol=2e-5)


@pytest.mark.parametrize("widest", [80, 3])
def test_places_are_those_of_the_blocks(widest, monkeypatch):
    monkeypatch.setattr(cvode, "_WIDEST", widest)
    n, blocks, rng = 30, 3, np.random.default_rng(1)
    rows = np.concatenate([np.arange(1, n), np.arange(n - 1), [0, 3]])
    columns = np.concatenate([np.arange(n - 1), np.arange(1, n), [5, 3]])
    newton = cvode.newton_of(0, pattern_of(n, rows, columns), n, blocks)
    assert (newton.lower, newton.upper) == (1, 5) and (newton.sparsity is None) == (widest == 80)
    entries = rng.normal(size=len(rows))
    block = np.zeros((n, n))
    block[rows, columns] = entries
    if newton.sparsity is None:
        made = np.zeros(blocks * n * blocks * n)
        made[newton.places] = entries
        whole = made.reshape(blocks * n, blocks * n)
    else:
        assert newton.sparsity.diagonal().all()
        matrix = newton.sparsity.copy()
        matrix.data[:] = 0.0
        matrix.data[newton.places] = entries
        whole = matrix.toarray()
    np.testing.assert_array_equal(whole, np.kron(np.eye(blocks), block))


@has_cvode
def test_error_follows_the_tolerance():
    """A linear system of rates from 1 to 1000 against the matrix exponential, whose derivative is t A exp(t p A) x."""
    basis = np.linalg.qr(np.random.default_rng(2).normal(size=(3, 3)))[0]
    matrix = basis @ np.diag([-1.0, -30.0, -1000.0]) @ basis.T
    rows = matrix.tolist()

    def linear(t, x, p):
        return [p[0] * sum(a * b for a, b in zip(row, x, strict=True)) for row in rows]

    times, errors = np.linspace(0.1, 1.0, 10), []
    states = np.array([expm(t * matrix) @ np.ones(3) for t in times])
    slopes = np.array([t * matrix @ expm(t * matrix) @ np.ones(3) for t in times])
    for rtol in (1e-4, 1e-6, 1e-8):
        solver = OdeModel(linear, tuple("abc"), ["p"], "CVODE", rtol=rtol, atol=1e-3 * rtol)
        found = solver.solve_with_sensitivities([[1.0]], np.ones(3), times, t0=0.0, initial_states=())
        errors.append(
            [abs(found.states[0] - states).max() / rtol, abs(found.sensitivities[0, :, :, 0] - slopes).max() / rtol]
        )
    assert np.max(errors) < 30 and np.min(errors) > 1e-3


@has_cvode
def test_robertson_beside_rodas():
    settings = {"rtol": 1e-7, "atol": 1e-12}
    times = np.geomspace(1e-3, 1e5, 20)
    found, exact = (
        OdeModel(robertson, tuple("abc"), ("k1", "k2", "k3"), method, **settings).solve_with_sensitivities(
            [[0.04, 1e4, 3e7]], [1.0, 0.0, 0.0], times, t0=0.0
        )
        for method in ("CVODE", "Rodas5P")
    )
    for part in ("states", "sensitivities"):
        ours, theirs = getattr(found, part)[0], getattr(exact, part)[0]
        assert (abs(ours - theirs) < 1e-4 * abs(theirs).max(axis=0)).all()


@has_cvode
def test_doses_and_breakpoints_restart_it():
    """Exponential decay with doses, one at the time of an output, and a rate that changes at a parameter's time."""
    decay = OdeModel(
        lambda t, x, p: (-p[0] * x[0] * np.where(t < p[1], 1.0, 2.0),),
        ["x"],
        ["rate", "change"],
        "CVODE",
        rtol=1e-8,
        doses=((1.0, {"x": 2.0}), (2.0, {"x": "rate"})),
    )
    found = decay.solve_with_sensitivities([[0.5, 1.5]], [1.0], [0.0, 1.0, 2.0, 3.0], initial_states=())
    at_two = np.exp(-1.25) + 2 * np.exp(-0.75)
    last = (at_two + 0.5) * np.exp(-1.0)
    np.testing.assert_allclose(found.states[0, :, 0], [1.0, np.exp(-0.5), at_two, last], rtol=1e-6)
    by_rate = (-(2.5 * np.exp(-1.25) + 3.0 * np.exp(-0.75)) + 1.0 - 2.0 * (at_two + 0.5)) * np.exp(-1.0)
    np.testing.assert_allclose(found.sensitivities[0, -1, 0], [by_rate, 0.5 * at_two * np.exp(-1.0)], rtol=1e-5)


@has_cvode
def test_steps_and_longest_step():
    solver = model(max_step=0.01)
    assert 100 <= solver.solve(*CALL).steps[0] < 400
    few = model(max_steps=5).solve(*CALL)
    assert few.status[0] == Status.TOO_MANY_STEPS and few.steps[0] <= 5
    plain = model().solve(*CALL)
    assert 10 < plain.steps[0] < plain.evaluations[0] and not has_adjoint(model())
    assert plain.ended[0] == 1.0 and not plain.switched[0]


def test_what_it_does_not_do_is_refused(monkeypatch):
    allowed = "need.* method=.*'Rodas5P' or 'auto', got 'CVODE'"
    for settings in ({"stop": lambda t, x, p: x[0]}, {"events": (Event(when=lambda t, x, p: x[0]),)}):
        with pytest.raises(ValueError, match=allowed):
            model(**settings)
    monkeypatch.setitem(sys.modules, "sksundae", None)
    monkeypatch.setitem(sys.modules, "sksundae.cvode", None)
    with pytest.raises(ModuleNotFoundError, match=r"method='CVODE' needs .* pip install 'invsamp\[cvode\]'"):
        model()


@has_cvode
def test_other_threads_print_meanwhile(monkeypatch):
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stdout", stream)
    with cvode.Cvode.alone():
        print("SUNDIALS")
        other = threading.Thread(target=print, args=("someone",))
        other.start()
        other.join()
    assert stream.getvalue() == "someone\n" and sys.stdout is stream

"""Libraries against equations written out by hand; terms and right-hand sides that are refused."""

from __future__ import annotations

import math

import numpy as np
import pytest

from invsamp.solvers.gradient_matching.library import Entry, Library, Term, linear_in_parameters

STATES = ("x", "y", "z")
T = np.linspace(0.0, 1.0, 7)
X = np.random.default_rng(0).normal(size=(7, 3))
P = np.array([10.0, 28.0, 8 / 3])


def lorenz(t, x, p):
    sigma, rho, beta = p
    return sigma * (x[1] - x[0]), x[0] * (rho - x[2]) - x[1], x[0] * x[1] - beta * x[2]


def derivative(library, p):
    known, design = library.evaluate(T, X)
    return known + design @ p


def by_hand(rhs, p):
    return np.stack([np.broadcast_to(side, 7) for side in rhs(T, list(X.T), p)], axis=1)


class TestTerms:
    def of_one_term(self, function):
        return Library(STATES, ("a",), (Entry(0, 0, Term("a", function)),))

    def test_a_function_of_ones_own(self):
        library = self.of_one_term(lambda t, x: np.sin(x[2]) * t)
        np.testing.assert_allclose(derivative(library, [0.5])[:, 0], 0.5 * np.sin(X[:, 2]) * T, rtol=1e-14)
        assert str(library) == "x' = a (a)\ny' = 0\nz' = 0"

    def test_values_that_are_refused(self):
        with pytest.raises(ValueError, match=r"the term 'log\(x\)' must be finite, got nan at time .* states \["):
            library = linear_in_parameters(lambda t, x, p: (p[0] * np.log(x[0]), 0.0, 0.0), STATES, ["a"])
            library.evaluate(T, -np.abs(X))
        library = self.of_one_term(lambda t, x: np.ones(3))
        with pytest.raises(ValueError, match=r"the term 'a' must return shape \(7,\), got \(3,\)"):
            library.evaluate(T, X)
        with pytest.raises(ValueError, match=r"shapes \(N,\) and \(N, 3\), got \(7,\) and \(7, 2\)"):
            library.evaluate(T, X[:, :2])


class TestLinearInParameters:
    def test_lorenz(self):
        library = linear_in_parameters(lorenz, STATES, ("sigma", "rho", "beta"))
        np.testing.assert_allclose(derivative(library, P), by_hand(lorenz, P), rtol=1e-13)
        known, design = library.evaluate(T, X)
        x, y, z = X.T
        np.testing.assert_allclose(known, np.stack([0 * x, -x * z - y, x * y], axis=1), rtol=1e-14)
        zero = np.zeros(7)
        expected = [[y - x, zero, zero], [zero, x, zero], [zero, zero, -z]]
        np.testing.assert_allclose(design, np.moveaxis(np.array(expected), -1, 0), rtol=1e-14)

    @pytest.mark.parametrize(
        "rhs",
        [
            lambda t, x, p: (p[0] * (x[1] - x[0]), -p[0] * x[1] + p[1], p[2] * x[2] * math.exp(-t)),
            # products of parameters that cancel
            lambda t, x, p: ((p[0] + p[1]) ** 2 - p[0] ** 2 - p[1] ** 2 - 2 * p[0] * p[1] + p[0], p[1], p[2] * x[0]),
            lambda t, x, p: (p[0] * p[1] / p[1], p[1] + 3.0, np.sin(x[0]) * p[2] + np.sqrt(1 + x[1] ** 2)),
        ],
    )
    def test_others(self, rhs):
        library = linear_in_parameters(rhs, STATES, ("a", "b", "c"))

        def plain(t, x, p):
            return [
                np.array([rhs(*row)[i] for row in zip(t, zip(*x, strict=True), [p] * 7, strict=True)]) for i in range(3)
            ]

        np.testing.assert_allclose(derivative(library, P), by_hand(plain, P), rtol=1e-12)

    @pytest.mark.parametrize(
        ("rhs", "message"),
        [
            (lambda t, x, p: (x[0] * p[0], x[1] * p[1] ** 2, p[2]), r"linearly, got b nonlinearly in y' = b\*\*2\*y"),
            (lambda t, x, p: (p[0] * p[1] * x[0], p[1], p[2]), r"got a nonlinearly in x' = a\*b\*x"),
            (lambda t, x, p: (p[0], p[1], x[0] / (1 + p[2] * x[0])), r"got c nonlinearly in z' ="),
            (lambda t, x, p: (p[0], p[1], x[0]), "each stand in an equation, got 'c' in none"),
            (lambda t, x, p: (p[0], p[1]), r"rhs must return 3 values, one per state, got"),
            (lambda t, x, p: (p[0] if x[0] > 0 else p[1], p[1], p[2]), "rhs must be traceable .* raised TypeError"),
        ],
    )
    def test_refusals(self, rhs, message):
        with pytest.raises(ValueError, match=message):
            linear_in_parameters(rhs, STATES, ("a", "b", "c"))

"""Libraries against equations written out by hand; strings and right-hand sides that are refused."""

from __future__ import annotations

import math

import numpy as np
import pytest

from invsamp.solvers.gradient_matching.libraries import candidates, coefficients, linear_in_parameters, polynomials

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


class TestPolynomials:
    def test_terms_and_names(self):
        library = polynomials(("u", "v"), 2)
        terms = ["1", "u", "v", "u**2", "u*v", "v**2"]
        assert library.parameters == tuple(f"{state}'[{term}]" for state in "uv" for term in terms)
        known, design = library.evaluate(T, X[:, :2])
        u, v = X[:, 0], X[:, 1]
        expected = np.stack([np.ones(7), u, v, u * u, u * v, v * v], axis=1)
        assert not known.any()
        np.testing.assert_allclose(design[:, 0], np.hstack([expected, np.zeros((7, 6))]), rtol=1e-15)
        np.testing.assert_allclose(design[:, 1], np.hstack([np.zeros((7, 6)), expected]), rtol=1e-15)

    @pytest.mark.parametrize(("n", "degree"), [(1, 5), (3, 2), (4, 3)])
    def test_number_of_terms(self, n, degree):
        names = [f"s{i}" for i in range(n)]
        assert len(polynomials(names, degree).parameters) == n * math.comb(n + degree, degree)
        without = polynomials(names, degree, include_constant=False)
        assert len(without.parameters) == n * (math.comb(n + degree, degree) - 1)

    def test_restricted_to_equations(self):
        allowed = {"z": ["z", "x*y"], "x": ["y", "x"]}
        library = polynomials(STATES, 2, equations=allowed)
        assert library.parameters == ("x'[y]", "x'[x]", "z'[z]", "z'[x*y]")
        expected = np.stack([10 * (X[:, 1] - X[:, 0]), np.zeros(7), X[:, 0] * X[:, 1] - 3 * X[:, 2]], axis=1)
        np.testing.assert_allclose(derivative(library, [10.0, -10.0, -3.0, 1.0]), expected, rtol=1e-13)
        assert str(library) == "x' = x'[y] (y) + x'[x] (x)\ny' = 0\nz' = z'[z] (z) + z'[x*y] (x*y)"

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"degree": 0}, "degree must be an integer >= 1, got 0"),
            ({"degree": 1.5}, "degree must be an integer >= 1, got 1.5"),
            ({"equations": {"w": ["x"]}}, r"states \['x', 'y', 'z'\], got 'w'"),
            ({"equations": {"x": ["y*x"]}}, r"must be out of the terms \['1', 'x', .* got 'y\*x'"),
            ({"equations": {"x": "xy"}}, r"equations\['x'\] must be a sequence of names of at least one entry"),
            ({"states": ("x", "x")}, r"states must be a sequence of distinct names"),
            ({"equations": {}}, r"equations must hold at least one term"),
        ],
    )
    def test_refusals(self, arguments, message):
        with pytest.raises(ValueError, match=message):
            polynomials(**({"states": STATES, "degree": 2} | arguments))


class TestCandidates:
    def test_strings_and_callables(self):
        library = candidates(
            STATES,
            {"a": "-x**2 / (1 + abs(y)) + 2*pi*t", "b": lambda t, x: np.sin(x[2]) * t},
            equations={"x": ["a", "b"]},
        )
        assert library.parameters == ("x'[a]", "x'[b]")
        x, y, z = X.T
        expected = 3.0 * (-(x**2) / (1 + np.abs(y)) + 2 * np.pi * T) + 0.5 * np.sin(z) * T
        np.testing.assert_allclose(derivative(library, [3.0, 0.5])[:, 0], expected, rtol=1e-14)

    def test_libraries_add_up(self):
        first, second = polynomials(STATES, 1), candidates(STATES, ["exp(-x)"], equations={"y": ["exp(-x)"]})
        both = first + second
        assert both.parameters == (*first.parameters, "y'[exp(-x)]")
        p = np.random.default_rng(1).normal(size=len(both.parameters))
        np.testing.assert_allclose(derivative(both, p), derivative(first, p[:-1]) + derivative(second, p[-1:]))
        with pytest.raises(ValueError, match="parameters must be a sequence of distinct names"):
            first + first
        with pytest.raises(ValueError, match="must have the same states"):
            first + polynomials(("x", "y"), 1)

    @pytest.mark.parametrize(
        "text",
        [
            "__import__('os')",
            "x.real",
            "(lambda: 1)()",
            "x if y else z",
            "x < y",
            "x and y",
            "[x]",
            "x[0]",
            "exp(x, y)",
            "exp(*x)",
            "exp",
            "x ^ 2",
            "x // 2",
            "'x'",
            "True",
            "1j * x",
            "(w := x)",
            "f'{x}'",
        ],
    )
    def test_what_is_no_arithmetic_is_refused(self, text):
        with pytest.raises(ValueError, match="a term may"):
            candidates(STATES, [text])

    @pytest.mark.parametrize(
        ("terms", "message"),
        [
            (["x +"], r"must be an expression such as 'x\*y', got 'x \+'"),
            (["x*w"], r"a term may name \['pi', 't', 'x', 'y', 'z'\] and .* got 'w' in 'x\*w'"),
            ("x*y", r"terms must be a sequence of names of at least one entry"),
            ({"a": 1.0}, r"terms, at 'a', must be a string or a function \(t, x\), got 1.0"),
        ],
    )
    def test_refusals(self, terms, message):
        with pytest.raises(ValueError, match=message):
            candidates(STATES, terms)

    def test_large_powers_end(self):
        with pytest.raises(ValueError, match=r"'9\*\*9\*\*9\*\*9\*x' must be finite, got inf"):
            candidates(STATES, ["9**9**9**9*x"]).evaluate(T, np.abs(X))

    def test_values_that_are_refused(self):
        with pytest.raises(ValueError, match=r"the term 'log\(x\)' must be finite, got nan at time .* states \["):
            candidates(STATES, ["log(x)"]).evaluate(T, -np.abs(X))
        with pytest.raises(ValueError, match=r"the term 'a' must return shape \(7,\), got \(3,\)"):
            candidates(STATES, {"a": lambda t, x: np.ones(3)}).evaluate(T, X)
        with pytest.raises(ValueError, match=r"shapes \(N,\) and \(N, 3\), got \(7,\) and \(7, 2\)"):
            polynomials(STATES, 1).evaluate(T, X[:, :2])


class TestCoefficients:
    def test_shared_between_equations(self):
        library = coefficients(
            STATES,
            {"a": {"x": "y - x", "z": lambda t, x: -x[2]}, "b": {"y": "x"}},
            known={"y": "-x*z - y", "z": "x*y"},
        )
        assert library.parameters == ("a", "b")
        x, y, z = X.T
        expected = np.stack([2 * (y - x), 5 * x - x * z - y, -2 * z + x * y], axis=1)
        np.testing.assert_allclose(derivative(library, [2.0, 5.0]), expected, rtol=1e-13, atol=1e-15)

    def test_refusals(self):
        with pytest.raises(ValueError, match=r"must name equations by the states \['x', 'y', 'z'\], got 'w'"):
            coefficients(STATES, {"a": {"w": "x"}})
        with pytest.raises(ValueError, match="parameters must each stand in an equation, got 'b' in none"):
            coefficients(STATES, {"a": {"x": "x"}, "b": {}})


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
            (lambda t, x, p: (p[0], p[1]), r"rhs must return 3 values, one per state, got \("),
            (lambda t, x, p: (p[0] if x[0] > 0 else p[1], p[1], p[2]), "rhs must be traceable .* raised TypeError"),
        ],
    )
    def test_refusals(self, rhs, message):
        with pytest.raises(ValueError, match=message):
            linear_in_parameters(rhs, STATES, ("a", "b", "c"))

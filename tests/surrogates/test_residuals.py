"""Polynomials and Gaussian processes of what a coarse model lacks."""

from __future__ import annotations

import numpy as np
import pytest
from two_levels import DATA, FINE, MAP, SHIFT, Line, posed

import invsamp as iv

RNG = np.random.default_rng(3)
THETA, AWAY = RNG.normal(size=(60, 3)), RNG.normal(size=(20, 3))
MADE = {"polynomial": iv.surrogates.polynomial_model, "process": iv.surrogates.gaussian_process_model}


@pytest.fixture(params=MADE)
def make(request):
    if request.param == "process":
        pytest.importorskip("sklearn")
    return MADE[request.param]


def wrong_part(model, exact, at):
    return np.abs(model(at) - exact(at)).max() / np.abs(exact(at)).max()


class TestFit:
    def test_what_is_missing_is_found(self, make):
        fine, coarse = Line(FINE, 0.0, 0.1), Line(MAP @ FINE, SHIFT)
        fitted = make(coarse).fit(THETA, fine(THETA))
        assert wrong_part(coarse, fine, AWAY) > 0.3 and wrong_part(fitted, fine, AWAY) < 1e-2
        alone = make().fit(THETA, fine(THETA))
        assert wrong_part(alone, fine, AWAY) < 1e-2
        np.testing.assert_array_equal(make(coarse)(AWAY), coarse(AWAY))  # before it is fitted

    def test_gradients_are_those_of_the_values(self, make):
        fitted = make(Line(MAP @ FINE, SHIFT, 0.2)).fit(THETA, Line(FINE, 0.0, 0.1)(THETA))
        y, product = fitted.linearize(AWAY)
        cotangent, along = RNG.normal(size=y.shape), RNG.normal(size=AWAY.shape)
        slope = ((fitted(AWAY + 1e-3 * along) - fitted(AWAY - 1e-3 * along)) * cotangent).sum(axis=1) / 2e-3
        np.testing.assert_array_equal(y, fitted(AWAY))
        np.testing.assert_allclose((product(cotangent) * along).sum(axis=1), slope, rtol=1e-3, atol=1e-3)

    def test_a_row_has_bits_of_its_own(self, make):
        fitted = make().fit(THETA, Line(FINE, 0.0, 0.1)(THETA))
        np.testing.assert_array_equal(fitted(AWAY)[3:4], fitted(AWAY[3:4]))

    def test_few_pairs_of_a_polynomial_of_many_products_are_held_back(self):
        theta = RNG.normal(size=(12, 3))
        fine = Line(FINE, 0.0, 0.1)
        values = fine(theta) + 0.5 * RNG.normal(size=(12, 6))
        fitted = iv.surrogates.polynomial_model(degree=3).fit(theta, values)  # 19 products
        assert np.abs(fitted(AWAY)).max() < 10.0 * np.abs(fine(AWAY)).max()


class TestInARun:
    def test_it_is_judged_by_pairs_that_it_was_not_fitted_to(self):
        """A residual that fits all its pairs, and has no information elsewhere."""

        class Remembering(Line):
            known = None

            def __call__(self, theta):
                theta = np.ascontiguousarray(theta)
                far = super().__call__(theta)
                return np.array([(self.known or {}).get(row.tobytes(), y) for row, y in zip(theta, far, strict=True)])

            def fit(self, theta, observations):
                fitted = Remembering(self.matrix, self.shift)
                fitted.known = {row.tobytes(): y for row, y in zip(theta, observations, strict=True)}
                return fitted

        problem = posed(coarse=Remembering(MAP @ FINE, SHIFT), fine=Line())
        level = iv.correct(problem, 0.3 * THETA, "none").levels[0]
        assert level.sd["none"] > 0.5

    def test_is_refitted_by_a_run(self, make, monkeypatch):
        monkeypatch.setattr(iv.Run, "warnings", lambda self: [])
        problem = posed(coarse=make(Line(MAP @ FINE, SHIFT, 0.02)), fine=Line(cost=20.0))
        run = iv.sample(problem, draws=20, warmup=100, chains=4, seed=3, progress=False)
        found = run.report["correction"]
        assert found["sd"][found["kind"]] < 0.1 and found["sd"]["none"] < 0.2
        assert run.report["swap_accepts"][0] >= 70


class TestBadInput:
    def test_is_named(self, make):
        with pytest.raises(ValueError, match="coarse must be a forward model"):
            make(3)
        with pytest.raises(ValueError, match="theta must hold at least 10 states, got 4"):
            make().fit(THETA[:4], DATA + np.zeros((4, 6)))
        with pytest.raises(iv.ModelError, match="has not been fitted"):
            make()(THETA)
        with pytest.raises(ValueError, match="degree must be"):
            iv.surrogates.polynomial_model(degree=0)

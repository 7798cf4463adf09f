"""Polynomials of a few unknowns, for what a coarse model lacks."""

from __future__ import annotations

import numpy as np
import pytest
from two_levels import BENDS, DATA, FINE, MAP, NOISE, SHIFT, Line, exact, posed

import invsamp as iv
from invsamp.surrogates.polynomials import Polynomial, degree_for

RNG = np.random.default_rng(5)
THETA = RNG.normal(size=(60, 3))


def states(n: int = 60) -> np.ndarray:
    return np.random.default_rng(3).multivariate_normal(*exact(), n)


class TestDegree:
    @pytest.mark.parametrize(("unknowns", "degree"), [(1, 4), (2, 4), (3, 3), (5, 2), (6, 2), (7, None), (20, None)])
    def test_is_the_highest_with_a_third_as_many_products_as_pairs(self, unknowns, degree):
        assert degree_for(unknowns, 100) == degree


class TestHeld:
    def test_beyond_the_states_it_stays_what_it_is(self):
        fitted = Polynomial(2, held=True).fitted(THETA, np.einsum("bi,mij,bj->bm", THETA, BENDS, THETA))
        ends = THETA.max(axis=0) + 0.25 * np.ptp(THETA, axis=0)
        at = np.array([[0.1, 0.2, 0.3], [0.1, 50.0, 0.3], [0.1, ends[1], 0.3]])
        y, product = fitted.linearize(at)
        np.testing.assert_allclose(y[1], y[2], rtol=1e-12)
        np.testing.assert_allclose(y[0], np.einsum("i,mij,j->m", at[0], BENDS, at[0]), rtol=1e-6)
        slope = product(np.ones(y.shape))
        assert slope[1, 1] == 0.0 and abs(slope[0]).min() > 0.0
        free = Polynomial(2).fitted(THETA, np.einsum("bi,mij,bj->bm", THETA, BENDS, THETA))
        assert np.abs(free(at)[1]).max() > 100.0 * np.abs(y[1]).max()


class TestChosen:
    def test_where_it_leaves_less_on_pairs_that_were_held_out(self):
        """A bend is beyond any map of the observations; noise is beyond both."""
        level = iv.correct(posed(bend=0.1), states()).levels[0]
        assert level.kind == "polynomial" and level.sd["polynomial"] < 0.1 * level.sd["affine"]
        noise = {}

        class Noisy(Line):
            def __call__(self, theta):
                drawn = [noise.setdefault(row.tobytes(), RNG.normal(size=6)) for row in np.ascontiguousarray(theta)]
                return super().__call__(theta) + NOISE * np.array(drawn)

        level = iv.correct(posed(coarse=Noisy(MAP @ FINE, SHIFT), fine=Line(cost=20.0)), states()).levels[0]
        assert level.kind != "polynomial" and level.sd[level.kind] <= min(level.sd.values()) / 0.9

    def test_is_what_the_posterior_then_answers_with(self):
        problem = posed(bend=0.1)
        found = iv.correct(problem, states())
        at = states(200)[-20:]
        off = found.posterior.predict(at, "coarse") - problem.predict(at, "fine")
        assert np.abs(off).max() < 0.05 * np.abs(problem.predict(at, "coarse") - problem.predict(at, "fine")).max()
        assert found.posterior.check_gradient(at[0], fidelity="coarse", seed=1).passed
        assert found.posterior.forward["coarse"].work == problem.forward["coarse"].work

    def test_is_not_offered_where_unknowns_are_many(self):
        forward = {"coarse": Wide(0.9), "fine": Wide(1.0)}
        problem = iv.Posterior(iv.Prior(x=iv.Normal(0, 1, shape=9)), forward, DATA, iv.GaussianNoise(NOISE))
        at = RNG.normal(size=(60, 9))
        assert "polynomial" not in iv.correct(problem, at).levels[0].sd
        words = "a polynomial must have at most a third as many products as there are pairs, got 9 unknowns of 'coarse'"
        with pytest.raises(ValueError, match=words):
            iv.correct(problem, at, "polynomial")
        with pytest.raises(ValueError, match=words):  # before anything is solved
            iv.sample(problem, iv.samplers.surrogate_exchange(correct="polynomial"), draws=4, progress=False)

    def test_a_part_of_the_data_and_the_enhanced_error_model(self):
        class Part(Line):
            data_indices = np.array([0, 2, 3, 5])

            def __call__(self, theta):
                return super().__call__(theta)[:, self.data_indices]

            def linearize(self, theta):
                _, product = super().linearize(theta)
                return self(theta), lambda cotangent: product(cotangent @ np.eye(6)[self.data_indices])

        part = iv.correct(posed(coarse=Part(FINE, 0.3, 0.1), fine=Line(cost=20.0)), states(), "polynomial")
        off = part.posterior.predict(states(), "coarse") - part.posterior.predict(states(), "fine")
        assert np.isnan(off[:, [1, 4]]).all() and np.abs(off[:, [0, 2, 3, 5]]).max() < 0.01
        wider = iv.correct(posed(bend=0.1), states(), "polynomial", enhanced=True)
        assert wider.levels[0].enhanced and wider.levels[0].sd["polynomial"] < 0.1


class Wide:
    """Nine unknowns."""

    def __init__(self, scale):
        self.matrix = scale * np.random.default_rng(1).normal(size=(6, 9))

    def __call__(self, theta):
        return np.einsum("bk,mk->bm", theta, self.matrix)

    def linearize(self, theta):
        return self(theta), lambda cotangent: cotangent @ self.matrix


class TestWhatModelsGet:
    """Tied and fixed parameters are columns of what a model gets, and none of theta."""

    PRIOR = iv.Prior(a=iv.Normal(0, 1), b=iv.Normal(0, 1), c="a * b", d=2.0)

    class Curve:
        parameters = ("c", "a", "d", "b")

        def __init__(self, bend, work):
            self.bend, self.work = bend, work

        def __call__(self, theta):
            c, a, d, b = theta.T
            return np.column_stack([a + c, d * b, a - b + self.bend * a**2])

        def linearize(self, theta):
            _, a, d, _ = theta.T
            one, none = np.ones(len(a)), np.zeros(len(a))
            rows = [[one, one, none, none], [none, none, theta[:, 3], d]]
            rows.append([none, one + 2.0 * self.bend * a, none, -one])
            matrix = np.array(rows).transpose(2, 0, 1)
            return self(theta), lambda cotangent: np.einsum("bm,bmp->bp", cotangent, matrix)

    @pytest.mark.parametrize(
        "coarse", [Curve(0.0, 1.0), iv.surrogates.polynomial_model(Curve(0.0, 1.0))], ids=["own", "surrogate"]
    )
    def test_all_of_it_is_taken(self, coarse):
        models = {"coarse": coarse, "fine": self.Curve(0.3, 20.0)}
        problem = iv.Posterior(self.PRIOR, models, np.zeros(3), iv.GaussianNoise(NOISE))
        at = RNG.normal(size=(60, 2))
        found = iv.correct(problem, at)
        assert min(found.levels[0].sd.values()) < 0.1
        off = found.posterior.predict(at, "coarse") - found.posterior.predict(at, "fine")
        assert np.abs(off).max() < 0.05 and found.posterior.check_gradient(at[0], fidelity="coarse", seed=1).passed

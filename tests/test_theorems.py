"""Rates that theorems of the papers state, by operators on a grid or by quadrature; one is by simulation.

Each bound is compared with the order that is measured, and with a scheme or a case for which it fails.
"""

from __future__ import annotations

import numpy as np
import pytest
from operator_oracle import Level, TwoRungs, grid, on_grid, transition, wasserstein

import invsamp as iv
from invsamp.problems.mixtures import GaussianMixture

BUMPS = GaussianMixture((0.4, 0.6), (-1.2, 1.0), (0.6, 0.4))
NORMAL = GaussianMixture((1.0,), (0.0,), (1.0,))
POINTS = grid(-7.0, 7.0, 200)
LOWER, UPPER = -1.5, 1.2


def order(steps, errors):
    """Slope of the log error in the log step."""
    return np.polyfit(np.log(steps), np.log(errors), 1)[0]


def stationary(matrix):
    values, vectors = np.linalg.eig(matrix.T)
    vector = np.real(vectors[:, np.argmax(np.real(values))])
    return vector / vector.sum()


class TestDiscretization:
    """reLD, theorem B.1: with swaps at the rate a per unit of time the error is linear in the step."""

    STEPS = (0.005, 0.01, 0.02)

    def errors(self, energy_sd):
        found = []
        for step in self.STEPS:
            rungs = [Level(BUMPS, temperature, step, energy_sd=energy_sd) for temperature in (1.0, 4.0)]
            pair = TwoRungs(*rungs, iv.swaps.metropolis(), fraction=step, points=POINTS)
            found.append(wasserstein(POINTS, pair.marginal, on_grid(BUMPS, POINTS)))
        return found

    def test_the_error_is_linear_in_the_step(self):
        errors = self.errors(0.0)
        assert abs(order(self.STEPS, errors) - 1.0) < 0.1 and errors[0] < 0.01

    def test_but_not_where_swaps_ignore_the_noise_of_energies(self):
        errors = self.errors(3.0)
        assert order(self.STEPS, errors) < 0.5 and errors[0] > 0.05

    @staticmethod
    def coupled(intensity, seed, paths=4000, fine=2.0**-9, coarser=(8, 16, 32, 64)):
        """Mean squared distances from the finest steps at time 1, with one Brownian path and one clock of swaps.

        Two replicas in x^2 / 2 at temperatures 1 and 4, which are exchanged as in the theorem's eq. (B.2), (B.3).
        """
        rng, factors = np.random.default_rng(seed), (1, *coarser)
        place = np.tile([1.0, -2.0], (len(factors), paths, 1))
        turned, due = np.zeros((2, len(factors), paths), dtype=bool)
        increment, mark = np.zeros_like(place), np.zeros((len(factors), paths))
        for k in range(round(1.0 / fine)):
            increment += np.sqrt(fine) * rng.standard_normal((paths, 2))
            rings, uniform = rng.random(paths) < intensity * fine, rng.random(paths)
            due |= rings
            mark[:, rings] = uniform[rings]
            for i, factor in enumerate(factors):
                if (k + 1) % factor == 0:
                    cold, hot = np.where(turned[i], place[i].T[::-1], place[i].T) ** 2 / 2.0
                    accepted = due[i] & (mark[i] < np.exp(np.minimum(0.75 * (cold - hot), 0.0)))
                    sd = np.sqrt(np.where(turned[i][:, None], [8.0, 2.0], [2.0, 8.0]))
                    place[i] += -factor * fine * place[i] + sd * increment[i]
                    turned[i] ^= accepted
                    due[i], increment[i] = False, 0.0
        return np.array(coarser) * fine, ((place[1:] - place[0]) ** 2).sum(axis=2).mean(axis=1)

    def test_paths_are_closer_without_swaps_than_the_bound_and_farther_with_them(self):
        """The proof, eq. (D.34), takes the temperatures for equal at the start of each step: they are not, after the
        first swap that one of two coupled paths makes alone. The measured order is below one; without swaps it is 2."""
        assert abs(order(*self.coupled(0.0, 1)) - 2.0) < 0.2
        assert 0.5 < order(*self.coupled(1.0, 1)) < 0.85


def inside(points=200):
    return grid(LOWER, UPPER, points)


def reflected(potential, step, points):
    """Transition matrix of a reflected step: its Gaussian, folded into the interval."""
    mean = (points - step * potential.energy_and_gradient(points[:, None])[1][:, 0])[:, None]
    width = UPPER - LOWER
    images = [points + 2.0 * k * width for k in (-1, 0, 1)] + [2.0 * (LOWER + k * width) - points for k in (-1, 0, 1)]
    kernel = sum(np.exp(-0.25 * (image - mean) ** 2 / step) for image in images)
    return kernel / kernel.sum(axis=1, keepdims=True)


def projected(potential, step, points):
    """The same with what steps out of the interval on its ends."""
    mean = (points - step * potential.energy_and_gradient(points[:, None])[1][:, 0])[:, None]
    cell = points[1] - points[0]
    far = np.concatenate([points[0] - cell * np.arange(400, 0, -1), points, points[-1] + cell * np.arange(1, 401)])
    kernel = np.exp(-0.25 * (far - mean) ** 2 / step)
    kernel /= kernel.sum(axis=1, keepdims=True)
    middle = kernel[:, 400:-400].copy()
    middle[:, 0] += kernel[:, :400].sum(axis=1)
    middle[:, -1] += kernel[:, -400:].sum(axis=1)
    return middle


class Quadratic:
    """Energy k x^2 / 2, k (x^2 - 1)^2 / 4 for a double well."""

    def __init__(self, stiffness, *, double=False):
        self.stiffness, self.double = stiffness, double

    def energy_and_gradient(self, position):
        x, k = position[:, 0], self.stiffness
        if self.double:
            return 0.25 * k * (x**2 - 1.0) ** 2, (k * x * (x**2 - 1.0))[:, None]
        return 0.5 * k * x**2, k * position


class TestSpectralGap:
    """r2SGLD, lemma 3.5: in a convex domain the gap is at least pi^2 / diameter^2."""

    @pytest.mark.parametrize("ends", [((0.0,), (1.0,)), ((-1.5,), (1.2,)), ((0.0, -1.0), (2.0, 0.5))])
    @pytest.mark.parametrize("step", [1e-3, 0.05])
    def test_flat_densities_attain_it(self, ends, step):
        """A reflected Gaussian step multiplies cos(pi x / D) along the longest side by exp(-step pi^2 / D^2)."""
        lower, upper = map(np.array, ends)
        box, width = iv.domains.Box(lower, upper), float(upper[0] - lower[0])
        rng = np.random.default_rng(0)
        x = rng.uniform(lower, upper, (50, len(lower)))
        node, weight = np.polynomial.hermite_e.hermegauss(80)
        mean = np.zeros(len(x))
        for at, share in zip(node, weight / weight.sum(), strict=True):
            away = np.sqrt(2.0 * step) * at * np.eye(len(lower))[0]
            mean += share * np.cos(
                np.pi * (box.reflect(x, np.broadcast_to(away, x.shape)).position[:, 0] - lower[0]) / width
            )
        expected = np.exp(-step * (np.pi / width) ** 2) * np.cos(np.pi * (x[:, 0] - lower[0]) / width)
        np.testing.assert_allclose(mean, expected, atol=1e-9)

    def gap(self, potential, step=1e-3):
        values = np.sort(np.abs(np.linalg.eigvals(reflected(potential, step, inside(120)))))
        return -np.log(values[-2]) / step

    def test_it_holds_for_convex_energies_and_not_for_others(self):
        """The print asks for a convex domain alone; two wells with a barrier have a gap as small as one likes."""
        bound = (np.pi / (UPPER - LOWER)) ** 2
        gaps = [self.gap(Quadratic(k)) for k in (0.0, 1.0, 4.0, 16.0)]
        assert abs(gaps[0] / bound - 1.0) < 1e-6 and np.all(np.diff(gaps) > 0.0)
        assert self.gap(Quadratic(30.0, double=True)) < 0.2 * bound


class TestReflectedSteps:
    """r2SGLD, theorem 3.11: an error of at most step^(1/4)."""

    STEPS = (0.00125, 0.0025, 0.005, 0.01)

    def errors(self, scheme):
        points = inside(400)
        truth = on_grid(BUMPS, points)
        return [wasserstein(points, stationary(scheme(BUMPS, step, points)), truth) for step in self.STEPS]

    def test_reflection_is_of_first_order_and_projection_of_order_one_half(self):
        reflection, projection = self.errors(reflected), self.errors(projected)
        assert abs(order(self.STEPS, reflection) - 1.0) < 0.1
        assert abs(order(self.STEPS, projection) - 0.5) < 0.1
        assert reflection[-1] < 0.5 * projection[0]


class TestStronglyConvex:
    """f-reSGLD, theorem 4.2: the error falls as (1 - m step)^k to one that vanishes with the step, whatever the
    gradients' noise is; that of the swap rates stays."""

    STEPS = (0.01, 0.02, 0.04)

    def error(self, step, noise, subtracted=0.0):
        level = Level(NORMAL, 1.0, step, gradient_sd=noise, subtracted=subtracted)
        return wasserstein(POINTS, stationary(transition(level, POINTS)), on_grid(NORMAL, POINTS))

    def test_the_start_is_forgotten_at_the_rate_of_the_bound(self):
        step, distribution = 0.05, np.exp(-0.5 * ((POINTS - 3.0) / 0.5) ** 2)
        matrix, distribution = transition(Level(NORMAL, 1.0, step), POINTS), distribution / distribution.sum()
        means = []
        for _ in range(21):
            means.append(distribution @ POINTS)
            distribution = distribution @ matrix
        np.testing.assert_allclose(means, 3.0 * (1.0 - step) ** np.arange(21), rtol=1e-6)

    def test_the_noise_of_gradients_vanishes_with_the_step(self):
        errors = {noise: [self.error(step, noise) for step in self.STEPS] for noise in (0.0, 3.0, 6.0)}
        for values in errors.values():
            assert abs(order(self.STEPS, values) - 1.0) < 0.1
        # the variance is 1 + (step / 2) (1 + noise^2) and higher orders
        assert abs(errors[3.0][0] / errors[0.0][0] / 10.0 - 1.0) < 0.1
        taken_out = self.error(self.STEPS[0], 6.0, 36.0)
        assert abs(taken_out / errors[0.0][0] - 1.0) < 1e-6

    def test_that_of_swaps_stays(self):
        def error(step, rule):
            rungs = [Level(NORMAL, t, step, energy_sd=2.0) for t in (1.0, 4.0)]
            return wasserstein(POINTS, TwoRungs(*rungs, rule, points=POINTS).marginal, on_grid(NORMAL, POINTS))

        right = [error(step, iv.swaps.noise_penalty()) for step in self.STEPS]
        wrong = [error(step, iv.swaps.metropolis()) for step in self.STEPS]
        assert abs(order(self.STEPS, right) - 1.0) < 0.1
        assert abs(order(self.STEPS, wrong)) < 0.1 and min(wrong) > 20.0 * max(right)

"""Distributions on domains: MALA is exact, reflected SGLD nearly; projection and Euclidean reflections are wrong."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import truncnorm
from targets import CORRELATED, box, gaussian, moments_about, tempered, upper

from invsamp.domains import Box, HalfSpaces
from invsamp.domains.contract import Reflection
from invsamp.posing.posterior.function_potential import FunctionPotential
from invsamp.posing.posterior.target import Target
from invsamp.samplers import mala, sgld


def simplex(vertices):
    """Half-spaces of a simplex (d + 1 vertices), and quadrature points (n, d) with weights on it."""
    vertices = np.asarray(vertices, dtype=float)
    d = vertices.shape[1]
    normals, offsets = [], []
    for k in range(d + 1):
        facet = np.delete(vertices, k, axis=0)
        _, _, rows = np.linalg.svd(np.vstack([facet[1:] - facet[0], np.zeros((1, d))]))
        normal = rows[-1] if (vertices[k] - facet[0]) @ rows[-1] < 0.0 else -rows[-1]
        normals.append(normal)
        offsets.append(normal @ facet[0])
    nodes, weights = np.polynomial.legendre.leggauss(40)
    nodes, weights = (nodes + 1.0) / 2.0, weights / 2.0
    grids = np.stack(np.meshgrid(*[nodes] * d, indexing="ij"), axis=-1).reshape(-1, d)
    jacobian = np.prod(np.stack(np.meshgrid(*[weights] * d, indexing="ij"), axis=-1).reshape(-1, d), axis=1)
    # collapse the cube onto the simplex one axis after the other
    barycentric, left = np.empty((len(grids), d)), np.ones(len(grids))
    for k in range(d):
        barycentric[:, k] = left * grids[:, k]
        jacobian = jacobian * left
        left = left * (1.0 - grids[:, k])
    return HalfSpaces(normals, offsets), vertices[0] + barycentric @ (vertices[1:] - vertices[0]), jacobian


def true_moments(potential, points, weights):
    """Mean and covariance of the target restricted to the quadrature points."""
    density = tempered(potential, points, weights)
    mean = density @ points
    return mean, (points - mean).T @ ((points - mean) * density[:, None])


TRUNCATED = {
    "box 1-D": (gaussian(1.0, 0.5), box([-0.5], [1.0])),
    "interval": (gaussian(1.0, 0.5), simplex([[-0.5], [1.0]])),
    "box 2-D": (gaussian(np.linalg.inv(CORRELATED), (1.0, 0.0)), box([-1.0, -0.5], [1.2, 1.5])),
    "triangle": (gaussian(np.linalg.inv(CORRELATED), (1.0, 0.0)), simplex([[-1.0, -1.0], [2.0, 0.0], [0.5, 1.5]])),
    "tetrahedron": (
        gaussian([[2.0, 0.8, 0.0], [0.8, 1.0, -0.3], [0.0, -0.3, 3.0]], (0.5, 0.5, 0.0)),
        simplex([[-1.0, -1.0, -1.0], [1.5, 0.0, 0.0], [0.0, 1.5, 0.0], [0.0, 0.0, 2.0]]),
    ),
}


class TestTruncatedGaussian:
    """MALA along specular paths has exactly the restricted distribution."""

    @pytest.mark.parametrize("preconditioner", [None, "dense"])
    @pytest.mark.parametrize("case", TRUNCATED)
    def test_mala(self, draw, agrees, case, preconditioner):
        potential, (domain, points, weights) = TRUNCATED[case]
        mean, covariance = true_moments(potential, points, weights)
        sampler = mala(0.5 if preconditioner is None else 0.8, preconditioner=preconditioner)
        run = draw(Target(potential, domain), sampler, draws=400, thin=2, warmup=300)
        assert run.report["reflections"][0] > 1000
        assert agrees(moments_about(run, mean), np.append(mean, upper(covariance)))

    def test_quadrature_against_scipy(self):
        potential, (_, points, weights) = TRUNCATED["interval"]
        mean, covariance = true_moments(potential, points, weights)
        target = truncnorm(-1.0, 0.5, loc=0.5)
        np.testing.assert_allclose([mean[0], covariance[0, 0]], [target.mean(), target.var()], rtol=1e-10)

    def test_projection_is_rejected(self, draw, agrees):
        potential, (domain, points, weights) = TRUNCATED["box 2-D"]
        mean, covariance = true_moments(potential, points, weights)
        run = draw(Target(potential, Projecting(domain.lower, domain.upper)), mala(0.5), draws=400, thin=2, warmup=300)
        assert not agrees(moments_about(run, mean), np.append(mean, upper(covariance)))


class Projecting(Box):
    """Wrong on purpose: moves that leave are projected to the nearest face."""

    def reflect(self, position, move, metric=None):
        end = np.clip(position + move, self.lower, self.upper)
        outside = (end != position + move).any(axis=1)
        return Reflection(end, move, outside.astype(np.int64), np.zeros(len(end), dtype=bool))


class Euclidean(HalfSpaces):
    """Wrong on purpose: ignores the preconditioner in reflections."""

    def reflect(self, position, move, metric=None):
        return super().reflect(position, move)


class TestReflectedSgld:
    """Without adjustment the bar is 0.03 sd on the mean at step 0.02, with a standard error four times below that."""

    target = truncnorm(-0.5, 2.5)

    def mean_error(self, draw, domain):
        target = Target(gaussian(1.0), domain, start=lambda rng, n: self.target.rvs((n, 1), random_state=rng))
        run = draw(target, sgld(0.02), draws=100, thin=20, warmup=200, chains=2000)
        means = run.theta.mean(axis=(1, 2))
        assert means.std() / math.sqrt(len(means)) < 0.0075 * self.target.std()
        return abs(means.mean() - self.target.mean()) / self.target.std()

    def test_specular(self, draw, within):
        assert within(self.mean_error(draw, Box(-0.5, 2.5)), 0.03)

    def test_projection_is_rejected(self, draw, within):
        assert not within(self.mean_error(draw, Projecting(-0.5, 2.5)), 0.03)

    @pytest.mark.parametrize("right", [True, False])
    def test_preconditioned_moves_are_reflected_in_whitened_coordinates(self, draw, within, right):
        potential, (domain, points, weights) = TRUNCATED["triangle"]
        mean, covariance = true_moments(potential, points, weights)
        start = points[np.random.default_rng(0).choice(len(points), 4000, p=tempered(potential, points, weights))]
        domain = domain if right else Euclidean(domain.normals, domain.offsets)
        sampler = sgld(0.02, preconditioner="dense")
        run = draw(Target(potential, domain, start), sampler, draws=100, thin=10, warmup=200, chains=1000)
        errors = np.abs(run.theta.mean(axis=(0, 1)) - mean) / np.sqrt(np.diag(covariance))
        assert bool(within(errors, 0.03)) == right


def test_failed_solves_cut_the_target(draw, agrees):
    """A potential that cannot be solved on one side is sampled on the other, by MALA exactly."""

    def function(position):
        x = position[:, 0]
        failed = x > 0.7
        return np.where(failed, np.nan, 0.5 * x**2), np.where(failed, np.inf, x)[:, None]

    potential = FunctionPotential(function, 1)
    run = draw(Target(potential), mala(0.8), draws=500, thin=2)
    target = truncnorm(-np.inf, 0.7)
    truth = [target.mean(), target.var()]
    assert run.report["failed_solves"]["target"] > 1000
    assert (run.theta < 0.7).all()
    assert agrees(moments_about(run, target.mean() * np.ones(1)), truth)
    # a reflecting bound at the same place, without adjustment at a large step, gives another distribution
    bounded = draw(Target(gaussian(1.0), Box(-np.inf, 0.7)), sgld(0.8), draws=500, thin=2)
    assert not agrees(moments_about(bounded, target.mean() * np.ones(1)), truth)

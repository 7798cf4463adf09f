"""The distributions of reflected samplers on truncated Gaussians with known moments, and of wrong reflections.

Each target is a linear map theta = A z of independent truncated normals z, so that its bounds are oblique and its
coordinates correlated, and its mean and covariance still have a closed form.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pytest
from scipy.stats import truncnorm

from invsamp.domains import HalfSpaces
from invsamp.posing.posterior.function_potential import FunctionPotential
from invsamp.posing.posterior.target import Target
from invsamp.samplers import mala, sghmc, sgld

#: Bars on the errors of means, in sds, and on the relative errors of sds.
UNADJUSTED, ADJUSTED = (0.03, 0.02), (0.01, 0.01)


@dataclass(frozen=True, eq=False)
class Truncated:
    """Distribution of A z, with z_i a standard normal above ``cuts[i]``."""

    factor: npt.NDArray[np.float64]  # A
    cuts: npt.NDArray[np.float64]

    @property
    def mean(self):
        return self.factor @ truncnorm(self.cuts, np.inf).mean()

    @property
    def sd(self):
        return np.sqrt(self.factor**2 @ truncnorm(self.cuts, np.inf).var())

    def target(self, kind=HalfSpaces):
        inverse = np.linalg.inv(self.factor)
        precision = inverse.T @ inverse

        def function(position):
            pull = position @ precision
            return 0.5 * (pull * position).sum(axis=1), pull

        z = truncnorm(self.cuts, np.inf).rvs((4000, len(self.cuts)), random_state=np.random.default_rng(0))
        domain = kind(-inverse, -self.cuts)
        start = z @ self.factor.T
        return Target(FunctionPotential(function, len(self.cuts)), domain, start[domain.contains(start)])

    def errors(self, run):
        """Errors of the means in sds and relative ones of the sds, root mean squares over the coordinates.

        Each with the largest standard error of a coordinate.
        """
        away = (run.theta - self.mean) / self.sd
        chains = math.sqrt(len(away))
        means, squares = away.mean(axis=1), (away**2).mean(axis=1)
        variances = squares.mean(axis=0) - means.mean(axis=0) ** 2
        return (
            np.sqrt(np.mean(means.mean(axis=0) ** 2)),
            means.std(axis=0).max() / chains,
            np.sqrt(np.mean((np.sqrt(variances) - 1.0) ** 2)),
            0.5 * squares.std(axis=0).max() / chains,
        )


def correlated(dimension):
    """Factor whose columns differ in scale by 3 and point into each other's half-spaces; the same for all seeds."""
    mixing = np.random.Generator(np.random.PCG64(dimension)).standard_normal((dimension, dimension))
    return (np.eye(dimension) + 0.7 * mixing / math.sqrt(dimension)) * np.geomspace(1.0, 3.0, dimension)


TARGETS = {d: Truncated(correlated(d), np.linspace(-1.0, 0.5, d) if d > 1 else np.zeros(1)) for d in (1, 3, 10)}


class Euclidean(HalfSpaces):
    """Wrong on purpose: ignores the preconditioner in reflections."""

    def reflect(self, position, move, metric=None):
        return super().reflect(position, move)


@pytest.fixture
def keeps(within):
    """Whether the bars are kept, by a run whose standard errors are a third of them at most."""

    def check(errors, bars):
        mean, mean_error, sd, sd_error = errors
        verdict = bool(within([mean, sd], bars))
        if verdict:
            assert mean_error < bars[0] / 3.0
            assert sd_error < bars[1] / 3.0
        return verdict

    return check


@pytest.mark.parametrize("dimension", [1, 3, pytest.param(10, marks=pytest.mark.slow)])
class TestHalfSpaces:
    """At step 0.02, in whitened coordinates."""

    def run(self, draw, target, sampler, draws, thin):
        return draw(target, sampler, draws=draws, thin=thin, warmup=300, chains=1024)

    def reflected(self, draw, target, boundary="reflect", draws=200):
        sampler = sgld(0.02, preconditioner="dense", boundary=boundary)
        return self.run(draw, target, sampler, draws, 20)

    def test_sgld(self, draw, keeps, dimension):
        target = TARGETS[dimension]
        assert keeps(target.errors(self.reflected(draw, target.target())), UNADJUSTED)

    def test_projection_is_rejected(self, draw, keeps, dimension):
        target = TARGETS[dimension]
        assert not keeps(target.errors(self.reflected(draw, target.target(), "project", 60)), UNADJUSTED)

    def test_reflection_without_the_metric_is_rejected(self, draw, keeps, dimension):
        target = TARGETS[dimension]
        right = dimension == 1  # a single bound in one dimension reflects every move alike
        assert keeps(target.errors(self.reflected(draw, target.target(Euclidean))), UNADJUSTED) == right

    def test_mala(self, draw, keeps, dimension):
        target = TARGETS[dimension]
        run = self.run(draw, target.target(), mala(preconditioner="dense"), 300, {1: 3, 3: 4, 10: 9}[dimension])
        assert keeps(target.errors(run), ADJUSTED)

    def test_momentum(self, draw, keeps, dimension):
        target = TARGETS[dimension]
        sampler = sghmc(0.02, friction=0.2, preconditioner="dense")
        assert keeps(target.errors(self.run(draw, target.target(), sampler, 200, 10)), UNADJUSTED)


@pytest.mark.slow
def test_mala_without_preconditioner(draw, keeps):
    """The bounds are oblique in the coordinates of the moves, too."""
    target = TARGETS[3]
    run = draw(target.target(), mala(preconditioner=None), draws=400, thin=11, warmup=300, chains=1024)
    assert keeps(target.errors(run), ADJUSTED)

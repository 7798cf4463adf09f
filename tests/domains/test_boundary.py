"""Boundaries: the distributions of reflection, penalties and no boundary, and projection, which is wrong."""

from __future__ import annotations

import math

import numpy as np
import pytest
from functions import square

from invsamp import GaussianNoise, LogNormal, Posterior, Prior, Uniform, finite_differences
from invsamp.domains import Box, HalfSpaces, Polygon, constraint
from invsamp.domains.boundary import Ignore, Penalize, Project, Reflect, as_boundary, penalized, projected
from invsamp.estimators import minibatch, noisy
from invsamp.ladder import Rung, Sampler
from invsamp.posing.posterior.function_potential import FunctionPotential, SumPotential
from invsamp.posing.posterior.target import Target
from invsamp.samplers import cyclic_sgld, fast_resgld, mala, parallel_tempering, r2sgld, resgld, sghmc, sgld
from invsamp.sampling import sample

WEDGE = HalfSpaces([[1.0, 1.0], [-1.0, 0.5], [0.3, -1.0]], [0.5, 0.5, 1.5])
TARGET = Target(FunctionPotential(square, 2), WEDGE)
LADDER = {"temperatures": (1.0, 4.0), "step_size": (0.02, 0.05), "estimator": noisy(0.05, 0.05)}
#: The papers' names, as the documentation maps them.
PAPERS = {
    "SGLD": sgld(0.02, boundary="ignore"),
    "P-SGLD": sgld(0.02, boundary=penalized(5.0)),
    "R-SGLD": sgld(0.02),
    "cycSGLD": cyclic_sgld(0.05, cycles=5, boundary="ignore"),
    "P-cycSGLD": cyclic_sgld(0.05, cycles=5, boundary=penalized(5.0)),
    "R-cycSGLD": cyclic_sgld(0.05, cycles=5),
    "SGHMC": sghmc(0.02, boundary="ignore"),
    "R-SGHMC": sghmc(0.02),
    "reSGLD": resgld(**LADDER, boundary="ignore"),
    "P-reSGLD": resgld(**LADDER, boundary=penalized(5.0)),
    "r2SGLD": r2sgld(**LADDER),
    "projected": sgld(0.02, boundary="project"),
}


@pytest.mark.parametrize("name", PAPERS)
def test_papers(name, draw):
    sampler = PAPERS[name]
    run = draw(TARGET, sampler, draws=100, thin=2, warmup=200, chains=64)
    report, draws = run.report, [run.rung_theta(k).reshape(-1, 2) for k in range(run.rungs)]
    inside = [float(WEDGE.contains(theta).mean()) for theta in draws]
    assert report["outside"] == pytest.approx([1.0 - share for share in inside], abs=1e-12)
    assert run.rungs == (2 if "reSGLD" in name or name == "r2SGLD" else 1)
    bounds = np.column_stack([draws[0] @ WEDGE.normals.T - WEDGE.offsets])
    on_boundary = (np.abs(bounds) < 1e-9).any(axis=1).mean()
    if name.startswith(("R-", "r2")):
        assert report["boundary"] == "reflect"
        assert inside == [1.0] * run.rungs
        assert all(count > 100 for count in report["reflections"])
        assert on_boundary == 0.0
    elif name == "projected":
        assert inside == [1.0]
        assert on_boundary > 0.05
    else:
        # without a boundary 62% of the Gaussian is outside; the penalty keeps draws close by
        assert report["reflections"] == [0] * run.rungs
        reach = bounds.max(axis=1)
        if name.startswith("P-"):
            assert report["boundary"] == "penalty 5"
            assert 0.1 < report["outside"][0] < 0.5
            assert reach.max() < 2.0
        else:
            assert report["boundary"] == "ignore"
            assert report["outside"][0] > 0.5
            assert reach.max() > 3.0


class TestTargets:
    """With adjusted kernels, so that the distributions do not depend on the step."""

    @pytest.mark.parametrize("temperatures", [None, (1.0, 3.0)])
    def test_penalty(self, draw, agrees, temperatures):
        strength, bound = 4.0, 0.3
        boundary = penalized(strength)
        make = (
            mala(1.0, boundary=boundary)
            if temperatures is None
            else parallel_tempering(temperatures, 1.0, swap_fraction=0.5, boundary=boundary)
        )
        target = Target(FunctionPotential(square, 1), Box(-np.inf, bound))
        run = draw(target, make, draws=500, thin=2, warmup=200)
        for rung in range(run.rungs):
            tau = run.report["temperatures"][rung]
            theta = run.rung_theta(rung)[..., 0]
            moments = np.stack([theta.mean(axis=1), (theta**2).mean(axis=1), (theta > bound).mean(axis=1)], axis=1)
            assert agrees(moments, self.moments(strength, bound, tau))
            assert not agrees(moments, self.moments(strength / 2.0, bound, tau))
            assert run.report["outside"][rung] == pytest.approx((theta > bound).mean(), rel=1e-12)

    def moments(self, strength, bound, temperature):
        """Mean, mean square and the share outside, by quadrature."""
        x = np.linspace(-12.0, 12.0, 200_001)
        density = np.exp(-(0.5 * x**2 + strength * np.maximum(x - bound, 0.0) ** 2) / temperature)
        density /= density.sum()
        return [density @ x, density @ x**2, density @ (x > bound)]

    def test_ignore(self, draw, agrees):
        run = draw(TARGET, mala(0.8, boundary="ignore"), draws=400, thin=2, warmup=200)
        moments = np.concatenate([run.theta.mean(axis=1), (run.theta**2).mean(axis=1)], axis=1)
        assert agrees(moments, [0.0, 0.0, 1.0, 1.0])
        reflected = draw(TARGET, mala(0.8), draws=400, thin=2, warmup=200)
        assert not agrees(reflected.theta.mean(axis=1), [0.0, 0.0])

    def test_projection_piles_up_by_the_root_of_its_step(self, draw):
        """Flat energy: P(on the boundary) is about the mean overshoot over the width, sqrt(2 step / pi) / width."""
        flat = FunctionPotential(lambda p: (np.zeros(len(p)), np.zeros_like(p)), 1)
        shares = []
        for step in (0.004, 0.001):
            run = draw(Target(flat, Box(0.0, 1.0)), sgld(step, boundary="project"), draws=200, thin=20, warmup=500)
            shares.append(float(np.isin(run.theta, [0.0, 1.0]).mean()))
        assert shares[0] > 0.08
        assert shares[0] / shares[1] == pytest.approx(2.0, rel=0.1)

    def test_nearest_points_are_inside_whatever_rounding_says(self, draw):
        """Sides that are no round numbers: half of the nearest points fall outside by a rounding."""
        angle = 2.0 * np.pi * np.arange(7) / 7.0
        heptagon = Polygon(1.3 * np.column_stack([np.cos(angle), np.sin(angle)]))
        target = Target(FunctionPotential(square, 2), heptagon)
        run = draw(target, sgld(0.3, boundary="project"), draws=50, warmup=50)
        on_wall = ~heptagon.contains(0.999 * run.theta.reshape(-1, 2)) | ~heptagon.contains(
            1.001 * run.theta.reshape(-1, 2)
        )
        assert on_wall.mean() > 0.2

    def test_ignore_is_reflect_without_a_domain(self, draw):
        free = Target(FunctionPotential(square, 2))
        start = np.zeros(2)
        runs = [draw(free, fast_resgld((1.0, 4.0), 0.1), draws=30, warmup=50, start=start)]
        runs += [
            draw(problem, fast_resgld((1.0, 4.0), 0.1, boundary="ignore"), draws=30, warmup=50, start=start)
            for problem in (free, TARGET)
        ]
        for run in runs[1:]:
            np.testing.assert_array_equal(run.theta, runs[0].theta)

    def test_penalty_of_a_sum_over_data(self, draw, agrees):
        """Minibatches include the penalty in the prior: the distribution is that of the whole sum."""
        data = np.linspace(-1.0, 1.0, 20)

        def term(position, batch):
            away = position - batch
            return 0.5 * away**2, away[:, :, None]

        target = Target(SumPotential(data, term, 1), Box(-np.inf, 0.0), start=np.full((1, 1), -0.1))
        step, strength = 0.002, 30.0
        settings = {"draws": 150, "thin": 20, "warmup": 400}
        moments = [
            draw(target, sgld(step, boundary=penalized(strength), **more), **settings).theta.mean(axis=1)
            for more in ({}, {"estimator": minibatch(10)})
        ]
        spread = moments[0].std() / math.sqrt(len(moments[0]))
        assert agrees(moments[1], moments[0].mean(), spread)
        assert not agrees(moments[1], 0.0, spread)


def line(**settings):
    """Posterior of a line with a positive slope and an intercept in an interval, near the edge of its domain."""
    prior = Prior(slope=LogNormal(0.0, 1.0), intercept=Uniform(-1.0, 1.0))
    x = np.linspace(0.0, 1.0, 5)
    model = finite_differences(lambda theta: theta[:, :1] * x + theta[:, 1:])
    return Posterior(prior, model, 0.6 * x + 0.3, GaussianNoise(0.2), **settings)


class TestPosterior:
    constraint = constraint("slope + intercept < 0.8")

    def test_ignoring_keeps_the_coordinates_and_the_support(self, draw):
        problem = line(domain=self.constraint)
        start = {"slope": 0.4, "intercept": 0.2}
        run = draw(problem, mala(0.05, boundary="ignore"), draws=300, chains=64, start=start)
        # the slope is sampled as itself, as in the domain, not as its logarithm
        free = line(transforms={"slope": "identity"})
        np.testing.assert_array_equal(run.theta, draw(free, mala(0.05), draws=300, chains=64, start=start).theta)
        slope, intercept = run.theta[..., 0], run.theta[..., 1]
        assert (slope > 0.0).all()
        assert (np.abs(intercept) <= 1.0).all()
        assert run.report["outside"] == [pytest.approx((slope + intercept > 0.8).mean())]
        assert 0.3 < run.report["outside"][0] < 0.95
        assert run.report["failed_solves"] == {"model": 0}

    @pytest.mark.parametrize("boundary", ["reflect", "project", penalized(200.0)])
    def test_others(self, draw, boundary):
        # adjusted: near a slope of zero the prior's density falls too steeply for plain steps
        sampler = parallel_tempering((1.0, 3.0), 0.005, boundary=boundary)
        run = draw(line(domain=self.constraint), sampler, draws=100, warmup=100, chains=64)
        excess = (run.theta.sum(axis=2) - 0.8) / math.sqrt(2.0)
        if isinstance(boundary, Penalize):
            assert run.report["outside"][0] == pytest.approx((excess > 0.0).mean())
            assert 0.05 < run.report["outside"][0] < 0.6
            assert excess.max() < 6.0 * math.sqrt(1.0 / 400.0)
        else:
            assert excess.max() <= 1e-12
            assert bool((excess > -1e-9).any()) == (boundary == "project")


class TestStart:
    outside = np.array([[0.0, 0.0], [3.0, 3.0]])

    def test_outside_is_refused_with_reflection(self):
        for sampler in (mala(), sgld(0.1, boundary="project")):
            with pytest.raises(ValueError, match=r"start must lie inside the domain .*, got \[3.0, 3.0\] for chain 1"):
                sample(TARGET, sampler, start=self.outside, chains=2, progress=False)

    @pytest.mark.parametrize("boundary", ["ignore", penalized(2.0)])
    def test_a_start_outside_is_valid_without_bounds(self, draw, boundary):
        run = draw(TARGET, sgld(1e-12, boundary=boundary), draws=1, warmup=0, chains=2, start=self.outside)
        np.testing.assert_allclose(run.theta[:, 0], self.outside, atol=1e-4)
        assert run.report["outside"] == [0.5]

    @pytest.mark.parametrize("boundary", ["ignore", penalized(2.0), "project", "reflect"])
    def test_other_starts_lie_inside(self, draw, boundary):
        run = draw(TARGET, resgld((1.0, 4.0), 1e-12, boundary=boundary), draws=1, warmup=0)
        assert all(WEDGE.contains(run.rung_theta(k)[:, 0] * (1.0 - 1e-3)).all() for k in range(2))


class TestParts:
    def test_names(self):
        assert as_boundary("reflect") == Reflect() == Sampler([Rung()]).boundary
        assert as_boundary("ignore") == Ignore()
        assert as_boundary("project") == projected() == Project()
        assert as_boundary(penalized(2.0)) == Penalize(2.0)
        assert "boundary penalty 2" in str(mala(boundary=penalized(2.0)))
        assert mala(boundary="ignore") == mala(boundary=Ignore()) != mala()

    @pytest.mark.parametrize("boundary", ["reflected", None, 3.0, Reflect, penalized])
    def test_unknown(self, boundary):
        with pytest.raises(ValueError, match=r"boundary must be one of .*'ignore'.* or penalized\(strength\), got"):
            mala(boundary=boundary)

    @pytest.mark.parametrize("strength", [0.0, -1.0, math.nan, math.inf, "strong"])
    def test_strength(self, strength):
        with pytest.raises(ValueError, match=f"strength must be a positive finite number, got {strength!r}"):
            penalized(strength)

    def test_problems_that_cannot_do_without_their_domain(self):
        class ReflectingDomain:
            """A problem of a user's own."""

            def __getattr__(self, name):
                if name == "without_domain":
                    raise AttributeError(name)
                return getattr(TARGET, name)

        with pytest.raises(
            ValueError, match=r"boundary 'ignore' needs a problem that .*without_domain\(\).*ReflectingDomain"
        ):
            Ignore().apply(ReflectingDomain())

"""Runs whose steps are made in the coordinates of transport maps: draws are exact, and runs go on to the bit."""

from __future__ import annotations

import numpy as np
import pytest

import invsamp as iv
from invsamp.engine.adaptation.coordinate_learning import _precise
from invsamp.engine.driver import serialization
from invsamp.engine.driver.engine import Engine
from invsamp.engine.ensemble.run_settings import Plan
from invsamp.kernels import Microcanonical
from invsamp.kernels.metric import DenseMetric
from invsamp.kernels.mode_jumps import ModeJumps
from invsamp.posing.posterior.function_potential import FunctionPotential
from invsamp.posing.posterior.target import Target
from invsamp.samplers import parallel_tempering
from invsamp.transport import TransportMap
from invsamp.transport.triangular import Image

pytestmark = pytest.mark.filterwarnings("ignore:(R-hat|ess_|the sd of|rungs|no replica)")


def funnel(x):
    """v ~ N(0, 1), two numbers N(0, e^2v)."""
    v, rest = x[:, 0], x[:, 1:]
    with np.errstate(over="ignore", invalid="ignore"):
        squares = np.square(rest).sum(axis=1) * np.exp(-2.0 * v)
        slope = np.column_stack([v - squares + 2.0, rest * np.exp(-2.0 * v)[:, None]])
        energy = 0.5 * v**2 + 0.5 * squares + 2.0 * v
    failed = ~(np.isfinite(energy) & np.isfinite(slope).all(axis=1))
    slope[failed] = 0.0
    return np.where(failed, np.inf, energy), slope


FUNNEL = Target(FunctionPotential(funnel, 3), names=("v", "a", "b"))
MAPPED = iv.transport_map()
#: Of v, v^2, v^3, and of the squares of the others, whose logs are v and that of a squared normal number.
TRUTH = (0.0, 1.0, 0.0, -1.2703628454614782, 1.0 + np.pi**2 / 8.0)


def moments(run):
    """Of each chain."""
    v, half_log = run.theta[..., 0], 0.5 * np.log(np.square(run.theta[..., 1:]))
    half_log = half_log.mean(axis=2)
    mean = half_log.mean(axis=1)
    return np.stack(
        [*((v**k).mean(axis=1) for k in (1, 2, 3)), 2.0 * mean, (v * half_log).mean(axis=1) + np.pi**2 / 8.0], axis=1
    )


def mapped_last(run, rung=0):
    return run.report["coordinates"][rung]["family"]


SAMPLERS = {"mams": iv.mams, "hmc": iv.hmc, "mala": iv.mala, "ghmc": iv.samplers.ghmc}
SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in SAMPLERS if name != "mams"]


class TestDraws:
    def run(self, draw, name, **more):
        settings = {"draws": 60, "warmup": 200} | more
        return draw(FUNNEL, SAMPLERS[name](preconditioner=MAPPED), **settings)

    @pytest.mark.parametrize("name", ["mams", *SLOW])
    def test_are_those_of_a_funnel(self, draw, agrees, name):
        run = self.run(draw, name)
        assert mapped_last(run) == "triangular"
        assert agrees(moments(run), TRUTH)

    def test_of_a_wrong_jacobian_are_not(self, draw, agrees, monkeypatch):
        right = TransportMap.forward

        def wrong(self, z):
            image = right(self, z)
            return Image(image.u, 0.8 * image.log_det, image.kept)

        monkeypatch.setattr(TransportMap, "forward", wrong)
        assert not agrees(moments(self.run(draw, "mams")), TRUTH)

    def test_of_a_ladder(self, draw, agrees):
        """Swaps exchange positions, so each rung may have a map of its own."""
        run = draw(FUNNEL, parallel_tempering((1.0, 1.5, 2.0), preconditioner=MAPPED), draws=60, warmup=200)
        assert {mapped_last(run, k) for k in range(3)} == {"triangular"}
        assert agrees(moments(run), TRUTH)

    def test_with_jumps_between_modes(self, draw, agrees):
        """Jumps are made in positions: what they are accepted by is the energy there."""
        centers = np.array([[-1.0, 0.0, 0.0], [1.0, 0.0, 0.0]])
        factors = np.stack([np.diag([0.7, 0.4, 0.4]), np.diag([0.7, 2.5, 2.5])])
        kernel = ModeJumps(Microcanonical(), centers, factors)
        sampler = iv.ladder.Sampler([iv.ladder.Rung(kernel=kernel)], preconditioner=MAPPED)
        run = draw(FUNNEL, sampler, draws=60, warmup=200)
        assert run.data.sample_stats["jumped"].mean() > 0.1
        assert agrees(moments(run), TRUTH)


@pytest.mark.parametrize(
    "sampler", [iv.mams(preconditioner=MAPPED), parallel_tempering((1.0, 2.0), preconditioner=MAPPED)]
)
def test_goes_on_bit_for_bit(sampler):
    plan, kept, expected = Plan(draws=20, warmup=160, thin=1, chains=4, seed=3), {}, []
    whole = Engine(FUNNEL, sampler, plan)
    whole.begin()
    for k in range(plan.steps):
        if k in (10, 90, 130, 165):
            kept[k] = serialization.encode(whole.state())
        whole.step()
        expected.append([rung.position for rung in whole.rungs])
    assert whole.rungs[0].mapped is not None
    for k, data in kept.items():
        again = Engine(FUNNEL, sampler, plan)
        again.restore(serialization.decode(data))
        for k_next in range(k, plan.steps):
            again.step()
            np.testing.assert_equal([rung.position for rung in again.rungs], expected[k_next])


def test_normal_targets_keep_linear_coordinates(draw):
    target = Target(FunctionPotential(lambda x: (0.5 * np.square(x).sum(axis=1), x), 3))
    run = draw(target, iv.mams(preconditioner=MAPPED), draws=20, warmup=150, chains=16)
    assert mapped_last(run) == "linear" and run.report["coordinates"][0]["divergence"] < 0.05
    assert "coordinates: linear, Fisher divergence J" in str(run)


@pytest.mark.parametrize(("bend", "fits"), [("parabola", True), ("exponential", False)])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_map_that_does_not_fit_is_a_warning(bend, fits):
    """On a ridge that is no parabola chains turn back where the map leaves it, all alike."""

    def ridge(z):
        x = z[:, 0]
        with np.errstate(over="ignore", invalid="ignore"):
            height, slope = (x**2, 2.0 * x) if fits else (np.exp(2.0 * x), 2.0 * np.exp(2.0 * x))
            away = (z[:, 1] - height) / 0.01
            return 0.5 * x**2 + 0.005 * away**2, np.column_stack([x - slope * away, away])

    target = Target(FunctionPotential(ridge, 2))
    settings = {"draws": 200, "warmup": 500, "chains": 8, "seed": 2, "progress": False}
    run = iv.sample(target, iv.mams(preconditioner=MAPPED), **settings)
    assert mapped_last(run) != "linear"
    messages = [text for text in run.warnings() if "the transport map (" in text]
    assert bool(messages) == (not fits)
    unfit = run.report["coordinates"][0]["unfit"]
    assert unfit == 0.0 if fits else unfit > 0.002 and f"does not fit at {unfit:.2%} of the draws" in str(run)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("kinked", [False, True])
def test_a_map_is_tried_deep_in_the_neck(kinked):
    """It fits there where the scale goes on as at the draws, and does not where it falls faster beyond them."""

    def scaled(z):
        v, rest = z[:, 0], z[:, 1:]
        with np.errstate(over="ignore", invalid="ignore"):
            log = v - 4.0 * kinked * np.logaddexp(0.0, -2.0 - v)
            slope = 1.0 + 4.0 * kinked / (1.0 + np.exp(2.0 + v))
            squares = np.square(rest).sum(axis=1) * np.exp(-2.0 * log)
            gradient = np.column_stack([v + (2.0 - squares) * slope, rest * np.exp(-2.0 * log)[:, None]])
        return 0.5 * v**2 + 0.5 * squares + 2.0 * log, gradient

    target = Target(FunctionPotential(scaled, 3))
    settings = {"draws": 50, "warmup": 500, "chains": 8, "seed": 1, "progress": False}
    run = iv.sample(target, iv.mams(preconditioner=MAPPED), **settings)
    assert mapped_last(run) == "triangular"
    unmatched = run.report["coordinates"][0]["unmatched"]
    assert unmatched > 0.01 if kinked else unmatched < 1e-6


class TestRefused:
    def test_other_kernels(self):
        with pytest.raises(ValueError, match="for the kernel Langevin"):
            iv.sample(FUNNEL, iv.samplers.sgld(preconditioner=MAPPED), draws=10, warmup=100, progress=False)

    def test_bounds(self):
        bounds = Target(FunctionPotential(funnel, 3), domain=iv.domains.Box([-5.0] * 3, [5.0] * 3))
        with pytest.raises(ValueError, match=r"transport_map\(\) where moves are reflected at bounds"):
            iv.sample(bounds, iv.mams(preconditioner=MAPPED), draws=10, warmup=100, progress=False)

    def test_many_unknowns(self):
        many = Target(FunctionPotential(lambda x: (0.5 * np.square(x).sum(axis=1), x), 51))
        with pytest.raises(ValueError, match="more than 50 unknowns, got 51"):
            iv.sample(many, iv.mams(preconditioner=MAPPED), draws=10, warmup=100, progress=False)


def test_a_metric_whose_matrix_is_singular_to_rounding_has_an_inverse() -> None:
    factor = np.array([[1.0, 0.0], [1.0, 1e-10]])
    found = _precise(DenseMetric(factor), np.array([[1.0, 1.0], [0.0, 1e-10]]))
    assert found == pytest.approx(np.array([[1.0, 0.0], [-1e10, 1e10]]))

"""Rungs and samplers are plain data that refuse what cannot work."""

from __future__ import annotations

import math

import numpy as np
import pytest

from invsamp.estimators import exact, minibatch, noisy
from invsamp.kernels import Langevin
from invsamp.kernels.schedules import constant
from invsamp.ladder import GradientNoise, Rung, Sampler, Swap, geometric
from invsamp.tempering.checks import check_temperatures
from invsamp.variances.models import kernel_ridge, running_average


@pytest.mark.parametrize(
    ("temperatures", "message"),
    [
        ((), "temperatures must have at least one entry, got none"),
        ((2.0, 4.0), r"temperatures must start at 1 \(the posterior\), got 2.0"),
        ((math.nan, 4.0), "temperatures must be finite numbers, got nan at index 0"),
        ((1.0, 4.0, 2.0), "temperatures must increase, got 4.0 before 2.0 at index 2"),
        ((1.0, 1.0), "temperatures must increase, got 1.0 before 1.0 at index 1"),
        ((1.0, math.nan), "temperatures must be finite numbers, got nan at index 1"),
        ((1.0, math.inf), "temperatures must be finite numbers, got inf at index 1"),
    ],
)
def test_temperatures(temperatures, message):
    for given in (temperatures, np.array(temperatures)):
        with pytest.raises(ValueError, match=message):
            check_temperatures(given)
    check_temperatures(np.array([1.0, 3.0]))


def test_geometric_ladder():
    ladder = geometric(8.0, 4)
    assert ladder == pytest.approx((1.0, 2.0, 4.0, 8.0))
    check_temperatures(ladder)
    for hottest, rungs, message in (
        (1.0, 3, "max_temperature must be a finite number > 1"),
        (8.0, 1, "rungs must be an integer"),
    ):
        with pytest.raises(ValueError, match=message):
            geometric(hottest, rungs)


class TestRung:
    @pytest.mark.parametrize("temperature", [0.5, -1.0, math.nan, math.inf])
    def test_temperature(self, temperature):
        with pytest.raises(
            ValueError,
            match=rf"target must be a finite number >= 1, or a target such as tempered_likelihood.*got {temperature}",
        ):
            Rung(temperature)

    @pytest.mark.parametrize("step_size", [0.0, -0.1, math.nan, math.inf, "small", np.array([0.1, 0.2])])
    def test_step_size(self, step_size):
        with pytest.raises(ValueError, match="step_size must be a positive finite number, a schedule or None, got"):
            Rung(step_size=step_size)

    @pytest.mark.parametrize("step_size", [0.1, 1, np.float32(0.1), constant(0.1), None])
    def test_step_sizes_that_work(self, step_size):
        assert Rung(step_size=step_size).step_size == step_size

    def test_fidelity(self):
        with pytest.raises(ValueError, match=r"levels below the finest, .*name of a fidelity, got -1"):
            Rung(fidelity=-1)

    @pytest.mark.parametrize("estimator", [noisy(1.0), minibatch(5)])
    def test_adjusted_kernels_refuse_noise(self, estimator):
        with pytest.raises(ValueError, match=r"an adjusted kernel .* needs exact energies, got the estimator"):
            Rung(estimator=estimator, kernel=Langevin(adjusted=True))

    def test_probes(self):
        with pytest.raises(ValueError, match="probes must be an integer >= 2, got 1"):
            Rung(probes=1)

    def test_learns_only_where_there_is_noise_and_a_model_that_learns(self):
        assert not Rung(estimator=noisy(1.0)).learns_variance
        assert Rung(estimator=noisy(1.0), energy_variance=running_average()).learns_variance
        assert Rung(estimator=noisy(1.0), gradient_noise=GradientNoise(kernel_ridge())).learns_variance
        assert not Rung(estimator=exact(), energy_variance=running_average()).learns_variance


def test_structure_of_gradient_noise():
    with pytest.raises(ValueError, match=r"structure must be one of .*, got 'dense'"):
        GradientNoise(structure="dense")


@pytest.mark.parametrize("fraction", [0.0, -0.1, 1.1, math.nan])
def test_swap_fraction(fraction):
    with pytest.raises(ValueError, match=rf"fraction must be a number in \(0, 1\], got {fraction}"):
        Swap(fraction=fraction)


class TestSampler:
    def test_prints_and_compares_its_parts(self):
        made = [Sampler([Rung(step_size=0.1), Rung(4.0, step_size=0.2)], Swap(fraction=0.5)) for _ in range(2)]
        assert made[0] == made[1]
        assert "temperature=4.0" in repr(made[0])
        assert made[0] != Sampler(made[0].rungs)

    def test_temperatures(self):
        with pytest.raises(ValueError, match=r"temperatures must increase, got 4.0 before 3.0 at index 2"):
            Sampler((Rung(), Rung(4.0), Rung(3.0)))
        with pytest.raises(ValueError, match="rungs must be a sequence of Rung of at least one entry"):
            Sampler(())

    def test_preconditioner(self):
        with pytest.raises(ValueError, match=r"preconditioner must be one of 'auto', .*'dense', got 'full'"):
            Sampler((Rung(),), preconditioner="full")

    def test_auto_depends_on_the_number_of_parameters_where_no_step_is_given(self):
        sampler = Sampler((Rung(), Rung(2.0)), preconditioner="auto")
        assert [sampler.preconditioner_at(d) for d in (1, 1000, 1001)] == ["dense", "dense", "diagonal"]
        assert Sampler((Rung(), Rung(2.0, step_size=0.1)), preconditioner="auto").preconditioner is None
        assert "preconditioner auto (dense up to 1000 parameters)" in str(sampler)

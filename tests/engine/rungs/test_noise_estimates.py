"""What is learned of the noise: by each fidelity for itself, by rungs of one fidelity together."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from functions import square

from invsamp.diagnostics.checks import diagnose
from invsamp.domains import Box
from invsamp.engine.driver.engine import Engine
from invsamp.engine.ensemble.run_settings import Plan
from invsamp.engine.rungs.noise_estimates import NoiseModels
from invsamp.estimators import exact, noisy
from invsamp.ladder import GradientNoise, Rung, Sampler, Swap
from invsamp.posing.posterior.function_potential import FunctionPotential
from invsamp.posing.posterior.target import Target
from invsamp.samplers import fast_resgld
from invsamp.swaps.rules import delayed_acceptance
from invsamp.variances.models import kernel_ridge, known, running_average


def shifted(position):
    """The same with an energy that is higher by 50, which is what the noise below depends on."""
    energy, gradient = square(position)
    return energy + 50.0, gradient


def louder_on_the_coarse(position, energy):
    """Sd 1 to 2 where the energy is that of the fine model, ten times as much where it is that of the coarse one."""
    return (1.0 + 1.0 / (1.0 + position[:, 0] ** 2)) * np.where(energy > 40.0, 10.0, 1.0)


class TwoFidelities:
    """A problem with two of them, from coarse to fine."""

    def __init__(self):
        self._levels = {"coarse": FunctionPotential(shifted, 1), "fine": FunctionPotential(square, 1)}
        self._target = Target(self._levels["fine"], start=lambda rng, n: rng.standard_normal((n, 1)))

    fidelities = ("coarse", "fine")

    def potential(self, fidelity):
        return self._levels[fidelity]

    def __getattr__(self, name):
        return getattr(self._target, name)


@pytest.fixture
def warmed():
    """Replicas as warm-up leaves them."""

    def run(problem, sampler, draws=4, warmup=300, chains=8, seed=1):
        engine = Engine(problem, sampler, Plan(draws, warmup, 1, chains, seed))
        engine.begin()
        while engine.warming:
            engine.step()
        return engine.rungs, engine.report()

    return run


def ladder(problem_fidelities, model=None, temperatures=(1.0, 4.0)):
    model = model or kernel_ridge()
    return fast_resgld(
        temperatures,
        5e-3,
        estimator=noisy(louder_on_the_coarse, louder_on_the_coarse),
        variance=model,
        fidelities=problem_fidelities,
        swap=delayed_acceptance(),
        preconditioner=None,
    )


class TestFidelities:
    AT = np.linspace(-1.0, 1.0, 5)[:, None]

    def errors(self, rung, fidelity):
        energy = TwoFidelities().potential(fidelity).energy(self.AT)
        truth = 2.0 * np.log(louder_on_the_coarse(self.AT, energy))
        found = rung.noise.gradient_variance(self.AT, None), rung.noise.energy_variance(self.AT, None)
        return [float(np.abs(np.log(variance) - truth).max()) for variance in found]

    def test_each_learns_its_own(self, warmed):
        (cold, hot), _ = warmed(TwoFidelities(), ladder(("fine", "coarse")))
        assert cold.noise is not hot.noise
        # predictions lean on tens of states of nine degrees of freedom; the other fidelity's are off by log 100 = 4.6
        assert max(self.errors(cold, "fine")) < 0.7
        assert max(self.errors(hot, "coarse")) < 0.7
        assert min(self.errors(cold, "coarse") + self.errors(hot, "fine")) > 3.0

    def test_rungs_that_share_one_share_a_pilot(self, warmed):
        rungs, _ = warmed(TwoFidelities(), ladder(("fine", "coarse", "coarse"), temperatures=(1.0, 2.0, 4.0)))
        cold, middle, hot = (rung.noise for rung in rungs)
        assert middle is hot and cold is not middle
        assert max(self.errors(rungs[2], "coarse")) < 0.7

    @pytest.mark.parametrize("model", [running_average(), running_average(0.1)])
    def test_an_average_belongs_to_what_its_rung_visits(self, warmed, model):
        (cold, hot), _ = warmed(TwoFidelities(), ladder(("fine", "fine"), model))
        assert cold.noise is not hot.noise

    @pytest.mark.parametrize(
        "other",
        [
            {"probes": 11},
            {"estimator": noisy(1.0, 2.0)},
            {"energy_variance": kernel_ridge(50)},
            {"gradient_noise": GradientNoise(kernel_ridge(), "full")},
            {"gradient_noise": None},
        ],
    )
    def test_settings_must_agree(self, other):
        rung = {
            "estimator": noisy(1.0, 1.0),
            "energy_variance": kernel_ridge(),
            "gradient_noise": GradientNoise(kernel_ridge()),
        }
        one = NoiseModels(Rung(**rung), 2, exact_energy=False)
        assert one.may_share(NoiseModels(Rung(4.0, **rung), 2, exact_energy=False))
        assert not one.may_share(NoiseModels(Rung(4.0, **(rung | other)), 2, exact_energy=False))


def test_the_hot_rung_covers_modes_for_the_cold_one(warmed):
    """The cold rung never leaves the left well, the hot one visits both: what it learns there is the cold one's too."""

    def wells(position):
        x = position[:, 0]
        return 8.0 * (x**2 - 1.0) ** 2, (32.0 * x * (x**2 - 1.0))[:, None]

    def noise(position, energy):
        return np.where(position[:, 0] > 0.0, 4.0, 1.0)

    model = kernel_ridge()
    rung = {"estimator": noisy(0.0, noise), "energy_variance": model, "gradient_noise": GradientNoise(model)}
    rungs = (Rung(1.0, step_size=2e-3, **rung), Rung(16.0, step_size=5e-3, **rung))
    target = Target(FunctionPotential(wells, 1), Box(-1.5, 1.5), start=np.array([[-1.0]]))
    (cold, _), report = warmed(target, Sampler(rungs, Swap(fraction=1e-9)), chains=4, warmup=1000, seed=4)
    at = np.array([[-1.0], [1.0]])
    found = cold.noise.gradient_variance(at, None)
    assert np.abs(np.log(found / np.array([1.0, 16.0]))).max() < np.log(3.0)
    assert report["uncovered_variance"][0] < 0.05


def test_a_pilot_that_leaves_states_out_is_reported(warmed):
    """A pilot that ends with its first states, as the chains move on."""

    def slope(position):
        return -position[:, 0], np.full_like(position, -1.0)

    model = kernel_ridge(20, max_states=20)
    rung = Rung(estimator=noisy(0.0, 1.0), energy_variance=known(), gradient_noise=GradientNoise(model), step_size=0.1)
    target = Target(FunctionPotential(slope, 1), start=np.array([[0.0]]))
    _, report = warmed(target, Sampler([rung]), chains=4, warmup=1000)
    assert report["uncovered_variance"][0] > 0.05
    statistics = pd.DataFrame({name: [] for name in ("mean", "sd", "mcse_sd", "r_hat", "ess_bulk", "ess_tail")})
    assert any("was extrapolated at" in message for message in diagnose(statistics, report))


def test_exact_energies_are_not_learned():
    rung = Rung(estimator=exact(), energy_variance=running_average())
    models = NoiseModels(rung, 1, exact_energy=True)
    assert models.energy_variance(np.zeros((2, 1)), None) is None
    assert not models.wants_samples(np.zeros((2, 1))).any()
    assert models.uncovered(np.zeros((2, 1))) is None

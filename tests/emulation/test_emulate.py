"""`emulate` from its first simulation to its check: right posteriors, warnings, resuming, and wrong arguments."""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import invsamp as iv
from invsamp.emulation.emulated_run import EmulatedRun
from invsamp.emulation.emulator.emulated_posterior import EmulatedPosterior
from invsamp.emulation.emulator.outputs import output_scale
from invsamp.emulation.findings import of_draws
from invsamp.emulation.population import Mode
from invsamp.emulation.rounds import Rounds
from invsamp.emulation.runs.simulation_runs import Simulations
from invsamp.errors import WrongShapeError

MATRIX = np.random.default_rng(3).standard_normal((8, 3))
DATA = np.array([0.4, -0.2, 1.0, 0.3, -0.7, 0.1, 0.5, -0.4])
#: Draws that a test looks at; the run itself makes no simulations.
DRAWS = {"draws": 250, "chains": 4, "progress": False}


class Counted:
    """A slightly curved model that counts its rows, and may end its process's run after some."""

    def __init__(self, stop: int | None = None) -> None:
        self.rows: list[bytes] = []
        self.stop = stop

    def __call__(self, theta: np.ndarray) -> np.ndarray:
        for row in theta:
            if self.stop is not None and len(self.rows) >= self.stop:
                raise KeyboardInterrupt
            self.rows.append(row.tobytes())
        return theta @ MATRIX.T + 0.1 * np.square(theta @ MATRIX.T)


def posed(model: Callable[[np.ndarray], object], **options: object) -> iv.Posterior:
    prior = iv.Prior(x=iv.Normal(0.0, 1.0, shape=3))
    return iv.Posterior(prior, model, DATA, iv.GaussianNoise(0.3), **options)


def quiet(target: iv.Posterior, *arguments: object, **options: object) -> EmulatedRun:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return iv.emulate(target, *arguments, **{**DRAWS, **options})


@pytest.fixture(scope="module")
def run() -> Iterator[EmulatedRun]:
    yield quiet(posed(Counted()), 90, seed=1)


@pytest.fixture(scope="module")
def truth() -> tuple[np.ndarray, np.ndarray]:
    """Mean and sd by weighted draws of the posterior's Gaussian about its mode, exact energies."""
    target, rng = posed(Counted()), np.random.default_rng(0)
    precision = MATRIX.T @ MATRIX / 0.09 + np.eye(3)
    center = np.linalg.solve(precision, MATRIX.T @ DATA / 0.09)
    factor = 1.5 * np.linalg.cholesky(np.linalg.inv(precision))
    noise = rng.standard_normal((200_000, 3))
    theta = center + noise @ factor.T
    log_weight = -target.potential().energy(theta) + 0.5 * np.square(noise).sum(axis=1)
    weight = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()
    mean = weight @ theta
    return mean, np.sqrt(weight @ np.square(theta - mean))


def test_the_least_budget_is_spent_on_points_of_the_prior() -> None:
    prior, times = iv.Prior(rate=iv.LogNormal(0.0, 1.0)), np.linspace(0.2, 2.0, 10)
    target = iv.Posterior(prior, lambda theta: np.exp(-theta * times), np.exp(-times), iv.GaussianNoise(0.05))
    with pytest.warns(UserWarning, match="spent its budget of 4 simulations"):
        found = iv.emulate(target, 4, seed=1, **DRAWS)
    assert found.report["emulation"]["purposes"] == {"prior": 4}


def test_is_right_within_its_budget(run: EmulatedRun, truth: tuple[np.ndarray, np.ndarray]) -> None:
    assert run.report["emulation"]["stopped_by_rule"]
    assert run.report["emulation"]["simulations"] <= 90
    theta = run.theta.reshape(-1, 3)
    mean, sd = truth
    # 1,000 draws with some 500 effective ones: 4.5 standard errors, and what the rule allows for
    assert np.abs((theta.mean(axis=0) - mean) / sd).max() < 4.5 / np.sqrt(500) + 0.1
    assert np.abs(theta.std(axis=0) / sd - 1.0).max() < 4.5 / np.sqrt(1000) + 0.05


def test_is_certified_and_says_what_that_cannot_see(run: EmulatedRun) -> None:
    found = run.certify(32)
    assert found.passed, str(found)
    assert found.efficiency > 0.9
    assert "no mode" in str(found)
    assert found.run.weights is not None
    assert run.report["emulation"]["simulations"] + 32 == len(run.simulations)


def test_a_wrong_emulator_is_found_out(run: EmulatedRun) -> None:
    """The emulator of another simulator, as one that has learned too little is."""
    model = Counted()
    other = quiet(posed(lambda theta: model(theta) + 2.0 * theta[:, :1]), 90, seed=1)
    other._simulations = run._simulations
    assert not other.certify(32).passed


def test_draws_that_are_not_those_of_the_last_round_are_reported(run: EmulatedRun) -> None:
    assert of_draws(run._emulated, run) == []
    moved = run.theta.copy()
    moved[0, :20] += 2.0  # as a chain does that is caught elsewhere for a while
    other = SimpleNamespace(theta=moved, summary=run.summary)
    assert "the draws differ from those of the last round" in " ".join(of_draws(run._emulated, other))


def test_an_emulator_that_has_learned_too_little_warns() -> None:
    with pytest.warns(UserWarning, match="before its stopping rule was met"):
        found = iv.emulate(posed(Counted()), 20, 4, seed=1, **DRAWS)
    assert not found.report["emulation"]["stopped_by_rule"]
    assert any("simulations=30" in message for message in found.warnings())


def test_samples_exactly_with_few_simulations(run: EmulatedRun, truth: tuple[np.ndarray, np.ndarray]) -> None:
    model = run._simulations.posterior.forward["model"]
    before = len(model.rows)
    exact = run.sample_exactly(draws=25, exchange_interval=20)
    made = len(model.rows) - before
    assert 100 <= made <= 250
    assert exact.report["swap_accepts"][0] > 0.8 * exact.report["swap_attempts"][0]
    mean, sd = truth
    # 100 draws that are nearly independent: five standard errors
    assert np.abs((exact.theta.reshape(-1, 3).mean(axis=0) - mean) / sd).max() < 0.6


def test_predicts_for_nothing(run: EmulatedRun) -> None:
    assert isinstance(run.posterior, EmulatedPosterior)
    before = len(run.simulations)
    predicted = run.posterior_predictive(run.posterior, draws=20)
    assert predicted["data"].shape == (4, 5, 8)
    assert len(run.simulations) == before
    assert run.error_sd().shape == (4, 250)


def test_goes_on_after_a_kill_and_simulates_nothing_twice(tmp_path: Path) -> None:
    whole = quiet(posed(Counted()), 40, seed=2, directory=tmp_path / "whole", draws=50)
    rows: list[bytes] = []
    for stop in (15, 10):  # the second one within what the first one has left to do
        model = Counted(stop)
        with pytest.raises(KeyboardInterrupt):
            quiet(posed(model), 40, seed=2, directory=tmp_path / "torn", draws=50)
        rows += model.rows
    model = Counted()
    again = quiet(posed(model), 40, directory=tmp_path / "torn", draws=50)  # with the seed on file
    rows += model.rows
    assert len(set(rows)) == len(rows) == again.report["emulation"]["simulations"]
    assert np.array_equal(again.theta, whole.theta)
    with pytest.raises(ValueError, match="seed must be that of the emulation"):
        quiet(posed(Counted()), 40, seed=3, directory=tmp_path / "torn")


@pytest.mark.slow
def test_learns_from_simulations_that_are_there(tmp_path: Path) -> None:
    first = quiet(posed(Counted(), simulations=tmp_path), 90, seed=1)
    model = Counted()
    other = iv.Posterior(
        iv.Prior(x=iv.Normal(0.0, 1.2, shape=3)), model, DATA + 0.05, iv.GaussianNoise(0.3), simulations=tmp_path
    )
    second = quiet(other, 90, seed=5)
    purposes = second.report["emulation"]["purposes"]
    assert purposes["earlier"] == first.report["emulation"]["simulations"]
    assert len(model.rows) == second.report["emulation"]["simulations"]


@pytest.mark.filterwarnings("ignore")  # sixteen simulations are few
def test_failures_of_earlier_simulations_are_not_counted_again(tmp_path: Path) -> None:
    model = Counted()

    def failing(theta: np.ndarray) -> np.ndarray:
        y = model(theta)
        y[theta[:, 0] > 0.0] = np.nan
        return y

    first, again = (iv.emulate(posed(failing, simulations=tmp_path), 16, seed=seed, **DRAWS) for seed in (1, 2))
    asked = again.simulations[again.simulations["purpose"] != "earlier"]
    assert len(again.simulations) > len(asked) == again.report["emulation"]["simulations"] == 16
    assert again.report["emulation"]["failed"] == (~asked["succeeded"]).sum() > 0
    assert first.report["emulation"]["failed"] == (~first.simulations["succeeded"]).sum()


@pytest.mark.filterwarnings("ignore")  # sixteen simulations are few
def test_a_simulation_of_the_database_that_is_asked_for_counts_once(tmp_path: Path) -> None:
    model = Counted()
    first, again = (iv.emulate(posed(model, simulations=tmp_path), 16, seed=1, **DRAWS) for _ in range(2))
    assert not again.simulations.duplicated(["x[0]", "x[1]", "x[2]"]).any()
    assert len(again.simulations) < 32  # the same seed asks for the same points of the prior
    asked = again.simulations["purpose"] != "earlier"
    assert asked.sum() == again.report["emulation"]["simulations"] == 16
    assert set(first.simulations["x[0]"]) <= set(again.simulations["x[0]"])
    assert len(again.simulations) == len(set(model.rows)) == len(model.rows)


def test_draws_count_less_where_the_emulator_they_were_drawn_from_gave_them_more_density() -> None:
    target, rng = posed(Counted()), np.random.default_rng(0)
    known = target.sample_prior(rng, 40)
    simulations = Simulations(target, 100, earlier=(known, Counted()(known)))
    scale = output_scale(simulations.noise, known, rng)
    rounds = Rounds(simulations, scale, [Mode(np.zeros(3), np.eye(3))], 8, rng)
    assert rounds.advance().weights == pytest.approx(1.0, abs=0.05)
    for lower, weight in ((3.0, np.exp(-3.0)), (-3.0, 1.0)):
        rounds._energies -= lower  # as that emulator would have had them
        assert rounds._left_out(rounds.fitted)[2] == pytest.approx(weight, rel=0.05)
        rounds._energies += lower


def test_errors_are_of_simulations_that_the_emulator_has_not_learned_from(monkeypatch: pytest.MonkeyPatch) -> None:
    target, rng = posed(Counted()), np.random.default_rng(0)
    known = target.sample_prior(rng, 20)
    simulations = Simulations(target, 100, earlier=(known, Counted()(known)))
    scale = output_scale(simulations.noise, known, rng)
    rounds = Rounds(simulations, scale, [Mode(np.zeros(3), np.eye(3))], 8, rng)
    # two of the batch's posterior draws are among those that were there
    near = np.median(rounds.fitted.population.draws, axis=0) + 0.1 * rng.standard_normal((6, 3))
    batch = np.concatenate([target.to_position(known[:2]), near])
    monkeypatch.setattr(rounds, "_next", lambda fitted: batch)
    made = rounds.advance()
    assert len(simulations) == made.simulations == 26 and simulations.made == 8
    assert made.draws == 6 and made.failed == 0
    # each draw's energy, as an emulator that has not learned from this draw has it
    emulator, posterior = rounds.fitted.emulator, rounds.fitted.posterior
    rows = np.arange(18, 22)
    energy = posterior.left_out(batch[:4], simulations.coordinates[rows], rows)
    for row, position, found in zip(rows, batch, energy, strict=False):
        others = np.arange(26) != row
        process = replace(emulator.process, inputs=emulator.process.inputs[others])
        process = replace(process, outputs=emulator.process.outputs[others])
        without = EmulatedPosterior(target, replace(emulator, process=process)).potential()
        assert found == pytest.approx(without.energy(position[None])[0], rel=1e-6)


@pytest.mark.slow
def test_the_noise_of_a_simulator_is_reported() -> None:
    rng = np.random.default_rng(0)
    model = Counted()
    target = posed(lambda theta: model(theta) + 0.06 * rng.standard_normal((len(theta), 8)))
    with pytest.warns(UserWarning, match="the simulator is noisy"):
        found = iv.emulate(target, 60, seed=1, **DRAWS)
    # one difference of eight outputs
    assert 0.08 < found.report["emulation"]["output_noise"] < 0.5


def test_a_parameter_that_the_simulator_ignores_is_named() -> None:
    prior = iv.Prior(x=iv.Normal(0, 1), idle=iv.Normal(0, 1))
    target = iv.Posterior(prior, lambda t: t[:, :1] * np.array([1.0, 2.0]), [1.0, 2.0], iv.GaussianNoise(0.2))
    with pytest.warns(UserWarning, match=r"do not depend on \['idle'\]"):
        found = iv.emulate(target, 60, seed=1, **DRAWS)
    assert abs(found.draws("idle").std() - 1.0) < 0.3


@pytest.mark.slow
def test_failures_are_a_region() -> None:
    model = Counted()

    def failing(theta: np.ndarray) -> np.ndarray:
        y = model(theta)
        y[theta[:, 0] > 0.2] = np.nan
        return y

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = iv.emulate(posed(failing), 100, seed=1, **DRAWS)
    share = (found.draws("x")[..., 0] > 0.2).mean()
    said = any("failed" in str(one.message) for one in caught)
    assert share < 0.15 or said


@pytest.mark.parametrize("where", ["here", "executor", "database"])
def test_outputs_that_are_not_finite_are_named(where: str, tmp_path: Path) -> None:
    model = Counted()

    def incomplete(theta: np.ndarray) -> np.ndarray:
        y = model(theta)
        y[theta[:, 0] > 0.0, 5] = np.nan
        return y

    options: dict[str, object] = {"directory": tmp_path} if where == "database" else {}
    with ThreadPoolExecutor(2) as pool, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = iv.emulate(
            posed(incomplete), 16, seed=1, executor=pool if where == "executor" else None, **options, **DRAWS
        )
    failed = found.report["emulation"]["failed"]
    assert failed == (found.simulations["x[0]"] > 0.0).sum() > 0
    (said,) = [str(one.message) for one in caught if "some outputs that are not finite" in str(one.message)]
    assert f"{failed} of 16 simulations" in said
    last = r"The last failure, at x\[0\] = \d.*, x\[1\].*: 1 of 8 outputs are not finite: output 5 is nan"
    assert re.search(last, said)


def test_a_prior_without_a_gradient_is_refused_before_the_first_simulation() -> None:
    model = Counted()
    own = iv.distributions.Custom(
        lambda x: -0.5 * np.square(x).sum(axis=1), lambda rng, n: rng.standard_normal((n, 3)), shape=3
    )
    target = iv.Posterior(iv.Prior(x=own), model, DATA, iv.GaussianNoise(0.3))
    with pytest.raises(ValueError, match=r"prior with a gradient, .* Custom distribution without a gradient"):
        iv.emulate(target, 60, seed=1, **DRAWS)
    assert not model.rows


def test_arithmetic_far_away_warns_of_nothing_but_the_simulators_does() -> None:
    """The outputs overflow within the prior, and the emulator far from its simulations, too."""

    def growing(theta: np.ndarray) -> np.ndarray:
        return np.exp(theta @ MATRIX.T * 40.0)

    prior = iv.Prior(x=iv.Normal(0.0, 1.0, shape=3))
    target = iv.Posterior(prior, growing, np.exp(DATA), iv.LogNormalNoise(0.3))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        iv.emulate(target, 30, seed=1, **DRAWS)
    places = {Path(one.filename).name for one in caught if one.category is RuntimeWarning}
    assert places <= {Path(__file__).name}


@pytest.mark.slow
def test_sample_selects_it_where_there_are_no_derivatives() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = iv.sample(posed(Counted()), evaluations=60, seed=1, **DRAWS)
    assert isinstance(found, EmulatedRun)
    assert "emulated" in found.report["decisions"][0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        again = iv.sample(posed(Counted()), simulations=60, seed=1, **DRAWS)
    assert np.array_equal(again.theta, found.theta)


def test_sample_refuses_what_an_emulator_does_not_take() -> None:
    with pytest.raises(ValueError, match="thin must be left out"):
        iv.sample(posed(Counted()), thin=2)
    with pytest.raises(ValueError, match="evaluations must be left out where simulations is the budget, got 50"):
        iv.sample(posed(Counted()), simulations=60, evaluations=50)
    with pytest.raises(ValueError, match=r"derivatives or a sampler is given, got 60: .*iv.emulate\(posterior, sim"):
        iv.sample(posed(iv.finite_differences(Counted())), simulations=60)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"simulations": 11}, "simulations must be at least 4 for each of the 3 unknown inputs, 12, got 11"),
        ({"batch": 3}, "batch must be"),
        ({"descents": 0}, "descents must be"),
        ({"executor": 4}, "executor must be"),
        ({"trend": "coarse"}, "trend must be None, as the posterior has a single fidelity, got 'coarse'"),
        ({"posterior": iv.Posterior(iv.Prior(x=iv.Normal(0, 1)), log_likelihood=lambda t: -(t[:, 0] ** 2))}, "forward"),
    ],
)
def test_wrong_arguments_are_named(options: dict[str, object], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        iv.emulate(**{"posterior": posed(Counted()), **DRAWS, **options})


def test_a_changing_number_of_outputs_is_an_error() -> None:
    calls = []

    def changing(theta: np.ndarray) -> np.ndarray:
        calls.append(1)
        return np.zeros((len(theta), 8 if len(calls) < 3 else 7))

    with pytest.raises(WrongShapeError, match="must have shape"):
        iv.emulate(posed(changing), 60, seed=1, **DRAWS)


@pytest.mark.slow
def test_a_cheap_simulator_is_the_trend(truth: tuple[np.ndarray, np.ndarray], run: EmulatedRun) -> None:
    """It has twice the outputs, of a slightly shifted theta: the difference is nearly linear."""
    cheap, model = Counted(), Counted()
    target = posed({"coarse": lambda theta: 2.0 * cheap(theta + 0.05), "fine": model})
    found = quiet(target, 90, trend="coarse", seed=1)
    assert found.report["emulation"]["stopped_by_rule"]
    assert len(model.rows) < run.report["emulation"]["simulations"]
    assert len(cheap.rows) > len(model.rows)
    theta = found.theta.reshape(-1, 3)
    mean, sd = truth
    assert np.abs((theta.mean(axis=0) - mean) / sd).max() < 4.5 / np.sqrt(500) + 0.1
    assert np.abs(theta.std(axis=0) / sd - 1.0).max() < 4.5 / np.sqrt(1000) + 0.05


def test_several_processes_of_mpi_are_an_error_that_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    # the module, which the function of its name hides
    monkeypatch.setattr(sys.modules["invsamp.emulation.emulate"], "world", lambda: SimpleNamespace(size=2))
    with pytest.raises(RuntimeError, match=r"one process, got 2 that MPI started.*MPIPoolExecutor"):
        iv.emulate(posed(Counted()), 60, seed=1, **DRAWS)


def test_where_all_fails_the_simulators_words_are_passed_on() -> None:
    def broken(theta: np.ndarray) -> np.ndarray:
        raise OSError("licence server")

    with pytest.raises(RuntimeError, match="licence server"):
        iv.emulate(posed(broken), 60, seed=1, **DRAWS)


def test_counts_of_small_means_are_not_cut_off_where_the_emulator_errs() -> None:
    """Poisson counts with many zeros: predicted means never pass below zero, and the energy is right where mass is."""
    times = np.linspace(0.25, 3.0, 12)
    counts = np.array([3.0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0])
    prior = iv.Prior(height=iv.LogNormal(0.0, 1.0), rate=iv.LogNormal(0.0, 1.0))
    target = iv.Posterior(prior, lambda x: x[:, :1] * np.exp(-x[:, 1:] * times), counts, iv.PoissonNoise())
    made = quiet(target, 60, seed=1)
    rng = np.random.default_rng(0)
    position = target.sample_start(rng, 20_000)
    energy = target.potential().energy(position)
    likelihood = target.log_prior_at(position) + energy
    drawn = position[rng.choice(len(position), size=2000, p=np.exp(-likelihood) / np.exp(-likelihood).sum())]
    away = made.posterior.potential().energy(drawn) - target.potential().energy(drawn)
    assert np.isfinite(away).all()
    assert away.std() < 0.3


@pytest.mark.slow
@pytest.mark.parametrize(("domain", "highest"), [(None, 1.0), ("k + a / 2 < 1", 1.2)])
def test_nothing_is_simulated_beyond_bounds_at_which_the_mode_lies(domain: str | None, highest: float) -> None:
    """The posterior is that of quadrature: the emulator may change a mean by 0.1 sds, 1,000 draws by about 0.1."""
    times, simulated = np.linspace(0.2, 3.0, 8), []

    def model(theta: np.ndarray) -> np.ndarray:
        simulated.extend(theta)
        return theta[:, :1] * np.exp(-theta[:, 1:] * times)

    data = model(np.array([[1.03, 0.52]]))[0]
    simulated.clear()
    prior = iv.Prior(a=iv.Uniform(0.0, highest), k=iv.Uniform(0.5, 2.0))
    posterior = iv.Posterior(prior, model, data, iv.GaussianNoise(0.05), domain=domain)
    found = quiet(posterior, 100, seed=1)
    assert posterior.sampling_domain.contains(np.array(simulated)).all()
    assert found.report["emulation"]["stopped_by_rule"]

    middles = (np.arange(600) + 0.5) / 600
    grid = np.stack(np.meshgrid(highest * middles, 0.5 + 1.5 * middles), axis=-1).reshape(-1, 2)
    grid = grid[posterior.sampling_domain.contains(grid)]
    weight = np.exp(-0.5 * np.square((model(grid) - data) / 0.05).sum(axis=1))
    mean = weight @ grid / weight.sum()
    sd = np.sqrt(weight @ np.square(grid - mean) / weight.sum())
    assert (np.abs(found.theta.mean(axis=(0, 1)) - mean) / sd).max() < 0.35

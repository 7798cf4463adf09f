"""Statistics of draws: of every part that declares some, for all kinds of runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from functions import square, squares, squares_slope

import invsamp as iv
from invsamp.engine.rungs.kernel_contract_check import PartError
from invsamp.kernels import Langevin
from invsamp.kernels.contract import Info
from invsamp.tempering.linear_targets import Linear

SETTINGS = {"draws": 30, "warmup": 100, "chains": 3, "seed": 2, "progress": False}
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # so few draws are not to be trusted


def posed():
    prior = iv.Prior(a=iv.Normal(0, 1), k=iv.LogNormal(0, 1, shape=2))
    return iv.Posterior(prior, iv.with_jacobian(squares, squares_slope), [1.0, 2.0, 0.5], iv.GaussianNoise(0.5))


TARGET = iv.Target(iv.extending.FunctionPotential(square, 2))


@pytest.mark.parametrize("directory", [False, True])
def test_energies_are_kept_in_parts(tmp_path, directory):
    posterior, where = posed(), tmp_path / "run" if directory else None
    run = iv.sample(posterior, iv.resgld((1.0, 3.0), 0.01), **SETTINGS, directory=where)
    for group, theta in (("sample_stats", run.theta), ("hot_stats", run.rung_theta(1))):
        kept = {name: np.squeeze(values.to_numpy()) for name, values in run.data[group].items()}
        flat = theta.reshape(-1, 3)
        likelihood = posterior.log_likelihood(flat).sum(axis=1).reshape(3, 30)
        np.testing.assert_allclose(kept["misfit"], -likelihood, rtol=1e-9, atol=1e-9)
        # sampled as logarithms
        jacobian = np.log(theta[..., 1:]).sum(axis=-1)
        np.testing.assert_allclose(kept["prior"], -posterior.log_prior(flat).reshape(3, 30) - jacobian, rtol=1e-9)
        np.testing.assert_allclose(kept["energy"], kept["prior"] + kept["misfit"], rtol=1e-12)
    assert set(run.data.sample_stats) == {"energy", "prior", "misfit", "replica"}


def test_paths_report_their_lengths():
    run = iv.sample(TARGET, iv.hmc(), **SETTINGS)
    stats = run.data.sample_stats
    assert stats["n_steps"].dtype.kind == "i" and stats["diverging"].dtype == bool
    solved, before = (sum(run.report[name].values()) for name in ("evaluations", "warmup_evaluations"))
    assert solved - before == int(stats["n_steps"].sum()) and not stats["diverging"].any()
    wild = iv.sample(TARGET, iv.hmc(step_size=1e4), **SETTINGS).data.sample_stats
    assert wild["diverging"].all() and not wild["acceptance_rate"].any()


def test_acceptance_rates_are_those_of_the_report():
    """The mean of the probabilities is that of the decisions, within the noise of these."""
    run = iv.sample(TARGET, iv.mala(1.0), **SETTINGS | {"draws": 3000})
    rate = run.data.sample_stats["acceptance_rate"].to_numpy()
    assert ((rate >= 0) & (rate <= 1)).all()
    assert rate.mean() == pytest.approx(run.report["acceptance"][0], abs=5 * 0.5 / np.sqrt(9000))
    assert "acceptance_rate" not in iv.sample(TARGET, iv.samplers.sgld(0.1), **SETTINGS).data.sample_stats


@dataclass(frozen=True)
class Telling(Langevin):
    """Reports the given statistics."""

    adjusted: bool = True
    declares: tuple = (("low", float), ("count", int))
    case: str = "right"

    @property
    def statistics(self):
        return dict(self.declares)

    def step(self, rung, here, memory):
        point, memory, info = yield from super().step(rung, here, memory)
        chains = len(point.position)
        reported = {"low": point.position.min(axis=1), "count": np.arange(chains)}
        if self.case == "too short":
            reported["low"] = reported["low"][:1]
        if self.case == "one for all":
            reported["low"] = 1.0
        if self.case == "not whole":
            reported["count"] = reported["low"]
        if self.case == "words":
            reported["low"] = np.array(["low"] * chains)
        if self.case == "more":
            reported["high"] = reported["low"]
        if self.case == "now and then" and point.position[0, 0] > 0:
            del reported["low"]
        return point, memory, Info(info.log_ratio, info.accepted, statistics=reported)


def sampler(kernel, temperatures=(1.0,), hot=None):
    rungs = [iv.ladder.Rung(t, kernel=kernel if t == 1.0 or hot is None else hot, step_size=0.3) for t in temperatures]
    return iv.ladder.Sampler(rungs)


def test_a_users_kernel_reports(tmp_path):
    run = iv.sample(TARGET, sampler(Telling(), (1.0, 4.0)), **SETTINGS)
    stats = run.data.sample_stats
    # swaps follow the reported step
    moved = stats["low"].to_numpy() != run.theta.min(axis=2)
    assert moved.mean() < 0.5 and (stats["count"] == np.arange(3)[:, None]).all() and stats["count"].dtype.kind == "i"
    assert run.data.hot_stats["low"].shape == (3, 30, 1)
    alone = iv.sample(TARGET, sampler(Telling()), **SETTINGS)
    np.testing.assert_array_equal(alone.data.sample_stats["low"], alone.theta.min(axis=2))


def test_statistics_of_some_rungs_are_missing_for_the_others(tmp_path):
    mixed = sampler(Langevin(True), (1.0, 4.0), hot=Telling())
    whole = iv.sample(TARGET, mixed, **SETTINGS)
    assert np.isnan(whole.data.sample_stats["low"]).all() and np.isnan(whole.data.sample_stats["count"]).all()
    assert (whole.data.hot_stats["count"].to_numpy()[..., 0] == np.arange(3)[:, None]).all()
    iv.sample(TARGET, mixed, **SETTINGS | {"draws": 11}, directory=tmp_path / "run", segment=4)
    run = iv.resume(tmp_path / "run", TARGET, sampler=mixed, draws=30, progress=False)
    for group in ("sample_stats", "hot_stats"):
        for name, values in whole.data[group].items():
            np.testing.assert_array_equal(run.data[group][name], values)
            assert run.data[group][name].dtype == values.dtype


def test_flags_come_back_from_segments_as_flags(tmp_path):
    """netCDF has no booleans."""
    whole = iv.sample(TARGET, iv.hmc(), **SETTINGS).data.sample_stats
    iv.sample(TARGET, iv.hmc(), **SETTINGS | {"draws": 6}, directory=tmp_path / "run", segment=4)
    run = iv.resume(tmp_path / "run", TARGET, sampler=iv.hmc(), draws=30, progress=False)
    for name, values in whole.items():
        np.testing.assert_array_equal(run.data.sample_stats[name], values)
        assert run.data.sample_stats[name].dtype == values.dtype
    assert run.data.sample_stats["diverging"].dtype == bool


@pytest.mark.parametrize(
    ("case", "match"),
    [
        (
            "too short",
            r"kernel Telling\(.* must report 'low' in an array of shape \(3,\), one for each chain, got an arr",
        ),
        ("one for all", r"must report 'low' in an array of shape \(3,\), one for each chain, got 1.0"),
        ("not whole", r"must report 'count' as int, got an array of float64"),
        ("words", "must report 'low' as float, got an array of <U3"),
        ("more", r"must declare 'high' in statistics, as it reports it, got \['low', 'count'\]"),
    ],
)
def test_wrong_statistics_are_named(case, match):
    with pytest.raises(PartError, match=match):
        iv.sample(TARGET, sampler(Telling(case=case)), **SETTINGS)


def test_draws_are_not_lost_by_what_is_not_reported(tmp_path):
    wrong = r"must report 'low' at every step, as it declares in statistics, got \['count'\]"
    start = np.full((3, 2), -9.0)  # above 0 only after some steps
    with pytest.warns(UserWarning, match=wrong):
        run = iv.sample(TARGET, sampler(Telling(case="now and then")), **SETTINGS | {"warmup": 1}, start=start)
    assert 0 < run.theta.shape[1] < 30 and (run.theta[0, :, 0] <= 0).all()
    with pytest.raises(PartError, match=wrong):
        iv.sample(
            TARGET, sampler(Telling(case="now and then")), **SETTINGS | {"warmup": 1}, start=start, segment=1,
            directory=tmp_path / "run",
        )  # fmt: skip
    np.testing.assert_array_equal(iv.load(tmp_path / "run").theta, run.theta)


@pytest.mark.parametrize(
    ("declares", "match"),
    [
        ((("energy", float),), "of the kernel 'mala' cannot be called 'energy': a run has one of that name"),
        ((("log_weight", float),), "cannot be called 'log_weight'"),
        ((("chain", int),), "cannot be called 'chain': that is a dimension"),
        ((("a/b", int),), "cannot be called 'a/b': names of files exclude"),
        (((3, int),), "must have a name that is a string and not empty, got 3"),
        ((("low", str),), r"statistics\['low'\] of the kernel 'mala' must be float, int or bool, got <class 'str'>"),
    ],
)
def test_what_cannot_be_kept_is_refused_at_once(declares, match):
    with pytest.raises(ValueError, match=match):
        iv.ladder.Rung(kernel=Telling(declares=declares))


@dataclass(frozen=True)
class Flat(Linear):
    """A flatter distribution, whose weighted draws represent the posterior."""

    weighted: bool = True
    factors: ClassVar[None] = None
    needs_prior: ClassVar[bool] = False
    step_scale: ClassVar[float] = 1.0

    def energy(self, estimate, memory):
        return 0.5 * estimate.energy

    def gradient(self, estimate, memory):
        return 0.5 * estimate.gradient

    def log_weight(self, estimate, memory):
        return -0.5 * estimate.energy if self.weighted else None


def test_weights_of_a_target_make_its_draws_those_of_the_posterior(draw, agrees, tmp_path):
    flat = iv.ladder.Sampler([iv.ladder.Rung(Flat(), kernel=Langevin(True))])
    run = draw(TARGET, flat, draws=400, thin=3, warmup=400)
    np.testing.assert_allclose(run.data.sample_stats["log_weight"], -0.5 * run.data.sample_stats["energy"])
    weight = run.weights[..., None] / run.weights.mean(axis=1)[:, None, None]
    assert agrees((weight * run.theta**2).mean(axis=1), 1.0)
    assert not agrees((run.theta**2).mean(axis=1), 1.0)
    assert np.allclose(run.summary()["sd"], 1.0, atol=0.05)
    stored = iv.sample(TARGET, flat, **SETTINGS, directory=tmp_path / "run")
    again = iv.sample(TARGET, flat, **SETTINGS)
    np.testing.assert_array_equal(stored.weights, again.weights)
    np.testing.assert_allclose(stored.summary(), again.summary())


def test_a_rung_without_weights_beside_one_with_some():
    rungs = [iv.ladder.Rung(target, kernel=Langevin(True), step_size=0.3) for target in (1.0, Flat())]
    run = iv.sample(TARGET, iv.ladder.Sampler(rungs), **SETTINGS)
    assert run.weights is None
    assert run.rung_weights(1).std() > 0.1


def test_a_cold_target_that_is_not_the_posterior_must_have_weights(tmp_path):
    flat = iv.ladder.Sampler([iv.ladder.Rung(Flat(weighted=False), kernel=Langevin(True))])
    with pytest.raises(ValueError, match=r"first target must be the posterior, or give its draws weights.*got Flat\("):
        iv.sample(TARGET, flat, **SETTINGS, directory=tmp_path / "run")
    assert not (tmp_path / "run").exists()

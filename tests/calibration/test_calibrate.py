"""`calibrate`: replicates, their ranks, workers, directories, and what is refused."""

import json
import re
import shutil
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
import pytest

import invsamp as iv
from invsamp.calibration.replicates import Replicate, Settings, replicate

#: By its name: the function of that name hides it.
MODULE = sys.modules["invsamp.calibration.calibrate"]
MATRIX = np.array([[1.0, 0.5], [-0.7, 1.2], [0.3, -0.4]])


class Line:
    """y = A x."""

    def __init__(self, factor=1.0):
        self.matrix = factor * MATRIX

    def __call__(self, theta):
        return np.stack([self.matrix @ row for row in theta])

    def linearize(self, theta):
        return self(theta), lambda cotangent: np.stack([row @ self.matrix for row in cotangent])


class Fails(Line):
    """No solve where the first parameter is positive, or nearly so."""

    def __call__(self, theta):
        return np.where(theta[:, :1] < -0.1, super().__call__(theta), np.nan)


@dataclass(frozen=True)
class Mistaken(iv.GaussianNoise):
    """Data come with three times the noise that the likelihood knows."""

    def sample(self, rng, y, *values):
        return y + 3.0 * (super().sample(rng, y, *values) - y)


class Unsampled(iv.extending.Noise):
    """A likelihood alone."""

    def evaluate(self, y, data, *values):
        return -0.5 * (y - data) ** 2, data - y

    def sample(self, rng, y, *values):
        raise NotImplementedError("no method")


def posed(noise=None, model=None, data=(0.0, 0.0, 0.0), **rest):
    prior = iv.Prior(x=iv.Normal(0, 1, shape=2))
    return iv.Posterior(prior, model or Line(), data, noise or iv.GaussianNoise(0.7), **rest)


def short(posterior, sampler=None, **settings):
    plan = {"replicates": 3, "ranks": 15, "draws": 30, "warmup": 100, "chains": 2, "seed": 1, "progress": False}
    return iv.calibrate(posterior, sampler or iv.mala(), **(plan | settings))


def same(one, other):
    for name in ("numbers", "theta", "ranks", "ess"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    assert one.failed == other.failed


def test_right_noise_is_calibrated_and_wrong_noise_is_not():
    settings = {"replicates": 16, "draws": 30, "false_alarm": 1e-5}
    right = short(posed(), iv.hmc(), **settings)
    assert right.calibrated
    assert "calibrated, as far as 16 replicates show" in str(right)
    wrong = short(posed(Mistaken(0.7)), iv.hmc(), **settings)
    assert not wrong.calibrated
    assert wrong.p_values[-1] < 1e-6
    assert wrong.offset[-1] < -1.0  # the misfits of the draws are below that of the truth
    assert "NOT calibrated" in str(wrong)
    assert re.search(r"misfit .* draws are too low", str(wrong))


def test_attributes():
    found = short(posed())
    assert found.labels == ("x[0]", "x[1]", "energy", "misfit")
    assert found.ranks.shape == (3, 4)
    assert found.draws == 15
    assert ((found.ranks >= 0) & (found.ranks <= 15)).all()
    assert found.theta.shape == (3, 2)
    assert not found.approximate
    assert short(posed(), iv.samplers.sgld(0.01)).approximate


def test_figure():
    found = short(posed())
    figure = found.plot()
    assert [axes.get_title(loc="left") for axes in figure.axes] == list(found.labels)
    assert len(found.plot(["misfit"]).axes) == 1
    with pytest.raises(ValueError, match=r"names must be one of 'x\[0\]', .* got 'y'"):
        found.plot(["y"])


def test_more_replicates_begin_with_the_same_ones():
    few, more = short(posed(), replicates=2), short(posed(), replicates=4)
    np.testing.assert_array_equal(few.ranks, more.ranks[:2])
    assert not np.array_equal(few.theta, short(posed(), replicates=2, seed=2).theta)


def test_data_are_of_no_account_but_what_is_missing_is():
    same(short(posed()), short(posed(data=(5.0, -3.0, 2.0))))
    masked = np.ma.array([0.0, 0.0, 0.0], mask=[False, True, False])
    assert not np.array_equal(short(posed()).ranks, short(posed(data=masked)).ranks)


def test_workers_make_the_same():
    with ProcessPoolExecutor(2) as pool:
        same(short(posed()), short(posed(), executor=pool))


def test_an_evaluator_evaluates_for_one_run_after_the_other():
    class Evaluator:
        calls = 0

        def open(self, potentials):
            self.potentials = potentials

        def evaluate(self, requests):
            from invsamp.evaluate.solving import solve

            self.calls += 1
            return [solve(self.potentials[request.fidelity], request) for request in requests]

        def close(self):
            pass

    evaluator = Evaluator()
    same(short(posed()), short(posed(), executor=evaluator))
    assert evaluator.calls > 3 * 130


@pytest.mark.parametrize(
    ("name", "sampler"),
    {
        "delayed": iv.samplers.parallel_tempering(),
        "surrogate": iv.samplers.surrogate_exchange(exchange_interval=2),
        "likelihood": iv.samplers.parallel_tempering((1.0, iv.tempering.tempered_likelihood(0.2))),
        "pcn": iv.pcn(),
    }.items(),
)
def test_several_fidelities_and_ladders(name, sampler):
    forward = {"coarse": Line(1.2), "fine": Line()}
    found = short(posed(model=forward), sampler, replicates=3)
    assert len(found.ranks) == 3
    assert not found.failed


def test_bounds_and_weights():
    disc = iv.Posterior(
        iv.Prior(x=iv.Flat(iv.domains.Ball([0.0, 0.0], 1.0))),
        Line(),
        np.zeros(3),
        iv.GaussianNoise(1.0),
        iv.domains.HalfSpaces([[1.0, 1.0]], [0.8]),
    )
    found = short(disc)
    assert (np.linalg.norm(found.theta, axis=1) < 1.0).all()
    assert (found.theta.sum(axis=1) < 0.8).all()
    weighted = short(posed(), iv.samplers.csgld(0.05, [2.0, 4.0, 8.0, 16.0]), replicates=2)
    assert len(weighted.ranks) == 2
    assert weighted.approximate


def test_failed_replicates_are_counted_and_named():
    found = short(posed(model=Fails()), replicates=8)
    assert found.failed
    assert len(found.ranks) + len(found.failed) == 8
    assert set(found.failed).isdisjoint(found.numbers.tolist())
    assert all("the solve at the parameters of the prior failed" in why for why in found.failed.values())
    assert f"{len(found.failed)} replicates failed" in str(found)


def test_all_failed(monkeypatch):
    def fails(*arguments, **settings):
        raise ZeroDivisionError("of a model")

    monkeypatch.setattr("invsamp.calibration.replicates.sample", fails)
    with pytest.raises(RuntimeError, match="all 3 replicates failed, the first of them: ZeroDivisionError: of a model"):
        short(posed())


def test_too_few_effective_draws_make_a_run_longer(monkeypatch):
    from invsamp.calibration import replicates

    thins = []
    sample = replicates.sample

    def spied(*arguments, **settings):
        thins.append(settings["thin"])
        return sample(*arguments, **settings)

    monkeypatch.setattr(replicates, "sample", spied)
    found = short(posed(), iv.mala(0.001), replicates=1)
    assert thins[0] == 1
    assert thins[-1] == 16
    assert found.short == (0,)
    assert "1 runs have fewer than 15 effective draws" in str(found)
    thins.clear()
    assert short(posed(), iv.hmc(), replicates=1, draws=100).short == ()
    assert thins == [1]


def test_interruption_in_a_run_ends_the_calibration():
    settings = Settings(posed(), iv.mala(), 15, 30, 100, 2, 1)

    class Interrupts(Line):
        calls = 0

        def linearize(self, theta):
            self.calls += 1
            if self.calls > 120:  # after warm-up: the draws so far would be returned
                raise KeyboardInterrupt
            return super().linearize(theta)

    with pytest.raises(KeyboardInterrupt):
        replicate(replace(settings, posterior=posed(model=Interrupts())), 0)


class TestDirectory:
    def test_goes_on_with_the_same_result(self, tmp_path, monkeypatch):
        whole = short(posed(), directory=tmp_path / "whole")
        made = []

        def killed(settings, number, executor=None):
            if len(made) == 2:
                raise SystemExit
            made.append(number)
            return replicate(settings, number, executor)

        monkeypatch.setattr(MODULE, "replicate", killed)
        with pytest.raises(SystemExit):
            short(posed(), directory=tmp_path / "part")
        monkeypatch.undo()
        same(whole, short(posed(), directory=tmp_path / "part", seed=None))
        same(whole, short(posed()))

    def test_only_what_is_missing_is_made(self, tmp_path, monkeypatch):
        first = short(posed(), directory=tmp_path)
        (tmp_path / "000002.json").write_text("{")
        made = []

        def spied(settings, number, executor=None):
            made.append(number)
            return replicate(settings, number, executor)

        monkeypatch.setattr(MODULE, "replicate", spied)
        same(first, short(posed(), directory=tmp_path))
        assert made == [2]
        assert len(short(posed(), directory=tmp_path, replicates=4).ranks) == 4
        assert made == [2, 3]
        assert len(short(posed(), directory=tmp_path, replicates=2).ranks) == 2

    def test_of_something_else_is_refused(self, tmp_path):
        short(posed(), directory=tmp_path / "a", replicates=1)
        for other in (posed(iv.GaussianNoise(0.8)), posed()):
            settings = {} if other.noise.scale == 0.8 else {"seed": 2}
            with pytest.raises(ValueError, match="must hold a calibration of the same posterior, sampler and plan"):
                short(other, directory=tmp_path / "a", **settings)
        with pytest.raises(ValueError, match="sampler"):
            short(posed(), iv.hmc(), directory=tmp_path / "a")
        shutil.rmtree(tmp_path / "a")
        (tmp_path / "mine").mkdir()
        (tmp_path / "mine" / "thesis.tex").write_text("")
        with pytest.raises(ValueError, match="directory must be new, empty, or that of a calibration"):
            short(posed(), directory=tmp_path / "mine")

    def test_replicates_are_plain(self, tmp_path):
        found = short(posed(), directory=tmp_path, replicates=1)
        stored = json.loads((tmp_path / "000000.json").read_text())
        assert Replicate(**stored).ranks == found.ranks[0].tolist()


class TestRefused:
    def test_no_data(self):
        target = iv.Target(iv.extending.FunctionPotential(lambda x: ((x**2).sum(axis=1), 2 * x), 2))
        with pytest.raises(ValueError, match="posterior must be a Posterior: no data can be"):
            short(target)
        likelihood = iv.LogDensity(lambda x: -(x**2).sum(axis=1), lambda x: -2 * x)
        by_itself = iv.Posterior(iv.Prior(x=iv.Normal(0, 1, shape=2)), log_likelihood=likelihood)
        with pytest.raises(ValueError, match="posterior must have a forward model, data and noise to draw"):
            short(by_itself)

    def test_noise(self):
        with pytest.raises(ValueError, match=r"noise of posterior must be one that can be drawn .*no method"):
            short(posed(Unsampled()))

    def test_prior(self):
        far = posed(domain=iv.domains.HalfSpaces([[-1.0, 0.0]], [-30.0]))
        with pytest.raises(ValueError, match="posterior must have a prior that can be drawn from, within its domain"):
            short(far)

    def test_sampler_that_does_not_suit(self):
        with pytest.raises(ValueError, match="warmup must be at least 100 steps"):
            short(posed(), warmup=3)
        with pytest.raises(ValueError, match="minibatch must be at most the 3 data"):
            short(posed(), iv.samplers.sgld(0.1, estimator=iv.estimators.minibatch(5)))

    def test_more_ranks_than_draws(self):
        with pytest.raises(ValueError, match="ranks must be at most the 60 draws of a run, got 61"):
            short(posed(), ranks=61)

    def test_what_cannot_be_sent(self):
        local = type("Local", (Line,), {})
        with ProcessPoolExecutor(1) as pool, pytest.raises(ValueError, match="executor needs a posterior"):
            short(posed(model=local()), executor=pool)

"""The code of docs/how-to/extend: distributions, ladders, directories, resumes, processes."""

from __future__ import annotations

import ast
import importlib.util
import re
import sys
from pathlib import Path
from typing import ClassVar

import arviz as az
import launch
import numpy as np
import pytest
from arviz_versions import elpd
from noise_checks import check_derivatives
from parts import cases
from scipy import stats
from targets import CORRELATED, gaussian, second_moments, upper

import invsamp as iv
from invsamp.engine.exchange.swap_acceptance import SwapAttempt
from invsamp.engine.rungs.compatibility import ensemble_size
from invsamp.evaluate.counted import CountedPotential
from invsamp.problems.mixtures import two_modes

TEXT = "".join(
    page.read_text() for page in sorted((Path(__file__).parents[1] / "docs" / "how-to" / "extend").glob("*.md"))
)


@pytest.fixture(scope="module")
def script(tmp_path_factory):
    """The page's code as a user's module."""
    path = tmp_path_factory.mktemp("user") / "my_parts.py"
    path.write_text("\n\n".join(re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)))
    spec = importlib.util.spec_from_file_location("my_parts", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["my_parts"] = module  # pickled parts are found by it
    spec.loader.exec_module(module)
    yield module
    del sys.modules["my_parts"]


SHORT = {"draws": 20, "warmup": 100, "seed": 3, "progress": False}


@pytest.fixture(scope="module")
def made_by_two(script, tmp_path_factory):
    """A random walk and a target in two processes, which import the module from beside their script, as users do."""
    code = """
        import sys
        import no_arviz
        import numpy as np
        sys.path.insert(0, sys.argv[1])
        import invsamp as iv
        import my_parts
        from invsamp.parallel import load_balancing, rank
        from invsamp.problems.mixtures import two_modes
        load_balancing.MESSAGES = -1.0  # cheap as the models are, they are solved by all
        short = {"draws": 20, "warmup": 100, "seed": 3, "progress": False}
        run = iv.sample(my_parts.counts, my_parts.walk, **short)
        hot = iv.sample(iv.Target(two_modes()), my_parts.contour, **short).rung_theta(1)
        if rank() == 0:
            statistics = {n: v.to_numpy() for n, v in run.data.sample_stats.items()}
            np.savez(sys.argv[2], theta=run.theta, contour=hot, **statistics)
    """
    path = tmp_path_factory.mktemp("made") / "draws.npz"
    launch.mpi(code, 2, Path(script.__file__).parent, path)
    return dict(np.load(path))


class TestNoise:
    @staticmethod
    def truth():
        """Means of log(start), rate and their squares, by quadrature."""
        u, rate = np.meshgrid(np.linspace(1.5, 4.5, 400), np.linspace(1e-4, 2.0, 400), indexing="ij")
        y = np.exp(u)[..., None] * np.exp(-rate[..., None] * np.arange(8.0))
        density = stats.poisson(y).logpmf([23, 12, 12, 3, 5, 1, 0, 1]).sum(axis=-1)
        weight = np.exp(density + stats.norm(3, 1).logpdf(u) + stats.halfnorm.logpdf(rate) - density.max())
        return np.array([(part * weight).sum() / weight.sum() for part in (u, rate, u**2, rate**2)])

    @staticmethod
    def moments(run):
        found = np.stack([np.log(run.theta[..., 0]), run.theta[..., 1]], axis=-1)
        return np.concatenate([found.mean(axis=1), (found**2).mean(axis=1)], axis=1)

    def test_it_samples_its_target(self, script, draw, agrees):
        run = draw(script.counts, iv.mala(), draws=100, thin=4, warmup=300)
        assert agrees(self.moments(run), self.truth())

    def test_another_noise_is_rejected(self, script, draw, agrees):
        gaussian = iv.Posterior(script.prior, script.counts.forward, script.counts.data, iv.GaussianNoise(3.0))
        run = draw(gaussian, iv.mala(), draws=100, thin=4, warmup=300)
        assert not agrees(self.moments(run), self.truth())

    @pytest.mark.filterwarnings("ignore::UserWarning")
    def test_it_is_stored_resumed_predicted_and_cross_validated(self, script, tmp_path):
        sampler = iv.resgld((1.0, 2.0), 0.01, estimator=iv.estimators.minibatch(4))
        settings = {"warmup": 200, "seed": 3, "progress": False}
        whole = iv.sample(script.counts, sampler, draws=60, directory=tmp_path / "whole", **settings)
        iv.sample(script.counts, sampler, draws=25, directory=tmp_path / "run", **settings)
        run = iv.resume(tmp_path / "run", draws=60, progress=False)
        np.testing.assert_array_equal(run.theta, whole.theta)
        predicted = run.posterior_predictive(script.counts)["data"].to_numpy()
        assert (predicted >= 0).all() and (predicted == np.floor(predicted)).all() and predicted.std() > 0
        run.log_likelihood(script.counts)
        assert np.isfinite(elpd(az.loo(run.data)))

    @pytest.mark.mpi
    def test_two_processes_make_the_same_draws(self, script, made_by_two):
        whole = iv.sample(script.counts, script.walk, **SHORT)
        assert set(made_by_two) == {"theta", "energy", "prior", "misfit", "acceptance_rate", "jump", "contour"}
        np.testing.assert_array_equal(made_by_two["theta"], whole.theta)
        for name, values in whole.data.sample_stats.items():
            np.testing.assert_array_equal(made_by_two[name], values)

    def test_data_that_cannot_be_are_refused(self, script):
        for wrong in (-1, 2.5):
            with pytest.raises(ValueError, match=rf"data must be counts.* under Counts, got {wrong} at index \(1,\)"):
                iv.Posterior(script.prior, script.counts.forward, [1, wrong, 0, 0, 0, 0, 0, 0], script.Counts())

    def test_one_with_an_unknown_scale_has_right_derivatives(self, script):
        y, data = np.array([[1.0, 2.0, 5.0]]), np.array([1.5, 1.0, 5.5])
        check_derivatives(script.Laplace("s"), y, data, np.full(3, 0.7))


TARGET = iv.Target(gaussian(np.linalg.inv(CORRELATED)))


@pytest.mark.parametrize("name", cases(["walk", "ladder"], {"walk"}))
def test_the_kernel_samples_its_target(script, draw, agrees, name):
    run = draw(TARGET, getattr(script, name), draws=120, thin=4, warmup=300)
    assert set(run.report["kernels"]) == {"rwm"}
    assert agrees(second_moments(run), upper(CORRELATED))


def test_a_kernel_that_never_refuses_is_rejected(script, draw, agrees, monkeypatch):
    monkeypatch.setattr(script, "decided", lambda accept, there, here: there)
    run = draw(TARGET, script.walk, draws=120, thin=4, warmup=300)
    assert not agrees(second_moments(run), upper(CORRELATED))


class TestAKernelThatNeverRejects:
    """Multinomial Hamiltonian Monte Carlo, which reports acceptance statistics and no Metropolis ratio."""

    def test_it_samples_its_target(self, script, draw, agrees, monkeypatch):
        settings = {"draws": 60, "thin": 2, "warmup": 200}
        assert agrees(second_moments(draw(TARGET, script.multinomial, **settings)), upper(CORRELATED))
        # the last state of the trajectory, whatever its energy
        monkeypatch.setattr(script, "decided", lambda accept, there, here: there)
        assert not agrees(second_moments(draw(TARGET, script.multinomial, **settings)), upper(CORRELATED))

    @pytest.mark.parametrize("target", [0.6, 0.9])
    def test_warm_up_adapts_the_step_size_to_its_acceptance_statistics(self, script, draw, target):
        kernel = type("Other", (script.Multinomial,), {"target_acceptance": target})()
        sampler = iv.ladder.Sampler([iv.ladder.Rung(kernel=kernel)], preconditioner="dense")
        run = draw(TARGET, sampler, draws=50, warmup=400)
        rate = run.data.sample_stats["acceptance_rate"].to_numpy()
        assert ((rate >= 0.0) & (rate <= 1.0)).all()
        assert abs(rate.mean() - target) < 0.05
        moved = np.diff(run.theta, axis=1).any(axis=2).mean()
        assert abs(run.report["acceptance"][0] - moved) < 0.01


class TestEnsembles:
    """The stretch move, whose walkers depend on each other."""

    @staticmethod
    def moments(run, size):
        each = second_moments(run)
        return each.reshape(-1, size, each.shape[1]).mean(axis=1)

    def test_it_samples_its_target(self, script, draw, agrees):
        settings = {"draws": 150, "thin": 4, "warmup": 300, "chains": 8 * 64}
        assert agrees(self.moments(draw(TARGET, script.stretch, **settings), 8), upper(CORRELATED))
        # two walkers never leave the line through both
        pairs = iv.ladder.Sampler([iv.ladder.Rung(kernel=script.Stretch(2), step_size=1.0)], preconditioner=None)
        assert not agrees(self.moments(draw(TARGET, pairs, **settings), 8), upper(CORRELATED))

    @pytest.mark.filterwarnings("ignore::UserWarning")
    def test_diagnostics_take_an_ensemble_for_one_chain(self, script):
        settings = {"draws": 200, "warmup": 50, "seed": 3, "progress": False}
        run = iv.sample(TARGET, script.stretch, chains=16, **settings)
        assert run.report["ensemble_size"] == 8
        found = run.summary()
        np.testing.assert_array_equal(found["ess_bulk"], iv.diagnostics.ess(run.theta, ensemble_size=8))
        np.testing.assert_array_equal(found["r_hat"], iv.diagnostics.rhat(run.theta, ensemble_size=8))
        np.testing.assert_array_equal(found["mcse_mean"], iv.diagnostics.mcse(run.theta, ensemble_size=8))
        assert (found["ess_bulk"] != iv.diagnostics.ess(run.theta)).all()
        assert "2 independent ensembles of 8 chains" in repr(run)
        errors = run.expectation(lambda theta: theta).standard_error
        np.testing.assert_array_equal(errors, found["mcse_mean"])
        alone = iv.sample(TARGET, script.stretch, chains=8, **settings)
        assert np.isnan(alone.summary()["r_hat"]).all()
        assert any("all 8 chains form one ensemble" in warning for warning in alone.warnings())

    def test_chains_are_whole_ensembles(self, script):
        with pytest.raises(ValueError, match=r"chains must be a multiple of 8, .*\(stretch 8\), got 12"):
            iv.sample(TARGET, script.stretch, chains=12, draws=2, warmup=2, progress=False)

    def test_rungs_of_different_ensembles_make_larger_ones(self, script):
        rungs = [iv.ladder.Rung(t, kernel=script.Stretch(size), step_size=1.0) for t, size in ((1.0, 4), (2.0, 6))]
        sampler = iv.ladder.Sampler(rungs, preconditioner=None)
        with pytest.raises(ValueError, match=r"chains must be a multiple of 12, .*\(stretch 4, stretch 6\), got 6"):
            iv.sample(TARGET, sampler, chains=6, draws=2, warmup=2, progress=False)
        assert ensemble_size([script.Stretch(None), script.Stretch(4)], 24) == 24


def test_a_scheme_of_next_but_one_rungs_swaps_them(script, draw):
    run = draw(TARGET, script.leaps, draws=30, warmup=100, chains=4)
    assert [(i, j) for i, j, _, accepts in run.report["swaps_apart"] if accepts] == [(0, 2), (1, 3)]
    assert min(run.report["swap_accepts"]) > 0


def precise(position):
    return 0.5 * (position**2).sum(axis=1), position


@pytest.mark.filterwarnings("ignore::UserWarning")  # so few draws are not to be trusted
def test_the_kernel_is_stored_and_resumed(script, tmp_path):
    target, settings = (
        iv.Target(iv.extending.FunctionPotential(precise, 2)),
        {"warmup": 200, "seed": 3, "progress": False},
    )
    whole = iv.sample(target, script.ladder, draws=60, directory=tmp_path / "whole", **settings)
    iv.sample(target, script.ladder, draws=25, directory=tmp_path / "run", **settings)
    run = iv.resume(tmp_path / "run", draws=60, progress=False)
    np.testing.assert_array_equal(run.theta, whole.theta)
    for group in ("sample_stats", "hot_stats"):
        for name, values in whole.data[group].data_vars.items():
            np.testing.assert_array_equal(run.data[group][name], values)
    jump, moved = run.data.sample_stats["jump"].to_numpy(), np.diff(run.theta, axis=1).any(axis=2)
    assert ((jump[:, 1:] > 0) <= moved).all() and 0 < (jump > 0).mean() < 1  # a swap moves too


class TestTarget:
    """On the hot rung of two, all chains of which start in one mode of a mixture .4 N(-4, .7^2) + .6 N(3, .5^2)."""

    target = iv.Target(two_modes())

    def run(self, draw, script):
        return draw(self.target, script.contour, draws=400, thin=4, warmup=3000, start=np.array([-4.0]))

    @pytest.mark.slow
    def test_the_posterior_is_right_whatever_was_learned(self, script, draw, agrees, monkeypatch):
        run = self.run(draw, script)
        moments = np.stack([(run.theta[..., 0] > 0.0).mean(axis=1), run.theta[..., 0].mean(axis=1)], axis=1)
        assert agrees(moments, [0.6, 0.4 * -4.0 + 0.6 * 3.0])
        # flattened: the hot rung is where the cold one is not
        assert (np.abs(run.rung_theta(1)) < 1.0).mean() > 0.02
        # swaps that ignore the target accept everything
        monkeypatch.setattr(SwapAttempt, "_value", lambda attempt, weights, estimate: (0.0 * estimate.energy, 0.0))
        deaf = self.run(draw, script)
        assert not agrees((deaf.theta[..., 0] > 0.0).mean(axis=1), 0.6)

    @pytest.mark.filterwarnings("ignore::UserWarning")
    def test_it_is_stored_and_resumed_with_what_it_learned(self, script, tmp_path):
        settings = {"warmup": 200, "seed": 3, "progress": False, "segment": 5}
        whole = iv.sample(self.target, script.contour, draws=40, directory=tmp_path / "whole", **settings)
        iv.sample(self.target, script.contour, draws=15, directory=tmp_path / "run", **settings)
        run = iv.resume(tmp_path / "run", draws=40, progress=False)
        np.testing.assert_array_equal(run.rung_theta(1), whole.rung_theta(1))
        assert run.report["targets"][1].startswith("Contour(lowest=1.0, highest=20.0, bins=30, zeta=0.75")

    @pytest.mark.mpi
    @pytest.mark.filterwarnings("ignore::UserWarning")
    def test_two_processes_make_the_same_draws(self, script, made_by_two):
        whole = iv.sample(self.target, script.contour, **SHORT)
        np.testing.assert_array_equal(made_by_two["contour"], whole.rung_theta(1))


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_scheme_attempts_the_coldest_pair_every_second_time(script, tmp_path):
    settings = {"warmup": 100, "seed": 3, "progress": False}
    run = iv.sample(TARGET, script.three, draws=60, directory=tmp_path / "run", **settings)
    first, second = run.report["swap_attempts"]
    # of chains and steps alike, so that the two differ by at most one attempt of each chain
    assert abs(first - second) <= len(run.theta) and first > 0
    pairs = [script.ColdestFirst().pairs(attempt, 4, None) for attempt in range(6)]
    assert pairs == [[(0, 1)], [(1, 2)], [(0, 1)], [(2, 3)], [(0, 1)], [(1, 2)]]
    assert script.ColdestFirst().pairs(1, 2, None) == [(0, 1)]


def test_extending_has_what_the_page_names(script):
    named = set(re.findall(r"iv\.extending\.(\w+)", TEXT))
    assert len(named) > 10 and named <= set(iv.extending.__all__)
    for part, contract in (
        (script.RandomWalk(), iv.extending.Kernel),
        (script.Contour(1.0, 20.0), iv.extending.TargetDistribution),
        (script.Reshuffled(4), iv.extending.Estimator),
        (script.ColdestFirst(), iv.extending.SwapScheme),
        (script.Counting(), iv.extending.Evaluator),
        (script.Counts(), iv.extending.Noise),
        (iv.swaps.product_target(), iv.extending.SwapRule),
        (iv.variances.known(1.0), iv.extending.VarianceModel),
        (iv.Normal(0.0, 1.0), iv.extending.Distribution),
        (iv.Box([0.0], [1.0]), iv.extending.Domain),
    ):
        assert isinstance(part, contract) and not isinstance(object(), contract)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_evaluator_sees_all_rungs_at_a_time(script):
    own, settings = script.Counting(), {"draws": 20, "warmup": 200, "chains": 5, "seed": 3, "progress": False}
    run = iv.sample(TARGET, script.ladder, executor=own, **settings)
    np.testing.assert_array_equal(run.theta, iv.sample(TARGET, script.ladder, **settings).theta)
    # all chains of three rungs
    assert own.largest == 3 * 5


def test_parts_are_short():
    for code in re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL):
        assert all(part.end_lineno - part.lineno < 40 for part in ast.parse(code).body)


class TestTheEstimatorWithMemory:
    SETTINGS: ClassVar = {"warmup": 30, "chains": 3, "seed": 3, "progress": False}

    def sampler(self, script):
        return iv.ladder.Sampler(
            [iv.ladder.Rung(t, estimator=script.Reshuffled(3), step_size=0.005 * t) for t in (1.0, 2.0)],
            iv.ladder.Swap(iv.swaps.noise_penalty(), fraction=0.5),
        )

    def test_goes_through_all_data_in_turn(self, script, monkeypatch):
        posterior, seen = script.counts, []
        solve = CountedPotential.answer

        def watched(self, request):
            if request.batch is not None and len(request.position) == 3 and request.gradient:
                seen.append(request.batch.members)
            return solve(self, request)

        monkeypatch.setattr(CountedPotential, "answer", watched)
        sampler = iv.ladder.Sampler([iv.ladder.Rung(estimator=script.Reshuffled(4), step_size=0.01)])
        iv.sample(posterior, sampler, draws=40, check_gradient=False, **self.SETTINGS)
        # one at the start, whose order the first step still has; then one for each step
        epochs = np.stack(seen[1:]).reshape(-1, 2, 3, 4).transpose(0, 2, 1, 3).reshape(-1, 8)
        np.testing.assert_array_equal(np.sort(epochs, axis=1), np.broadcast_to(np.arange(8), epochs.shape))
        assert len(np.unique(epochs, axis=0)) > 0.9 * len(epochs)

    @pytest.mark.filterwarnings("ignore::UserWarning")
    @pytest.mark.parametrize("before", [1, 10, 25])
    def test_is_stored_and_resumed(self, script, tmp_path, before):
        whole = iv.sample(script.counts, self.sampler(script), draws=40, **self.SETTINGS)
        iv.sample(script.counts, self.sampler(script), draws=before, directory=tmp_path / "run", **self.SETTINGS)
        np.testing.assert_array_equal(iv.resume(tmp_path / "run", draws=40, progress=False).theta, whole.theta)

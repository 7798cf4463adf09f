"""The parameterization of a hierarchy: chosen, reported, kept, and efficient."""

import warnings

import numpy as np
import pytest
from scipy import stats

import invsamp as iv
from invsamp.diagnostics import ess
from invsamp.engine.mode_search import parameterization
from invsamp.kernels.mode_jumps import ModeJumps

#: Six groups whose data say much of each, and the errors of three whose data say little.
DATA, ERRORS = np.array([-1.1, 0.6, 0.2, 1.7, -0.4, 0.9]), np.full(6, 0.05)
MIXED = np.array([3.0, 3.0, 3.0, 0.05, 0.05, 0.05])


def unit(t):
    return np.broadcast_to(np.eye(t.shape[1]), (len(t), t.shape[1], t.shape[1]))


def same(t):
    return t


def groups(errors=ERRORS, centered=None, spread=None) -> iv.Posterior:
    """Estimates of groups, with a prior of log-normal spread."""
    prior = iv.Prior(
        mu=iv.Normal(0, 2),
        tau=iv.LogNormal(0, 0.5) if spread is None else spread,
        theta=iv.Normal("mu", "tau", shape=6, centered=centered),
    )
    return iv.Posterior(prior, iv.with_jacobian(same, unit, parameters=("theta",)), DATA, iv.GaussianNoise(errors))


def truth(errors, scale=1.0) -> np.ndarray:
    """Means of log(tau), mu, its square and the first group: tau by quadrature, the others are Gaussian given it."""
    tau = np.exp(np.linspace(-6, 4, 4001))
    total = tau[:, None] ** 2 + errors**2
    precision = 1 / 4.0 + (1 / total).sum(axis=1)
    mean = (DATA / total).sum(axis=1) / precision
    logs = -0.5 * (np.log(total) + DATA**2 / total).sum(axis=1) - 0.5 * np.log(precision) + 0.5 * mean**2 * precision
    weight = np.exp(logs - logs.max()) * stats.lognorm(0.5, scale=scale).pdf(tau) * tau
    weight /= weight.sum()
    share = tau**2 / (tau**2 + errors[0] ** 2)
    values = np.log(tau), mean, mean**2 + 1 / precision, share * DATA[0] + (1 - share) * mean
    return np.array([(weight * value).sum() for value in values])


def quantities(run) -> np.ndarray:
    """The same of each chain, (chains, 4)."""
    mu = run.draws("mu")
    return np.stack([np.log(run.draws("tau")), mu, mu**2, run.draws("theta")[..., 0]], axis=-1).mean(axis=1)


def quiet(*posed, **settings) -> iv.Run:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return iv.sample(*posed, **({"progress": False, "seed": 1, "draws": 300} | settings))


class TestDraws:
    @pytest.mark.parametrize(("errors", "chosen"), [(ERRORS, 6 * [True]), (MIXED, 3 * [False] + 3 * [True])])
    def test_are_those_of_the_posterior(self, errors, chosen, draw, agrees) -> None:
        run = draw(groups(errors), iv.mala(), draws=40, warmup=300, thin=5)
        assert run.report["centering"]["theta"]["centered"] == chosen
        values = quantities(run)
        assert agrees(values, truth(errors))
        # of a density that lacks the scales' logs, as a wrong volume of centered positions would leave it
        assert not agrees(values, truth(errors, scale=1.2))

    def test_are_those_of_an_array_of_forms(self, draw, agrees) -> None:
        run = draw(groups(ERRORS, [True, True, True, True, False, True]), iv.mala(), draws=40, warmup=300, thin=5)
        assert agrees(quantities(run)[:, :3], truth(ERRORS)[:3])


class TestTheRun:
    def test_says_what_it_chose(self) -> None:
        run = quiet(groups(MIXED), draws=200)
        choice = run.report["centering"]["theta"]
        assert choice["centered"] == 3 * [False] + 3 * [True]
        assert choice["reason"] == parameterization.CHOSEN
        assert 1 <= choice["evaluations"] <= 50
        assert (
            "hierarchy: theta 3 of 6 centered (chosen: centered where data inform an entry more than its prior)"
            in str(run)
        )
        # minima are reported in natural parameters, those of the non-centered minimum
        free = quiet(groups(MIXED, centered=False), draws=200).report
        np.testing.assert_allclose(run.report["modes"]["theta"], free["modes"]["theta"], rtol=1e-6)
        np.testing.assert_allclose(run.report["modes"]["weights"], free["modes"]["weights"], rtol=1e-6)
        assert free["centering"]["theta"] == {"centered": 6 * [False], "reason": "given", "evaluations": 0}

    def test_counts_what_the_choice_takes(self) -> None:
        counted = []

        def counting(t):
            counted.append(len(t))
            return t

        posterior = groups()
        model = iv.with_jacobian(counting, unit, parameters=("theta",))
        posterior = iv.Posterior(posterior.prior, model, DATA, iv.GaussianNoise(ERRORS))
        run = quiet(posterior, iv.mala(), draws=50, check_gradient=False)
        evaluations = sum(run.report["evaluations"].values())
        assert evaluations == pytest.approx(sum(counted), abs=40)  # less those at which shapes are looked at
        assert 50 <= run.report["centering"]["theta"]["evaluations"] <= 600

    @pytest.mark.slow
    def test_is_cheaper_than_in_the_wrong_form(self, within) -> None:
        worth = {}
        for centered in (None, False):
            run = quiet(groups(ERRORS, centered), draws=500)
            theta, energy = run.theta, run.data.sample_stats["energy"].values[..., None]
            values = np.concatenate([theta, (theta - theta.mean((0, 1))) ** 2, energy], axis=2)
            worth[centered] = np.nanmin(ess(values)) / sum(run.report["evaluations"].values())
        # 3 to 20 times over seeds; the form itself is no worse than itself
        assert within(worth[False] / worth[None], 0.5)
        assert not within(1.0, 0.5)

    def test_warns_of_a_form_that_was_given(self) -> None:
        run = quiet(groups(ERRORS, False), iv.mala(), draws=200)
        assert any("the form of theta was given (centered=), and may be the wrong one" in w for w in run.warnings())
        right = quiet(groups(ERRORS), iv.mala(), draws=200)
        assert not any("form of theta" in w for w in right.warnings())

    def test_goes_on_to_the_same_bits(self, tmp_path) -> None:
        posterior = groups(MIXED)
        whole = quiet(posterior, draws=250)
        quiet(posterior, draws=200, directory=tmp_path / "run", segment=50)
        # where draws are few, how many there are decides on trials: the first ones are those of the shorter run
        more = iv.resume(tmp_path / "run", posterior, draws=250, progress=False)
        again = quiet(posterior, draws=200, directory=tmp_path / "other")
        np.testing.assert_array_equal(more.theta[:, :200], again.theta)
        assert more.report["centering"] == whole.report["centering"]

    def test_does_not_depend_on_the_evaluator(self) -> None:
        class Own:
            """Evaluates here, by the given potentials."""

            def open(self, potentials):
                self.potentials = potentials

            def evaluate(self, requests):
                return [iv.evaluate.solve(self.potentials[request.fidelity], request) for request in requests]

            def close(self):
                pass

        runs = [quiet(groups(MIXED), iv.mala(), draws=100, executor=executor) for executor in (None, Own())]
        np.testing.assert_array_equal(runs[0].theta, runs[1].theta)

    def test_takes_starts_over(self) -> None:
        start = {"mu": 0.5, "tau": 1.0, "theta": DATA}
        run = quiet(groups(), iv.mala(), draws=100, start=start)
        assert all(run.report["centering"]["theta"]["centered"])
        assert run.summary()["r_hat"].max() < 1.2

    def test_quantities_in_positions_are_unchanged(self) -> None:
        jumps = ModeJumps(iv.mala().rungs[0].kernel, np.stack([np.zeros(8), np.ones(8)]), np.tile(np.eye(8), (2, 1, 1)))
        jumping = iv.ladder.Sampler([iv.ladder.Rung(1.0, kernel=jumps)], preconditioner="auto")
        for sampler in (iv.samplers.parallel_tempering((1.0, 3.0)), iv.mala(0.01), jumping):
            choice = quiet(groups(), sampler, draws=50, warmup=150).report["centering"]["theta"]
            assert not any(choice["centered"])
            assert choice["reason"].startswith("not chosen")


@pytest.mark.slow
def test_of_data_of_any_kind_draws_are_calibrated() -> None:
    """Of groups seen well and badly, whose spread the prior lets be anything: forms differ between replicates."""
    found = iv.calibrate(groups(MIXED), iv.mams(), replicates=100, draws=150, false_alarm=1e-4, seed=1, progress=False)
    assert found.calibrated, str(found)

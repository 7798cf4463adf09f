from __future__ import annotations

import numpy as np
import pytest
from arviz_stats.base import array_stats
from scipy import signal, stats

from invsamp.diagnostics import convergence, ess, mcse, rhat, statistics


def autoregressive(rho: float, chains: int, draws: int, seed: int = 1) -> np.ndarray:
    """AR(1) chains of unit variance, started in their stationary distribution; ESS is n (1 - rho)/(1 + rho)."""
    rng = np.random.default_rng(seed)
    values = np.empty((chains, draws))
    values[:, 0] = rng.standard_normal(chains)
    for i in range(1, draws):
        values[:, i] = rho * values[:, i - 1] + np.sqrt(1 - rho**2) * rng.standard_normal(chains)
    return values


@pytest.mark.parametrize("rho", [0.0, 0.5, 0.9])
def test_ess_of_an_autoregressive_chain(within, rho):
    draws = autoregressive(rho, 8, 10_000)
    expected = draws.size * (1 - rho) / (1 + rho)
    # the estimator's relative sd at this length is about 4%; 20% is five of them
    assert within(ess(draws) / expected - 1.0, 0.2)
    # control: the formula with the sign of rho turned, which would be an ESS of antithetic draws
    if rho:
        assert not within(ess(draws) / (draws.size * (1 + rho) / (1 - rho)) - 1.0, 0.2)


STATISTICS = {
    "ess_bulk": ("ess", {"method": "bulk"}),
    "ess_tail": ("ess", {"method": "tail", "prob": (0.05, 0.95)}),
    "mcse_mean": ("mcse", {"method": "mean"}),
    "r_hat": ("rhat", {"method": "rank"}),
}
DRAWS = {
    "independent": lambda chains, draws: autoregressive(0.0, chains, draws),
    "slow": lambda chains, draws: autoregressive(0.97, chains, draws),
    "antithetic": lambda chains, draws: autoregressive(-0.8, chains, draws),
    "refused every other time": lambda chains, draws: np.repeat(autoregressive(0.5, chains, draws), 2, axis=1)[
        :, :draws
    ],
    "few values": lambda chains, draws: np.round(autoregressive(0.5, chains, draws)),
    "far and narrow": lambda chains, draws: 1e3 + 1e-6 * autoregressive(0.5, chains, draws),
    "modes": lambda chains, draws: autoregressive(0.3, chains, draws) + 5.0 * np.arange(chains)[:, None],
    "one value": lambda chains, draws: np.full((chains, draws), 2.5),
}


@pytest.mark.parametrize("chains", [1, 2, 4])
@pytest.mark.parametrize("draws", [4, 5, 6, 9, 100, 333])
def test_many_parameters_together_are_each_as_arviz_stats_has_it(chains, draws):
    values = np.stack([make(chains, draws) for make in DRAWS.values()], axis=-1)
    found = statistics(values)
    for name, (statistic, settings) in STATISTICS.items():
        if name == "r_hat" and chains == 1:
            assert np.isnan(found[name]).all()
            continue
        with np.errstate(all="ignore"):
            wanted = [getattr(array_stats, statistic)(v, **settings) for v in np.moveaxis(values, -1, 0)]
        np.testing.assert_allclose(found[name], wanted, rtol=1e-9, err_msg=name)
    np.testing.assert_array_equal(found["ess_tail"], ess(values, "tail"))
    np.testing.assert_array_equal(found["mcse_sd"], mcse(values, "sd"))
    with np.errstate(all="ignore"):
        wanted = [
            array_stats.mcse((v - v.mean()) ** 2, method="mean") / (2.0 * v.std(ddof=1))
            for v in np.moveaxis(values[..., :-1], -1, 0)
        ]
    np.testing.assert_allclose(found["mcse_sd"][:-1], wanted, rtol=1e-6)
    assert found["mcse_sd"][-1] == 0.0
    with np.errstate(all="ignore"):
        wanted = [array_stats.ess(v, method="mean") for v in np.moveaxis(values, -1, 0)]
    np.testing.assert_allclose(ess(values, "mean"), wanted, rtol=1e-9)
    # control: the figures are others without the first draw
    if draws == 333:
        assert abs(ess(values[:, 1:])[0] / found["ess_bulk"][0] - 1.0) > 1e-6


def test_a_parameter_that_is_not_finite_spoils_no_other():
    values = np.stack([autoregressive(0.5, 4, 100, seed) for seed in range(3)], axis=-1)
    clean = statistics(values)
    values[1, 7, 1] = np.nan
    spoilt = statistics(values)
    for name, value in spoilt.items():
        np.testing.assert_array_equal(value[[0, 2]], clean[name][[0, 2]])
        assert np.isnan(value[1])


def test_parameters_are_not_taken_one_by_one(monkeypatch):
    calls = []
    real = convergence.errors
    monkeypatch.setattr(convergence, "errors", lambda draws, *more, **size: calls.append(len(draws)) or real(draws))
    statistics(np.random.default_rng(0).standard_normal((4, 50, 2000)))
    assert sum(calls) == 2000 and len(calls) < 20


def test_statistics_keep_the_parameters_shape_and_order():
    draws = np.stack([autoregressive(0.0, 4, 500), autoregressive(0.9, 4, 500)], axis=-1)[..., None]
    for statistic in (ess(draws), rhat(draws), mcse(draws)):
        assert statistic.shape == (2, 1)
    assert ess(draws)[0, 0] > 3 * ess(draws)[1, 0]
    assert ess(draws, method="tail").shape == (2, 1)


def test_rhat_distinguishes_chains_that_agree_from_chains_that_do_not():
    draws = autoregressive(0.0, 4, 2000)
    assert rhat(draws) < 1.005
    draws[0] += 1.0
    assert rhat(draws) > 1.05
    wide = autoregressive(0.0, 4, 2000)
    wide[0] *= 3.0  # same means: only the folded form sees it
    assert rhat(wide) > 1.05


def test_statistics_that_do_not_exist_are_nan():
    assert np.isnan(rhat(np.ones((4, 100))))
    assert np.isnan(rhat(np.random.default_rng(0).standard_normal((1, 100))))
    assert np.isnan(ess(np.zeros((4, 3))))


def test_error_of_the_sd_of_heavy_tails(within):
    """That for normal draws would be half as large of Student's t of five degrees of freedom, whose kurtosis is 9."""
    rng = np.random.default_rng(1)
    sd, error = np.array([(values.std(ddof=1), mcse(values, "sd")) for values in rng.standard_t(5.0, (200, 4, 500))]).T
    scores = (sd - np.sqrt(5.0 / 3.0)) / error
    spread = np.diff(np.quantile(scores, [0.16, 0.84]))[0] / 2.0
    assert within(np.log(spread), 0.3)
    normal = sd / np.sqrt(2.0 * 2000.0)
    assert not within(np.log(spread * np.median(error / normal)), 0.3)


def test_mcse_of_independent_draws():
    draws = 2.0 * autoregressive(0.0, 4, 10_000)
    # sd / sqrt(n), and for a quantile sqrt(p (1 - p) / n) / density
    assert mcse(draws) == pytest.approx(2.0 / 200, rel=0.1)
    assert mcse(draws, "sd") == pytest.approx(2.0 / np.sqrt(2) / 200, rel=0.1)
    density = np.exp(-0.5 * 1.2816**2) / np.sqrt(2 * np.pi) / 2.0
    assert mcse(draws, "quantile", 0.1) == pytest.approx(0.3 / density / 200, rel=0.15)


@pytest.mark.parametrize(("method", "probability"), [("quantile", None), ("quantile", 1.0), ("mean", 0.5)])
def test_mcse_refuses_a_probability_that_does_not_fit(method, probability):
    with pytest.raises(ValueError, match="probability"):
        mcse(np.zeros((4, 10)), method, probability)


def test_statistics_refuse_draws_without_chains():
    with pytest.raises(ValueError, match=r"\(chains, draws, \*shape\), got \(5,\)"):
        ess(np.zeros(5))


class TestEnsembles:
    """Chains that depend on each other: each ensemble is one chain, of averages."""

    SIZE = 8

    def ensembles(self, seed, count=2, common=0.5, draws=1000, phi=0.6):
        """AR(1) chains of variance 1, whose walkers share some of their noise."""
        rng = np.random.default_rng(seed)
        shared = np.repeat(rng.standard_normal((count, draws)), self.SIZE, axis=0)
        own = rng.standard_normal((count * self.SIZE, draws))
        noise = np.sqrt(1.0 - phi**2) * (np.sqrt(common) * shared + np.sqrt(1.0 - common) * own)
        noise[:, 0] /= np.sqrt(1.0 - phi**2)
        return signal.lfilter([1.0], [1.0, -phi], noise, axis=1)

    def test_standard_errors_are_those_of_means(self, within):
        """Of 400 runs, whose means are 0; as if walkers were independent, errors are too small."""
        scores = {self.SIZE: [], 1: []}
        for seed in range(400):
            draws = self.ensembles(seed)
            for size, found in scores.items():
                found.append(draws.mean() / mcse(draws, ensemble_size=size))
        # a mean square below 1.33 but once in 100,000 times
        bound = stats.chi2.isf(1e-5, 400) / 400 - 1.0
        assert within(abs(np.mean(np.square(scores[self.SIZE])) - 1.0), bound)
        assert not within(abs(np.mean(np.square(scores[1])) - 1.0), bound)

    @pytest.mark.parametrize("method", ["bulk", "mean", "tail"])
    def test_walkers_of_an_ensemble_that_are_independent_count_all(self, method):
        draws = self.ensembles(1, count=4, common=0.0, draws=4000)
        np.testing.assert_allclose(ess(draws, method, ensemble_size=self.SIZE), ess(draws, method), rtol=0.25)

    def test_copies_of_a_chain_have_the_ess_of_one(self):
        chains = autoregressive(0.6, 4, 500)
        copies = np.repeat(chains, self.SIZE, axis=0)
        for statistic in (ess, rhat, mcse):
            found = statistic(copies, ensemble_size=self.SIZE)
            np.testing.assert_allclose(found, statistic(chains), rtol=5e-3)
        weight = np.random.default_rng(3).normal(size=chains.shape)
        found = ess(copies, log_weight=np.repeat(weight, self.SIZE, axis=0), ensemble_size=self.SIZE)
        np.testing.assert_allclose(found, ess(chains, log_weight=weight), rtol=5e-3)

    def test_r_hat_is_of_ensembles(self):
        draws = self.ensembles(2, count=4, common=0.0, draws=4000)
        assert rhat(draws, ensemble_size=self.SIZE) < 1.01
        # ensembles that differ, though not by much beside their walkers
        shifted = draws + 0.3 * np.repeat([0.0, 1.0, 0.0, 1.0], self.SIZE)[:, None]
        assert rhat(shifted, ensemble_size=self.SIZE) > 1.05 > 1.02 > rhat(shifted)
        # walkers that never leave the mode in which they began, as many of each ensemble in one as in the other
        stuck = draws + 20.0 * (np.arange(len(draws)) % 2)[:, None]
        assert rhat(stuck, ensemble_size=self.SIZE) > 1.5
        assert np.isnan(rhat(draws[: self.SIZE], ensemble_size=self.SIZE))

    def test_an_average_that_stands_still_says_nothing(self):
        fixed = np.repeat(np.linspace(-1.0, 1.0, self.SIZE)[:, None], 50, axis=1)
        assert np.isnan(ess(fixed, ensemble_size=self.SIZE))
        assert ess(np.ones((self.SIZE, 50)), ensemble_size=self.SIZE) == 50 * self.SIZE

    @pytest.mark.parametrize("statistic", [ess, rhat, mcse, statistics])
    def test_chains_must_be_whole_ensembles(self, statistic):
        with pytest.raises(ValueError, match="ensemble_size must divide the number of chains, 8, got 3"):
            statistic(np.zeros((8, 10)), ensemble_size=3)

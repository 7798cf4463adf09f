"""A run with weighted draws: all reports, figures and predictions are of the distribution that they represent."""

from __future__ import annotations

from operator import attrgetter
from types import SimpleNamespace

import numpy as np
import pytest
from arviz_versions import effective_parameters, elpd, pointwise
from scipy.stats import norm

import invsamp as iv
from invsamp import plots
from invsamp.results.run import Run

WIDE = 2.0
REPORT = {"chains": 4, "draws": 1500, "temperatures": [1.0, 4.0], "fidelities": ["model", "model"]}


def weighted(seed=1, mean=0.0, draws=1500, rungs=1, keep=True):
    """Draws of N(0, 4) in two columns, with weights that make them N(mean, 1) each; of hot rungs as they are."""
    theta = WIDE * np.random.default_rng(seed).standard_normal((rungs, 4, draws, 2))
    log_weight = (0.5 * (theta / WIDE) ** 2 - 0.5 * (theta - mean) ** 2).sum(axis=-1)
    log_weight[1:] = 0.0
    return Run.from_arrays(
        SimpleNamespace(data=np.zeros(2)), {"a": (2,)}, theta, {}, REPORT, log_weight=log_weight if keep else None
    )


def posed():
    """Data (0, 0) of the parameters themselves, with noise of sd 1 and a flat prior: the posterior is N(0, 1) each."""
    model = iv.with_jacobian(lambda t: t.copy(), lambda t: np.broadcast_to(np.eye(2), (len(t), 2, 2)))
    return iv.Posterior(iv.Prior(a=iv.Normal(0, 1e3, shape=2)), model, [0.0, 0.0], iv.GaussianNoise(1.0))


def equal(rungs=2):
    """The same draws with equal weights, and without any."""
    theta = np.random.default_rng(1).standard_normal((rungs, 4, 300, 2))
    given = {"problem": SimpleNamespace(data=np.zeros(2)), "names_shapes": {"a": (2,)}, "theta": theta}
    given |= {"sample_stats": {"energy": (theta**2).sum(-1)}, "report": REPORT}
    return Run.from_arrays(**given, log_weight=np.full(theta.shape[:3], 2.5)), Run.from_arrays(**given)


def test_the_summary_is_of_the_weighted_distribution(within):
    summary = weighted(mean=0.7).summary()
    assert within((summary["mean"] - 0.7) / summary["mcse_mean"], 5.0)
    assert within((summary["sd"] - 1.0) / summary["mcse_sd"], 5.0)
    for at, name in ((0.05, "5%"), (0.5, "50%"), (0.95, "95%")):
        # by the density of a normal distribution and the smaller effective size
        error = np.sqrt(at * (1 - at) / summary[["ess_bulk", "ess_tail"]].min(axis=1)) / norm.pdf(norm.ppf(at))
        assert within((summary[name] - 0.7 - norm.ppf(at)) / error, 5.0)
    plain = weighted(mean=0.7, keep=False).summary()
    assert not within((plain["mean"] - 0.7) / plain["mcse_mean"], 5.0)
    assert not within((plain["sd"] - 1.0) / plain["mcse_sd"], 5.0)


def test_equal_weights_change_nothing():
    run, plain = equal()
    np.testing.assert_array_equal(run.weights, 1.0)
    assert plain.weights is None and plain.rung_weights(1) is None
    found, wanted = run.summary(), plain.summary()
    # of an even number of draws the median is a mean of two, to rounding: two distances from it may change their ranks
    np.testing.assert_allclose(found.pop("r_hat"), wanted.pop("r_hat"), rtol=1e-3)
    np.testing.assert_allclose(found, wanted, rtol=1e-9)
    assert run.warnings() == plain.warnings()
    assert repr(run) == repr(plain)
    for name in ("plot_trace", "plot_marginals", "plot_pairs", "plot_ladder"):
        pictures = []
        for one in (run, plain):
            figure = getattr(one, name)()
            figure.canvas.draw()
            pictures.append(np.asarray(figure.canvas.buffer_rgba()).astype(int))
        # a height may differ by rounding, and so a pixel
        assert (np.abs(pictures[0] - pictures[1]).max(axis=2) > 8).mean() < 1e-4, name
    mine, theirs = (r.posterior_predictive(posed(), draws=100)["mean"].to_numpy() for r in (run, plain))
    # the same draws, in another order
    np.testing.assert_array_equal(np.sort(mine.reshape(-1, 2), axis=0), np.sort(theirs.reshape(-1, 2), axis=0))


def test_weights_come_back_from_a_file(tmp_path):
    run = weighted(rungs=2)
    run.save(tmp_path / "run.nc")
    loaded = Run.load(tmp_path / "run.nc")
    np.testing.assert_allclose(loaded.weights, run.weights)
    assert loaded.rung_weights(1) is run.rung_weights(1) is None  # of the hot rung all are alike
    assert loaded.weights.mean() == pytest.approx(1.0)
    np.testing.assert_allclose(loaded.summary(), run.summary())
    assert "log_weight" in loaded.data.sample_stats and "log_weight" in loaded.data.hot_stats


@pytest.mark.parametrize(
    ("log_weight", "match"),
    [
        (np.zeros((4, 9)), r"log_weight must .*\(4, 10\)"),
        (np.zeros((2, 4, 10)), r"log_weight must .*\(1, 4, 10\)"),
        (np.full((4, 10), np.nan), "log_weight must"),
        (np.full((4, 10), np.inf), r"log_weight must be finite.*got \+inf"),
        (np.full((4, 10), -np.inf), "got -inf for every draw"),
        ("heavy", "log_weight must"),
    ],
)
def test_what_is_no_weight_is_refused(log_weight, match):
    with pytest.raises(ValueError, match=match):
        Run.from_arrays(None, {"x": ()}, np.zeros((1, 4, 10, 1)), {}, {}, log_weight=log_weight)
    with pytest.raises(ValueError, match="log_weight must be None where sample_stats has one"):
        Run.from_arrays(
            None,
            {"x": ()},
            np.zeros((1, 4, 10, 1)),
            {"log_weight": np.zeros((4, 10))},
            {},
            log_weight=np.zeros((4, 10)),
        )


def test_weights_that_are_none_are_reported():
    run, _ = equal(1)
    stats = {"log_weight": np.where(np.arange(300) == 7, np.nan, np.zeros((4, 300)))}
    run = Run.from_arrays(None, {"a": (2,)}, run.theta[None], stats, REPORT)
    (message,) = run.warnings()
    assert message.startswith("IV-WEIGHT-NAN: log_weight is NaN or +inf for some draws")
    assert np.isnan(run.summary().to_numpy()).all()
    with pytest.raises(ValueError, match="log_weight of the run must be finite"):
        run.posterior_predictive(posed())


def test_few_draws_that_weigh_all_are_reported():
    run = weighted(mean=9.0)
    (message,) = (line for line in run.warnings() if line.startswith("IV-WEIGHTS"))
    assert "of the 6000 draws give an effective sample size of 2" in message and "below 400" in message
    assert not any(line.startswith("IV-WEIGHTS") for line in weighted().warnings())
    theta = np.random.default_rng(1).standard_normal((1, 4, 20, 2))
    few = Run.from_arrays(None, {"a": (2,)}, theta, {}, REPORT, log_weight=0.1 * theta[..., 0])
    assert not any(line.startswith("IV-WEIGHTS") for line in few.warnings())  # what is too few is the draws


def moments(edges, heights):
    """Mean and sd of a histogram."""
    centers, shares = (edges[1:] + edges[:-1]) / 2, heights / heights.sum()
    mean = shares @ centers
    return mean, np.sqrt(shares @ (centers - mean) ** 2)


def test_figures_show_the_weighted_distribution():
    run = weighted(mean=0.7)
    summary = run.summary()
    marginal = run.plot_marginals(names=["a[0]"]).axes[0]
    assert marginal.get_title(loc="right") == "{:#.3g}  [{:#.3g}, {:#.3g}]".format(
        *summary.iloc[0][["50%", "5%", "95%"]]
    )
    diagonal = run.plot_pairs().axes[0]
    for axes in (marginal, diagonal):
        heights, edges, _ = axes.patches[-1].get_data()
        np.testing.assert_allclose(moments(edges, heights), summary.iloc[0][["mean", "sd"]], atol=0.03)
    mesh = run.plot_pairs().axes[2].collections[0]
    mass, corners = np.asarray(mesh.get_array().filled(0.0)) ** 2, mesh.get_coordinates()
    across = moments(corners[0, :, 0], mass.sum(axis=0))
    np.testing.assert_allclose(across, summary.iloc[0][["mean", "sd"]], atol=0.05)
    trace = run.plot_trace(names=["a[0]"]).axes[1].patches
    found = np.array([moments(edges, heights) for heights, edges, _ in (patch.get_data() for patch in trace)])
    np.testing.assert_allclose(found.mean(axis=0), summary.iloc[0][["mean", "sd"]], atol=0.05)


def test_predictions_are_of_the_weighted_distribution(within):
    run, model = weighted(mean=0.7), posed()
    predicted = run.posterior_predictive(model, draws=800)
    assert predicted["data"].shape == (4, 200, 2)
    means = predicted["mean"].to_numpy().reshape(-1, 2)
    bound = 5.0 / np.sqrt(800)
    assert within(means.mean(axis=0) - 0.7, bound)
    assert within(predicted["data"].to_numpy().reshape(-1, 2).std(axis=0) / np.sqrt(2.0) - 1.0, bound)
    # every chain of them alike
    assert within(predicted["mean"].to_numpy().mean(axis=1) - 0.7, 5.0 / np.sqrt(200))
    plain = weighted(mean=0.7, keep=False).posterior_predictive(model, draws=800)
    assert not within(plain["mean"].to_numpy().reshape(-1, 2).mean(axis=0) - 0.7, bound)
    levels = plots.plot_predictive(run).axes[0].collections
    assert len(levels) >= 2


def test_a_draw_that_counts_for_many_is_solved_once():
    run, model, rows = weighted(mean=4.0), posed(), []
    real = model.predict
    model.predict = lambda theta, fidelity=None: rows.append(len(theta)) or real(theta, fidelity)
    found = run.posterior_predictive(model, draws=400)["mean"].to_numpy().reshape(-1, 2)
    assert sum(rows) == len(np.unique(found, axis=0)) < 400


def test_leave_one_out_is_that_of_the_weighted_distribution(within):
    r"""Data :math:`y_i \sim N(\mu, 1)` with a flat prior: without one of n, :math:`\mu \sim N(\bar y, 1 / (n - 1))`."""
    rng = np.random.default_rng(3)
    y = np.linspace(-1.5, 1.5, 12)
    model = iv.with_jacobian(lambda t: np.repeat(t, 12, axis=1), lambda t: np.ones((len(t), 12, 1)))
    posterior = iv.Posterior(iv.Prior(mu=iv.Normal(0, 1e4)), model, y, iv.GaussianNoise(1.0))
    sd = 12**-0.5
    mu = y.mean() + 2.0 * sd * rng.standard_normal((1, 4, 3000, 1))
    log_weight = (0.5 * ((mu - y.mean()) / (2.0 * sd)) ** 2 - 0.5 * ((mu - y.mean()) / sd) ** 2)[0, ..., 0]
    without = (y.sum() - y) / 11
    exact = norm.logpdf(y, without, np.sqrt(1 + 1 / 11))
    run = Run.from_arrays(posterior, {"mu": ()}, mu, {}, {}, log_weight=log_weight)
    found = run.loo(posterior)
    bound = 0.03
    assert found.n_data_points == 12 and not found.warning
    assert within(pointwise(found).to_numpy() - exact, bound)
    assert elpd(found) == pytest.approx(pointwise(found).to_numpy().sum())
    plain = Run.from_arrays(posterior, {"mu": ()}, mu, {}, {})
    with pytest.raises(ValueError, match="posterior must be given"):
        plain.loo()
    assert not within(pointwise(plain.loo(posterior)).to_numpy() - exact, bound)
    equal = Run.from_arrays(posterior, {"mu": ()}, mu, {}, {}, log_weight=np.zeros((4, 3000))).loo(posterior)
    for number in (elpd, effective_parameters, attrgetter("se"), attrgetter("good_k")):
        assert number(equal) == pytest.approx(number(plain.loo()), rel=1e-6)
    np.testing.assert_allclose(equal.pareto_k, plain.loo().pareto_k, rtol=1e-6)


def test_states_to_compare_fidelities_at_are_taken_by_weight():
    """Of draws far too wide the narrow ones count: the mean energy above the least is that of two normal parameters."""
    model = posed()
    posterior = iv.Posterior(
        model.prior, {"coarse": model.forward["model"], "model": model.forward["model"]}, [0.0, 0.0], model.noise
    )
    found = iv.fidelities.compare(posterior, weighted(draws=1500), max_states=600)
    np.testing.assert_allclose((found.states.theta**2).mean(axis=0), 1.0, atol=0.3)
    plain = iv.fidelities.compare(posterior, weighted(keep=False), max_states=600)
    assert (plain.states.theta**2).mean() > 2.5

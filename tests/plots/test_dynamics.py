"""Figures of dynamics: curves between the data, phase planes, directions that data know, profiles beside marginals."""

from __future__ import annotations

import warnings
from types import SimpleNamespace

import numpy as np
import pytest

import invsamp as iv
from invsamp.plots.identifiability import directions

TIMES, FINE = np.arange(6.0), np.linspace(0.0, 8.0, 33)
DRAWS = np.random.default_rng(0).normal(size=(1000, 3))
PRIOR = DRAWS @ np.linalg.inv(np.linalg.cholesky(np.cov(DRAWS.T))).T  # of covariance 1


def orbit(times):
    """Cosine and sine of a frequency, with an amplitude."""

    def predict(theta: np.ndarray) -> np.ndarray:
        angle = theta[:, :1] * times
        return (theta[:, 1:] * np.stack([np.cos(angle), np.sin(angle)])).transpose(1, 2, 0).reshape(len(theta), -1)

    return iv.finite_differences(predict)


@pytest.fixture(scope="module")
def posterior() -> iv.Posterior:
    prior = iv.Prior(frequency=iv.LogNormal(0, 0.1), amplitude=iv.Normal(2, 1))
    truth = orbit(TIMES)(np.array([[1.0, 2.0]])).reshape(6, 2)
    return iv.Posterior(prior, orbit(TIMES), truth, iv.GaussianNoise(0.1))


@pytest.fixture(scope="module")
def run(posterior) -> iv.Run:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return iv.sample(posterior, iv.mala(), draws=150, warmup=300, chains=4, seed=1, progress=False)


def test_a_curve_has_bands_where_nothing_was_measured(run, posterior):
    later = posterior.for_prediction(orbit(FINE), shape=(33, 2))
    figure = run.plot_predictive(posterior, TIMES, "t", ["cosine", "sine"], curve=(FINE, later))
    assert [axes.get_title("left") for axes in figure.axes] == ["cosine", "sine"]
    for axes, wave in zip(figure.axes, (np.cos, np.sin), strict=True):
        median, data = axes.lines
        np.testing.assert_array_equal(median.get_xdata(), FINE)
        assert np.abs(median.get_ydata() - 2.0 * wave(FINE)).max() < 0.5
        np.testing.assert_allclose(data.get_ydata(), 2.0 * wave(TIMES))
    with pytest.raises(ValueError, match="x must be given with curve"):
        run.plot_predictive(posterior, curve=(FINE, later))
    with pytest.raises(ValueError, match=r"curve\[1\] must predict an array \(5, 2\), got one of shape \(33, 2\)"):
        run.plot_predictive(posterior, TIMES, curve=(FINE[:5], later))
    with pytest.raises(ValueError, match=r"must be posterior.for_prediction\(model\)"):
        run.plot_predictive(posterior, TIMES, curve=(FINE, posterior))
    with pytest.raises(ValueError, match="curve must be a tuple"):
        run.plot_predictive(posterior, TIMES, curve=later)


def test_a_phase_plane_has_orbits_of_draws_and_the_data(run, posterior):
    figure = run.plot_phase(
        posterior, series=np.array(["cosine", "sine"]), curve=posterior.for_prediction(orbit(FINE), shape=(33, 2))
    )
    (axes,) = figure.axes
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("cosine", "sine")
    *orbits, order, data, first = axes.lines
    assert 20 <= len(orbits) <= 60
    radius = np.hypot(*np.array([line.get_xydata() for line in orbits]).reshape(-1, 2).T)
    assert np.abs(radius - 2.0).max() < 0.5  # orbits are circles, of the amplitude
    np.testing.assert_array_equal(data.get_xydata(), posterior.data)
    np.testing.assert_array_equal(order.get_xydata(), posterior.data)
    np.testing.assert_array_equal(first.get_xydata(), posterior.data[:1])
    without = run.plot_phase(posterior).axes[0]
    assert len(without.lines[0].get_xdata()) == len(TIMES) and without.get_xlabel() == "output 0"
    (turned,) = run.plot_phase(posterior, outputs=["sine", 0], series=["cosine", "sine"]).axes
    assert (turned.get_xlabel(), turned.get_ylabel()) == ("sine", "cosine")
    for outputs, right in (([0, 0], "2 to 4 distinct columns"), ([0, "v"], "one of 'output 0', 'output 1', got 'v'")):
        with pytest.raises(ValueError, match=f"outputs must be {right}"):
            run.plot_phase(posterior, outputs=outputs)
    with pytest.raises(ValueError, match="series must name 2 columns"):
        run.plot_phase(posterior, series=["one"])


def test_phase_planes_of_three_outputs_and_none_of_one():
    theta = np.random.default_rng(0).normal(size=(1, 2, 50, 1))
    for columns, panels in ((3, 3), (1, 0)):
        problem = SimpleNamespace(data=np.ones((5, columns)))
        run = iv.Run.from_arrays(problem, {"x": ()}, theta, {}, {})
        run.posterior_predictive(
            SimpleNamespace(
                shapes={"x": ()},
                predict=lambda theta, fidelity=None, data=problem.data: theta[:, :, None] * data,
                sample_noise=lambda rng, y, theta: y,
            )
        )
        if not panels:
            with pytest.raises(ValueError, match="k >= 2 for a phase plane, got 1 column"):
                run.plot_phase()
        else:
            assert len(run.plot_phase().axes) == panels


def posed(theta, log=False, **settings):
    before = np.exp(PRIOR) if log else PRIOR
    problem = SimpleNamespace(sample_prior=lambda rng, n: before[:n])
    after = np.exp(theta) if log else theta
    shapes = {"x": (), "k": (2,)}
    return iv.Run.from_arrays(problem, shapes, after.reshape(1, 4, -1, 3), {}, {}, **settings)


@pytest.mark.parametrize("log", [False, True])
def test_directions_are_those_that_the_data_know(log):
    stiff = np.array([1.0, 1.0, 0.0]) / np.sqrt(2.0)
    theta = PRIOR - 0.9 * (PRIOR @ stiff)[:, None] * stiff  # a tenth is left along it, all of it beside
    run = posed(theta, log)
    found = directions(run)
    np.testing.assert_allclose(found.spread, [0.1, 1.0, 1.0])
    assert found.labels == (["log x", "log k[0]", "log k[1]"] if log else ["x", "k[0]", "k[1]"])
    np.testing.assert_allclose(found.prior.std(axis=0, ddof=1), 1.0)
    np.testing.assert_allclose(found.posterior.std(axis=0, ddof=1), found.spread)
    np.testing.assert_allclose(found.moves[:, 0], stiff, atol=1e-9)  # what a prior sd along it moves
    figure = run.plot_identifiability()
    np.testing.assert_allclose([bar.get_height() for bar in figure.axes[0].patches], found.spread)
    assert figure._repr_png_().startswith(b"\x89PNG")


def test_directions_by_weight():
    log_weight = np.random.default_rng(1).normal(size=(4, 250))
    run = posed(0.5 * PRIOR, log_weight=log_weight)
    found, weights = directions(run, ["k"]), np.exp(log_weight).ravel()
    wanted = np.cov(0.5 * PRIOR[:, 1:].T, aweights=weights)
    before = np.cov(PRIOR[:, 1:].T)
    np.testing.assert_allclose(np.prod(found.spread**2), np.linalg.det(wanted) / np.linalg.det(before))
    assert run.plot_identifiability(["k"]).axes


def test_directions_are_refused_where_they_mean_nothing():
    with pytest.raises(ValueError, match="at least two entries, got 1"):
        posed(PRIOR).plot_identifiability(["x"])
    with pytest.raises(ValueError, match="run must hold draws from the prior"):
        iv.Run.from_arrays(None, {"x": (2,)}, np.ones((1, 2, 50, 2)), {}, {}).plot_identifiability()
    with pytest.raises(ValueError, match="run must hold 5 draws of prior and posterior for each of 3 entries"):
        posed(PRIOR[:12]).plot_identifiability()


def test_profiles_stand_beside_marginals(run, posterior):
    found = iv.profile(posterior, seed=1)
    figure = run.plot_profiles(found)
    assert [axes.get_title("left") for axes in figure.axes] == ["frequency", "amplitude"]
    for axes, name in zip(figure.axes, ("frequency", "amplitude"), strict=True):
        line, prior = axes.lines[-1], next(one for one in axes.lines if one.get_label() == "prior")
        (outline,) = (patch for patch in axes.patches if patch.get_label() == "posterior")
        assert outline.get_data().values.max() == prior.get_ydata().max() == 1.0
        profile = found[name]
        np.testing.assert_allclose(line.get_ydata(), np.exp(profile.energies.min() - profile.energies))
        # the data alone know both, so that the profile is as wide as the marginal: sds to a quarter
        sd = run.summary()["sd"][name]
        low, high = profile.intervals(0.9545)[0][:2]
        assert abs((high - low) / (4 * sd) - 1) < 0.25
    assert len(run.plot_profiles(found, ["amplitude"]).axes) == 1
    with pytest.raises(ValueError, match="profiles must be Profiles"):
        run.plot_profiles({"amplitude": 1})
    with pytest.raises(ValueError, match="names must be one of 'frequency', 'amplitude', got 'phase'"):
        run.plot_profiles(found, ["phase"])

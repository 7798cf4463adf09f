"""Contour targets: their definition, rungs that sample them for any learned state, and the weights of their draws."""

from __future__ import annotations

import numpy as np
import pytest
from operator_oracle import grid
from parts import cases
from targets import gaussian
from tempering import LINE, Line

import invsamp as iv
from invsamp.diagnostics.checks import diagnose
from invsamp.engine.exchange.swap_acceptance import SwapAttempt
from invsamp.evaluate.requests import Estimate
from invsamp.kernels import LocalLangevin, local_langevin
from invsamp.problems.mixtures import far_modes, two_modes
from invsamp.tempering.contour_learning import Learning
from invsamp.tempering.contours import Contour, contour
from invsamp.tempering.target_distribution import LocallyScaledTarget, ReportingTarget

MIXTURE = two_modes()
TARGET = iv.Target(MIXTURE)
KNOTS, LOG_PSI = (1.5, 4.0, 9.0, 18.0), (0.0, -2.0, -6.5, -15.0)
KNOWN = contour(KNOTS, LOG_PSI, max_temperature=8.0)
ENDS = np.arange(2.5, 21.0, 1.0)  # the first above the lowest energies, .74 and 1.48
PUBLISHED = iv.samplers.csgld(0.1, ENDS, zeta=0.75, log_psi=np.linspace(0.0, -14.0, len(ENDS) + 1)).rungs[0].target


def at(energy):
    """What is known where the energy is that, with the gradient 1."""
    energy = np.asarray(energy, dtype=float)
    return Estimate(energy, np.ones((len(energy), 1)))


class TestTarget:
    @pytest.mark.parametrize(
        "target",
        [
            KNOWN,
            contour(KNOTS, LOG_PSI, zeta=0.5),
            PUBLISHED,
            contour(KNOTS),
            iv.samplers.awsgld(0.1, ENDS).rungs[0].target,
        ],
        ids=str,
    )
    def test_gradients_are_those_of_the_energies(self, target):
        u, h, memory = np.linspace(-3.0, 30.0, 400), 1e-6, target.init()
        slope = (target.energy(at(u + h), memory) - target.energy(at(u - h), memory)) / (2.0 * h)
        np.testing.assert_allclose(target.gradient(at(u), memory)[:, 0], slope, rtol=1e-7, atol=1e-7)

    def test_slopes_outside_are_those_of_the_posterior_and_of_the_hottest_target(self):
        np.testing.assert_allclose(KNOWN.slope(at([0.0, 1.4, 18.1, np.inf]), KNOWN.init()), [1.0, 1.0, 0.125, 0.125])
        np.testing.assert_array_equal(PUBLISHED.slope(at([0.0, 30.0]), PUBLISHED.init()), 1.0)

    def test_above_the_last_end_awsgld_continues_and_csgld_has_the_posteriors_slope(self):
        masses = np.log([0.1, 0.2, 0.5, 1.0])
        rising, falling = (
            make(0.1, [1.0, 2.0, 3.0], zeta=0.5, temperature=2.0).rungs[0].target.frozen(masses)
            for make in (iv.samplers.awsgld, iv.samplers.csgld)
        )
        np.testing.assert_allclose(rising.slope(at([9.0]), rising.init()), [0.5 + 0.5 * np.log(2.0)])
        np.testing.assert_allclose(falling.slope(at([9.0]), falling.init()), [0.5])

    def test_a_solve_that_failed_is_infinite(self):
        for target in (KNOWN, PUBLISHED, contour(12)):
            memory = target.init()
            np.testing.assert_array_equal(target.energy(at([np.inf]), memory), np.inf)
            assert np.isfinite(target.slope(at([np.inf]), memory)).all()

    def test_published_psi_is_theta_at_the_upper_ends_of_bins(self):
        """M = 1 + zeta tau (log theta_J - log theta_(J-1)) / du, 1 in the first bin and in the last."""
        target = (
            iv.samplers.csgld(0.1, [1.0, 2.0, 3.0], zeta=0.5, temperature=2.0, log_psi=[0.0, -1.0, -4.0, -9.0])
            .rungs[0]
            .target
        )
        np.testing.assert_allclose(2.0 * target.slope(at([0.5, 1.5, 2.5, 9.0]), target.init()), [1.0, 0.0, -2.0, 1.0])
        bins = target.bin_of(np.array([0.5, 1.0, 1.5, 3.5]), np.array([1.0, 2.0, 3.0]))
        np.testing.assert_array_equal(bins, [0, 0, 1, 3])
        knots = (0.0, 1.0, 3.0)
        found = contour(knots).bin_of(np.array([-9, 0.4, 0.6, 1.9, 2.1]), np.array(knots))
        np.testing.assert_array_equal(found, [0, 0, 1, 1, 2])

    def test_weights(self):
        """exp(v - U), or theta_J^zeta exp(U / tau - U) as published."""
        u = np.array([0.3, 2.0, 7.7, 30.0])
        for target in (KNOWN, PUBLISHED):
            weight = target.log_weight(at(u), target.init())
            np.testing.assert_allclose(weight, target.energy(at(u), target.init()) - u, rtol=1e-12)
        masses = {"log_psi": [0.0, -1.0, -4.0, -9.0], "weights": "published"}
        target = iv.samplers.csgld(0.1, [1.0, 2.0, 3.0], temperature=2.0, **masses).rungs[0].target
        np.testing.assert_allclose(
            target.log_weight(at(u), target.init()), 0.75 * np.array([0.0, -1.0, -9.0, -9.0]) - 0.5 * u
        )

    def test_with_equal_masses_it_is_the_posterior(self, draw):
        """Limit: the published target, nothing learned, gives the draws of SGLD, to the bit."""
        flat = iv.samplers.csgld(0.1, ENDS, log_psi=np.zeros(len(ENDS) + 1))
        run, plain = (draw(TARGET, s, draws=20, warmup=0, chains=8) for s in (flat, iv.samplers.sgld(0.1)))
        np.testing.assert_array_equal(run.theta, plain.theta)
        assert run.weights is None

    def test_targets_of_separate_chains_are_evaluated_row_by_row(self):
        target = iv.samplers.csgld(0.1, ENDS).rungs[0].target
        memory = target.updated(target.init(), at([2.0, 9.0, 14.0]), 1, True)
        assert memory["log_psi"].shape == (3, len(ENDS) + 1)
        u = np.array([5.3, 9.2, 14.9])
        for k in range(3):
            alone = memory | {"log_psi": memory["log_psi"][k : k + 1]}
            np.testing.assert_allclose(target.energy(at(u), memory)[k], target.energy(at(u), alone)[k], rtol=1e-13)
            np.testing.assert_allclose(target.slope(at(u), memory)[k], target.slope(at(u), alone)[k], rtol=1e-13)
        with pytest.raises(ValueError, match="each of the 3 chains has its own target"):
            target.energy(at(u[:2]), memory)

    def test_is_a_target_that_reports(self):
        assert isinstance(KNOWN, LocallyScaledTarget) and isinstance(KNOWN, ReportingTarget)
        assert str(KNOWN) == "contour (4 knots from 1.5 to 18)"
        assert str(contour(12, zeta=0.5, max_temperature=3.0)) == "contour (12 knots up to T = 3, zeta 0.5)"
        factor = KNOWN.step_factor(at([0.0, 30.0]), KNOWN.init())
        np.testing.assert_allclose(factor, [1.0, 8.0])


class Modes(Line):
    """Each mode in halves, and all that is between them: a thousandth of the posterior, and no interval has less."""

    edges, intervals = np.array([-4.0, -1.5, 1.5, 3.0]), 5


MODES = Modes()


class TestRungs:
    """A cold rung and a contour rung of known masses, or one that learns: both sample their target, in 1D."""

    def run(self, draw, target=KNOWN, kernel=None, **settings):
        mala = iv.kernels.Langevin(adjusted=True)
        rungs = [
            iv.ladder.Rung(kernel=mala, step_size=0.2),
            iv.ladder.Rung(target, kernel=kernel or LocalLangevin(), step_size=0.2),
        ]
        length = {"draws": 300, "thin": 4, "warmup": 600} | settings  # half of the chains begin on either side
        return draw(TARGET, iv.ladder.Sampler(rungs, iv.ladder.Swap(fraction=0.5)), **length)

    @pytest.mark.parametrize(
        "kernel",
        [
            LocalLangevin(),
            iv.kernels.Langevin(adjusted=True),
            pytest.param(iv.kernels.Hamiltonian(2.0), marks=pytest.mark.slow),
        ],
        ids=str,
    )
    def test_both_sample_their_targets(self, draw, agrees, kernel):
        run = self.run(draw, kernel=kernel)
        truth = MODES.truth(MIXTURE, (iv.tempering.tempered(1.0), KNOWN))
        assert agrees(MODES.shares(run), truth)
        # and the contour rung's draws are the posterior's by their weights
        hot, weight = run.rung_theta(1)[..., 0], run.rung_weights(1)
        assert run.weights is None  # those of the cold rung count alike
        assert agrees((weight * ((hot > 0.0) - 0.6)).mean(axis=1), 0.0)
        assert not agrees(
            MODES.shares(run), MODES.truth(MIXTURE, (iv.tempering.tempered(1.0), iv.tempering.tempered(1.0)))
        )

    def test_local_steps_without_their_jacobian_are_rejected(self, draw, agrees, monkeypatch):
        monkeypatch.setattr(local_langevin.np, "log", lambda ratio: 0.0 * ratio)
        run = self.run(draw)
        assert not agrees(MODES.shares(run), MODES.truth(MIXTURE, (iv.tempering.tempered(1.0), KNOWN)))

    @pytest.mark.slow
    def test_the_posterior_is_right_whatever_was_learned(self, draw, agrees, monkeypatch):
        sampler, truth = (
            iv.samplers.contour_exchange(8.0, swap_fraction=0.5),
            MODES.truth(MIXTURE, (iv.tempering.tempered(1.0),)),
        )
        length = {"thin": 4, "warmup": 1000, "chains": 128, "start": np.array([-4.0])}
        run = draw(TARGET, sampler, draws=400, **length)
        assert agrees(MODES.shares(run)[:, : MODES.intervals], truth)
        learned = run.report["learned_targets"]
        assert learned[0] is None and learned[1]["least_over_most"] > 0.5 and learned[1]["energy_round_trips"] > 500
        assert np.isfinite(learned[1]["knots"]).all()
        monkeypatch.setattr(SwapAttempt, "_value", lambda attempt, weights, estimate: (0.0 * estimate.energy, 0.0))
        deaf = draw(TARGET, sampler, draws=100, **length)
        assert not agrees(MODES.shares(deaf)[:, : MODES.intervals], truth)

    def test_in_a_domain_and_on_the_coarsest_fidelity(self, draw, agrees):
        """Bounds at -1 and 1; the contour rung has its own model, which the cold rung's target does not depend on."""
        potentials = {"coarse": gaussian(3.0, 0.4), "fine": gaussian(1.0, 0.2)}
        target = iv.Target(potentials, domain=iv.Box([-1.0], [1.0]))
        sampler = iv.samplers.contour_exchange(4.0, (0.3, 0.3), energy_bins=[0.1, 0.4, 0.8, 1.5], swap_fraction=0.5)
        run = draw(target, sampler, draws=300, thin=2, warmup=300)
        assert run.report["fidelities"] == ["fine", *["coarse"] * 3]
        theta = run.theta[..., 0]
        assert np.abs(run.rung_theta(1)).max() <= 1.0
        x = np.linspace(-1.0, 1.0, 20_001)
        density = np.exp(-0.5 * (x - 0.2) ** 2)
        truth = [(f * density).sum() / density.sum() for f in (x, x**2)]
        assert agrees(np.stack([theta.mean(axis=1), (theta**2).mean(axis=1)], axis=1), truth)
        hot = run.rung_theta(1)[..., 0]
        assert not agrees(np.stack([hot.mean(axis=1), (hot**2).mean(axis=1)], axis=1), truth)


def stationary(target, step, points):
    """Distribution (n,) of an unadjusted chain on a grid: by its transition matrix."""
    position = points[:, None]
    energy, gradient = MIXTURE.energy_and_gradient(position)
    mean = points - step * target.temperature * target.gradient(Estimate(energy, gradient), target.init())[:, 0]
    away = points - mean[:, None]
    matrix = np.exp(-0.25 * away**2 / (step * target.temperature))
    matrix /= matrix.sum(axis=1, keepdims=True)
    found = np.full(len(points), 1.0 / len(points))
    for _ in range(14):  # by squares: 16,384 steps
        matrix = matrix @ matrix
    return found @ matrix


class TestPublished:
    @pytest.mark.parametrize("name", ["csgld", "csghmc"])
    def test_of_known_masses_it_is_its_operator(self, draw, agrees, name):
        """At friction 1 that of a long step; with momentum, at a short one, the density.

        Masses that fall so steeply that chains go from mode to mode: they forget within 134 steps, or 500 short ones.
        """
        points, falling = grid(-9.0, 8.0, 600), np.linspace(0.0, -24.0, len(ENDS) + 1)
        target = iv.samplers.csgld(0.1, ENDS, log_psi=falling).rungs[0].target
        energy = MIXTURE.energy(points[:, None])
        value = target.energy(at(energy), target.init())
        density = np.exp(value.min() - value) / np.exp(value.min() - value).sum()
        posterior = np.exp(-energy) / np.exp(-energy).sum()
        if name == "csghmc":
            sampler = iv.samplers.csgld(0.02, ENDS, log_psi=falling, friction=0.3)
            run = draw(TARGET, sampler, draws=400, thin=10, warmup=2000)
            right, wrong = density, [posterior]
        else:
            run = draw(TARGET, iv.samplers.csgld(0.2, ENDS, log_psi=falling), draws=400, thin=8, warmup=800)
            right, wrong = stationary(target, 0.2, points), [density, posterior]
        shares = LINE.shares(run)
        assert agrees(shares, self.in_intervals(points, right))
        for other in wrong:
            assert not agrees(shares, self.in_intervals(points, other))

    def test_chains_that_learn_nothing_together_are_those_apart(self, draw):
        """Limit: of known masses ICSGLD makes the draws of CSGLD, to the bit."""
        both = (
            preset(0.2, ENDS, log_psi=np.linspace(0.0, -24.0, len(ENDS) + 1))
            for preset in (iv.samplers.csgld, iv.samplers.icsgld)
        )
        apart, together = (draw(TARGET, sampler, draws=20, warmup=10, chains=8) for sampler in both)
        np.testing.assert_array_equal(apart.theta, together.theta)
        np.testing.assert_array_equal(apart.weights, together.weights)

    @staticmethod
    def in_intervals(points, density):
        return np.bincount(np.searchsorted(LINE.edges, points), density, minlength=LINE.intervals)

    def test_what_is_learned_and_its_weights_in_the_mixture_of_the_thesis(self):
        """By quadrature, at the fixed point of the published field: the right mode's weight of .6 by either weights."""
        mixture, points = far_modes(), grid(-14.0, 12.0, 26_000)
        target = iv.samplers.csgld(0.1, np.arange(2.0, 52.0), weights="published").rungs[0].target
        learned, theta = at(mixture.energy(points[:, None])), np.full(target.bins, 1.0 / target.bins)
        for _ in range(60):  # theta_i goes as E[theta_J^zeta 1(i = J)]
            known = target.frozen(np.log(theta))
            value = known.energy(learned, known.init())
            density, bins = np.exp(value.min() - value), known.bin_of(learned.energy, np.array(target.energy_bins))
            theta = np.bincount(bins, density * theta[bins] ** target.zeta, minlength=target.bins)
            theta = np.maximum(theta / theta.sum(), 1e-300)
        found = []
        for log_weight in (known.log_weight(learned, known.init()), value - learned.energy):
            share = density * np.exp(log_weight)
            found.append(share[points > -1.0].sum() / share.sum())
        np.testing.assert_allclose(found, [0.637, 0.600], atol=5e-4)

    def test_weights_of_the_continuous_target_are_right_and_the_published_ones_are_not(self):
        """By the operator at a small step: .600, and what is published."""
        points = grid(-9.0, 8.0, 800)
        energy, right = MIXTURE.energy(points[:, None]), points > 0.0
        found = {}
        # masses of the bins as they are: the fixed point of what is learned
        counted = np.bincount(PUBLISHED.bin_of(energy, ENDS), np.exp(-energy), minlength=len(ENDS) + 1)
        log_psi = np.log(counted / counted.sum())
        for weights in ("exact", "published"):
            target = iv.samplers.csgld(0.01, ENDS, log_psi=log_psi, weights=weights).rungs[0].target
            density = np.exp(-target.energy(at(energy), target.init()))
            share = density * np.exp(target.log_weight(at(energy), target.init()))
            found[weights] = share[right].sum() / share.sum()
        assert found["exact"] == pytest.approx(0.6, abs=1e-6)
        assert abs(found["published"] - 0.6) > 0.004

    def test_masses_that_underflow_are_reported(self):
        target = (
            iv.samplers.csgld(0.1, ENDS, zeta=0.1, log_psi=np.linspace(0.0, -2000.0, len(ENDS) + 1)).rungs[0].target
        )
        assert target.report(target.init())["least_over_most"] == 0.0

    @pytest.mark.parametrize("preset", [iv.samplers.csgld, iv.samplers.icsgld, iv.samplers.awsgld])
    def test_they_learn_for_ever(self, draw, preset):
        sampler = preset(0.03, ENDS, gain=iv.tempering.gain(20.0, 1000.0, 0.75))
        run = draw(TARGET, sampler, draws=50, thin=20, warmup=1000, chains=64, start=np.array([-4.0]))
        plain = draw(TARGET, iv.samplers.sgld(0.03), draws=50, thin=20, warmup=1000, chains=64, start=np.array([-4.0]))
        energy, usual = (r.data.sample_stats.energy.to_numpy().mean() for r in (run, plain))
        learned = run.report["learned_targets"][0]
        if preset is iv.samplers.awsgld:  # which never climbs
            assert (np.diff(learned["log_psi"][0]) > 0).all()
        else:
            assert energy > usual + 0.5
        assert len(learned["log_psi"]) == (64 if preset is iv.samplers.csgld else 1)
        assert (learned["least_over_most"] is None) == (preset is not iv.samplers.csgld)

    def test_learning_begins_at_the_given_state(self):
        masses = -0.5 * np.arange(len(ENDS) + 1)
        for preset in (iv.samplers.csgld, iv.samplers.icsgld):
            target = preset(0.1, ENDS, initial_log_psi=masses).rungs[0].target
            memory = target.init()
            np.testing.assert_array_equal(memory["log_psi"], masses[None])
            assert (target.updated(memory, at([2.0, 9.0]), 1, True)["log_psi"] != masses).any()
            with pytest.raises(ValueError, match="initial_log_psi must be None where log_psi is known"):
                preset(0.1, ENDS, log_psi=masses, initial_log_psi=masses)
            with pytest.raises(ValueError, match="initial_log_psi must"):
                preset(0.1, ENDS, initial_log_psi=masses[1:])

    def test_their_parts(self):
        target = iv.samplers.icsgld(0.1, ENDS, zeta=0.9, temperature=2.0).rungs[0].target
        assert target.learning == Learning("icsgld", iv.tempering.gain(1.0, 100.0, 0.6), forever=True, shared=True)
        assert (target.zeta, target.temperature, target.placed, target.bins) == (0.9, 2.0, "ends", 20)
        assert not iv.samplers.csgld(0.1, ENDS).rungs[0].target.together
        assert iv.samplers.awsgld(0.1, ENDS).rungs[0].target.learning.field == "awsgld"
        noisy = iv.samplers.csgld(0.1, ENDS, estimator=iv.estimators.noisy(0.0, 0.1))
        assert noisy.rungs[0].estimator == iv.estimators.noisy(0.0, 0.1)


SAMPLERS = {
    "exchange": iv.samplers.contour_exchange(8.0, swap_fraction=0.5),
    "csgld": iv.samplers.csgld(0.03, ENDS),
    "icsgld": iv.samplers.icsgld(0.03, ENDS),
    "awsgld": iv.samplers.awsgld(0.03, ENDS),
}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", cases(SAMPLERS, {"exchange", "icsgld", "awsgld"}))
def test_they_are_stored_and_resumed_to_the_bit(tmp_path, name):
    settings = {"warmup": 500, "chains": 3, "seed": 3, "progress": False}
    whole = iv.sample(TARGET, SAMPLERS[name], draws=40, **settings)
    iv.sample(TARGET, SAMPLERS[name], draws=15, directory=tmp_path / "run", segment=5, **settings)
    run = iv.resume(tmp_path / "run", draws=40, progress=False)
    for k in range(run.rungs):
        np.testing.assert_array_equal(run.rung_theta(k), whole.rung_theta(k))
    np.testing.assert_array_equal(run.data.sample_stats.energy, whole.data.sample_stats.energy)
    if run.rungs == 1:
        np.testing.assert_array_equal(run.weights, whole.weights)
    assert run.report["learned_targets"] == whole.report["learned_targets"]


class TestRefused:
    def test_noisy_energies(self):
        for estimator in (
            iv.estimators.minibatch(5),
            iv.estimators.noisy(0.1),
            iv.estimators.control_variate(5, 10),
            iv.estimators.coupled_sum(),
        ):
            for preset in (iv.samplers.csgld, iv.samplers.icsgld, iv.samplers.awsgld):
                with pytest.raises(ValueError, match="not linear in the energies needs exact ones"):
                    preset(0.1, ENDS, estimator=estimator)

    def test_noise_taken_out(self):
        with pytest.raises(ValueError, match="gradient_noise must be None for a target that is not linear"):
            iv.ladder.Rung(KNOWN, estimator=iv.estimators.noisy(0.0, 0.1), gradient_noise=iv.ladder.GradientNoise())

    def test_local_steps_of_a_constant_target(self):
        with pytest.raises(ValueError, match=r"local steps are for a target with a slope that changes.*T = 2"):
            iv.ladder.Rung(2.0, kernel=LocalLangevin())

    def test_targets_of_separate_chains_on_a_ladder(self):
        target = iv.samplers.csgld(0.1, ENDS).rungs[0].target
        for more in (
            {"preconditioner": "dense"},
            {"rungs": [iv.ladder.Rung(step_size=0.1), iv.ladder.Rung(target, step_size=0.1)]},
        ):
            with pytest.raises(ValueError, match="each chain learns for itself is for one rung"):
                iv.ladder.Sampler(**{"rungs": [iv.ladder.Rung(target, step_size=0.1)]} | more)

    def test_warm_up_too_short_for_knots(self):
        with pytest.raises(ValueError, match="warmup must be at least 500 steps to find the knots of contour"):
            iv.sample(TARGET, iv.samplers.contour_exchange(), draws=1, warmup=499)

    @pytest.mark.parametrize(
        ("make", "message"),
        [
            (lambda: contour([1.0, 0.5, 2.0]), "energy_bins must increase"),
            (lambda: contour([1.0, 2.0]), "energy_bins must be at least three energies"),
            (lambda: contour(2), "energy_bins must be an integer >= 3, or rising energies"),
            (lambda: contour(5, [1.0, 2.0]), "log_psi must be None where knots are found"),
            (lambda: contour(KNOTS, [1.0, 2.0]), r"log_psi must have shape \(4,\), got \(2,\)"),
            (lambda: contour(zeta=0.0), "zeta must be a positive"),
            (lambda: contour(max_temperature=1.0), "max_temperature must be above the temperature 1, got 1"),
            (lambda: contour(gain=0.1), "gain must be a gain, as made by"),
            (lambda: iv.samplers.csgld(None, ENDS), "step_size must be given"),
            (lambda: iv.samplers.csgld(0.1, [1.0, 2.0]), "ends must be at least three energies"),
            (lambda: iv.samplers.csgld(0.1, ENDS, weights="both"), "weights must be one of 'exact', 'published'"),
            (
                lambda: iv.samplers.contour_exchange(kernel=iv.kernels.Langevin()),
                "kernel must have an acceptance step",
            ),
            (
                lambda: iv.samplers.contour_exchange(fidelities=("a",)),
                "fidelities must have one entry for each of the 2",
            ),
        ],
    )
    def test_arguments(self, make, message):
        with pytest.raises(ValueError, match=message):
            make()

    def test_no_knots_at_the_end_of_warm_up(self):
        target = contour(5)
        with pytest.raises(RuntimeError, match="warmup must be at least 500 steps"):
            target.updated(target.init(), at([1.0]), 50, False)


def test_warnings_of_bins_and_trips(draw):
    """Bins below the lowest energy are never visited; a rung that hardly moves makes no trips."""
    knots = [-8.0, -6.0, *KNOTS]
    run = draw(TARGET, iv.samplers.contour_exchange(8.0, 1e-4, energy_bins=knots), draws=40, warmup=20, chains=4)
    found = [m for m in diagnose(run.summary(), run.report) if "rung 1 (contour" in m or "rung 1" in m[:7]]
    assert len(found) == 2
    assert "visited unevenly, the least 0.000 times" in found[0] and "begin above the lowest energy" in found[0]
    assert "0 round trips from the lowest quarter of its bins" in found[1]


def test_masses_that_are_known_are_kept():
    memory = KNOWN.init()
    after = KNOWN.updated(memory, at([2.0, 3.0]), 5, True)
    assert after is memory
    counted = KNOWN.updated(memory, at([1.0, 17.0, 3.0]), 5, False)
    np.testing.assert_array_equal(counted["mode_occupancy"], [1.0, 1.0, 0.0, 1.0])
    np.testing.assert_array_equal(counted["end"], [0, 1, -1])
    there = KNOWN.updated(counted, at([17.0, 17.0, 3.0]), 6, False)
    np.testing.assert_array_equal(KNOWN.updated(there, at([1.0, 17.0, 1.0]), 7, False)["crossings"], [2, 0, 0])
    assert isinstance(KNOWN, Contour)

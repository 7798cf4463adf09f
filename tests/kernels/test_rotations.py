"""Kernels that keep a Gaussian reference: their target distribution, their limits, and their cost in any dimension."""

from __future__ import annotations

import numpy as np
import pytest
from field_cases import DATA, NOISE, Bent, bent, bent_field, moments, truth, two_fidelities

import invsamp as iv
from invsamp.kernels import CrankNicolson, InfinityHamiltonian, InfinityMicrocanonical, rotations
from invsamp.kernels.gaussian_reference import ModeReference
from invsamp.kernels.metric import LowRankMetric

D = 90


def linear(d=60, data=4):
    """A conjugate problem: the low rank is exact."""
    rng = np.random.default_rng(3)
    factor, mean = np.linspace(0.5, 2.0, d), rng.standard_normal(d)
    slopes, y = rng.standard_normal((data, d)), rng.standard_normal(data)
    white = slopes * factor
    _, sizes, vectors = np.linalg.svd(white, full_matrices=False)
    after = np.linalg.inv(np.diag(1.0 / factor**2) + slopes.T @ slopes)
    at = after @ (mean / factor**2 + slopes.T @ y)
    reference = ModeReference(at, mean, LowRankMetric(factor, vectors.T, sizes**2))
    return reference, factor, mean, slopes, y


class TestReference:
    @pytest.mark.parametrize("powers", [(1.0, 1.0), (1.0, 0.3), (0.5, 0.5), (1.0, 0.0), (2.0, 0.7)])
    def test_that_of_any_powers_is_the_exact_gaussian(self, powers):
        reference, factor, mean, slopes, y = linear()
        prior, misfit = powers
        covariance = np.linalg.inv(prior * np.diag(1.0 / factor**2) + misfit * slopes.T @ slopes)
        found, metric = reference.at(prior, misfit)
        root = metric.color(np.eye(60))
        np.testing.assert_allclose(root.T @ root, covariance, atol=1e-10)
        np.testing.assert_allclose(found, covariance @ (prior * mean / factor**2 + misfit * slopes.T @ y), atol=1e-8)
        np.testing.assert_allclose(metric.variances, np.diag(covariance), atol=1e-10)

    def test_its_operations_belong_together(self):
        metric = linear()[0].metric
        rng = np.random.default_rng(0)
        v, g = rng.standard_normal((2, 3, 60))
        np.testing.assert_allclose(metric.uncolor(metric.color(v)), v, atol=1e-10)
        np.testing.assert_allclose((metric.color(v) * g).sum(), (v * metric.whiten(g)).sum())

    def test_modes_without_one_are_refused(self):
        small = iv.Posterior(iv.Prior(x=iv.Normal(0.0, np.ones(2))), Bent(), DATA, iv.GaussianNoise(NOISE))
        with pytest.raises(ValueError, match="reference must be modes with Hessians of low rank"):
            iv.pcn(reference=iv.maximize(small, starts=2, seed=1))
        with pytest.raises(ValueError, match="preconditioner must be None"):
            iv.ladder.Sampler([iv.ladder.Rung(kernel=InfinityHamiltonian())], preconditioner="dense")

    def test_that_of_other_unknowns_is_refused(self):
        with pytest.raises(ValueError, match="reference must be of modes of the problem's 91 unknowns, got some of 90"):
            iv.sample(bent_field(91), iv.samplers.infinity_hmc(reference=bent()[1]), draws=2, progress=False)

    def test_kernels_take_it_of_modes(self):
        modes = bent()[1]
        for kernel in (InfinityHamiltonian, InfinityMicrocanonical, CrankNicolson):
            assert kernel(reference=modes) == kernel(reference=modes.reference)
            with pytest.raises(ValueError, match=r"reference must be modes of invsamp\.maximize, or None for the"):
                kernel(reference=np.zeros(3))

    def test_no_preconditioner_is_found_beside_it(self):
        kernel = InfinityHamiltonian(reference=bent()[1])
        assert iv.samplers.parallel_tempering((1.0, 4.0), kernel=kernel).preconditioner is None
        assert iv.samplers.two_stage(kernel=kernel).preconditioner is None
        mixed = [iv.ladder.Rung(kernel=kernel), iv.ladder.Rung(4.0, kernel=iv.kernels.Hamiltonian())]
        with pytest.raises(ValueError, match="preconditioner must be None"):
            iv.ladder.Sampler(mixed, preconditioner="auto")


SAMPLERS = {
    "infinity_hmc": lambda reference: iv.samplers.infinity_hmc(0.7, length=1.6, reference=reference),
    "infinity_mams": lambda reference: iv.samplers.infinity_mams(0.7, length=1.6, reference=reference),
    "pcn": lambda reference: iv.pcn(0.6, reference=reference),
}


def drawn(draw, name, reference, **settings):
    given = {"draws": 150 if name == "pcn" else 40, "warmup": 20} | settings
    return draw(bent()[0], SAMPLERS[name](reference), **given)


def kept_in_part(draw):
    """Of the first two unknowns; about the prior, so that a third of the paths is refused."""
    reference = ModeReference(np.zeros(D), np.zeros(D), LowRankMetric(np.ones(D), np.eye(D)[:, :2], np.zeros(2)))
    kernel = InfinityHamiltonian(0.6, reference, friction=0.1)
    run = draw(bent()[0], iv.ladder.Sampler([iv.ladder.Rung(kernel=kernel, step_size=0.6)]), draws=400, warmup=20)
    assert run.report["acceptance"][0] < 0.75
    return moments(run)


class TestTarget:
    @pytest.mark.parametrize("name", SAMPLERS)
    def test_about_a_mode(self, draw, agrees, name):
        run = drawn(draw, name, bent()[1])
        assert run.report["kernels"] == [name]
        assert agrees(moments(run), truth())

    def test_about_the_prior(self, draw, agrees):
        """Its steps are shorter, as the data are narrower than the prior."""
        posterior, modes = bent()
        run = draw(posterior, iv.samplers.infinity_hmc(0.2, length=1.2), draws=40, warmup=20, start=modes.theta[0])
        assert agrees(moments(run), truth())

    @pytest.mark.parametrize("name", ["infinity_hmc", "infinity_mams"])
    def test_rotations_by_another_angle_are_rejected(self, draw, agrees, monkeypatch, name):
        """Velocities turn by less than positions: the sum of their squares is not kept, and volume neither."""
        right = rotations._Rotating.drift if name == "infinity_hmc" else rotations._Apart.drift
        kind = rotations._Rotating if name == "infinity_hmc" else rotations._Apart

        def drift(self, position, velocity, step):
            end, _, failed = right(self, position, velocity, step)
            return end, right(self, position, velocity, 0.6 * step)[1], failed

        monkeypatch.setattr(kind, "drift", drift)
        assert not agrees(moments(drawn(draw, name, bent()[1])), truth())

    def test_an_acceptance_without_the_reference_is_rejected(self, draw, agrees, monkeypatch):
        monkeypatch.setattr("invsamp.kernels.crank_nicolson.reference_energy", lambda z: np.zeros(len(z)))
        assert not agrees(moments(drawn(draw, "pcn", bent()[1])), truth())

    def test_velocities_that_are_kept_in_part(self, draw, agrees):
        assert agrees(kept_in_part(draw), truth())

    def test_velocities_that_refusals_do_not_reverse_are_rejected(self, draw, agrees, monkeypatch):
        def forward(self, accept, end, start):
            return {"velocity": np.where(accept[:, None], end, start) @ self.reference.metric.vectors}

        monkeypatch.setattr(InfinityHamiltonian, "remembered", forward)
        assert not agrees(kept_in_part(draw), truth())

    def test_a_coarse_model_screens_paths_about_the_mode(self, draw, agrees):
        """Of the wrapped kernel's own reference: about the prior shorter steps would be accepted."""
        modes = bent()[1]
        sampler = iv.samplers.two_stage(0.7, kernel=InfinityHamiltonian(reference=modes), steps=2)
        run = draw(two_fidelities(), sampler, draws=40, warmup=20)
        assert agrees(moments(run), truth())
        assert run.report["reference_eigenvalues"] == [sorted(modes.reference.metric.values, reverse=True)]

    def test_on_a_ladder_every_rung_has_its_own(self, draw, agrees):
        posterior, modes = bent()
        kernel = iv.samplers.infinity_hmc(reference=modes).rungs[0].kernel
        targets = [iv.tempering.tempered_likelihood(power) for power in (1.0, 0.2, 0.0)]
        rungs = [iv.ladder.Rung(target, kernel=kernel, step_size=0.7) for target in targets]
        run = draw(posterior, iv.ladder.Sampler(rungs), draws=30, warmup=20)
        assert agrees(moments(run), truth())
        hot = np.asarray(run.data.hot["x"])[:, :, 0]  # (chains, draws, d) of the second rung
        values = np.stack([hot[..., k].mean(axis=1) for k in (0, 1)], axis=1)
        assert agrees(values, truth(0.2)[:2])
        assert max(run.report["swap_rejection"]) < 0.7


class TestLimits:
    def run(self, draw, posterior, kernel, step, **settings):
        sampler = iv.ladder.Sampler([iv.ladder.Rung(kernel=kernel, step_size=step)])
        return draw(posterior, sampler, **({"draws": 4, "warmup": 0, "chains": 4} | settings)).theta

    @pytest.mark.parametrize("kind", [InfinityHamiltonian, InfinityMicrocanonical, CrankNicolson])
    def test_a_reference_of_rank_0_is_the_prior(self, draw, kind):
        posterior, start = bent()[0], np.zeros(D)
        none = ModeReference(np.zeros(D), np.zeros(D), LowRankMetric(np.ones(D), np.zeros((D, 0)), np.zeros(0)))
        by_rank = self.run(draw, posterior, kind(reference=none), 0.3, start=start)
        np.testing.assert_allclose(by_rank, self.run(draw, posterior, kind(), 0.3, start=start), atol=1e-12)

    def test_a_quarter_turn_is_an_independent_draw(self, draw, monkeypatch):
        """Where the target is the reference, as one of `CrankNicolson` of the step 1, from the same numbers."""
        posterior = iv.Posterior(iv.Prior(x=iv.Normal(0.0, np.ones(D))), log_likelihood=iv.LogDensity(_none, True))
        monkeypatch.setattr(InfinityHamiltonian, "steps", lambda *_: (1, rotations.QUARTER))
        turned = self.run(draw, posterior, InfinityHamiltonian(), rotations.QUARTER)
        np.testing.assert_allclose(turned, self.run(draw, posterior, CrankNicolson(), 1.0), atol=1e-12)

    def test_without_informed_directions_it_is_not_microcanonical(self, draw):
        posterior, start = bent()[0], np.zeros(D)
        plain = self.run(draw, posterior, InfinityHamiltonian(length=1.5), 0.3, start=start)
        np.testing.assert_array_equal(self.run(draw, posterior, InfinityMicrocanonical(1.5), 0.3, start=start), plain)


def _none(theta):
    return np.zeros(len(theta)), np.zeros(theta.shape)


class TestFriction:
    """Of velocities between paths."""

    def test_of_all_is_that_of_fresh_velocities(self, draw):
        posterior, modes = bent()
        kernels = [InfinityHamiltonian(0.9, modes, friction=share) for share in (1.0, 1.0 - 1e-9)]
        samplers = [iv.ladder.Sampler([iv.ladder.Rung(kernel=kernel, step_size=0.7)]) for kernel in kernels]
        fresh, kept = (draw(posterior, sampler, draws=10, warmup=0, start=np.zeros(D)).theta for sampler in samplers)
        np.testing.assert_allclose(kept, fresh, atol=1e-6)

    def test_goes_further_where_the_target_is_wider_than_the_reference(self, draw):
        """Of a Gaussian five times as wide in one direction: its autocorrelation after thirty short paths."""
        wide = np.zeros((1, D))
        wide[0, 0] = 1.0
        model = iv.with_jacobian(lambda x: x @ wide.T, lambda x: np.broadcast_to(wide, (len(x), 1, D)))
        posterior = iv.Posterior(iv.Prior(x=iv.Normal(0.0, np.ones(D))), model, [0.0], iv.GaussianNoise(10.0))
        reference = ModeReference(np.zeros(D), np.zeros(D), LowRankMetric(np.ones(D), wide.T, np.array([24.0])))

        def correlation(friction):
            kernel = InfinityHamiltonian(0.3, reference, friction)
            sampler = iv.ladder.Sampler([iv.ladder.Rung(kernel=kernel, step_size=0.2)])
            slow = draw(posterior, sampler, draws=40, warmup=50, thin=30).theta[..., 0]
            return np.mean(slow[:, 1:] * slow[:, :-1]) / np.mean(slow**2)

        assert correlation(1.0) > 0.87
        assert correlation(0.1) < 0.75

    def test_what_cannot_be(self):
        modes = bent()[1]
        with pytest.raises(ValueError, match=r"friction must be 1 without a reference, got 0\.1"):
            InfinityHamiltonian(friction=0.1)
        with pytest.raises(ValueError, match=r"friction must be .*, got 0\.0"):
            InfinityHamiltonian(reference=modes, friction=0.0)
        with pytest.raises(ValueError, match="an adjusted kernel whose steps are reversible"):
            iv.kernels.DelayedAcceptance(InfinityHamiltonian(reference=modes, friction=0.1), coarse="coarse")


class TestDimension:
    @pytest.mark.parametrize("name", ["infinity_hmc", "infinity_mams"])
    def test_acceptance_does_not_depend_on_it(self, draw, name):
        def acceptance(d):
            posterior, modes = bent(d)
            return draw(posterior, SAMPLERS[name](modes), draws=15, warmup=10).report["acceptance"][0]

        assert abs(acceptance(90) - acceptance(900)) < 0.03

    def test_a_linear_problem_refuses_nothing(self, draw):
        rng = np.random.default_rng(5)
        slopes = rng.standard_normal((3, 200)) * np.array([[3.0], [1.0], [0.1]])
        model = iv.with_jacobian(lambda b: b @ slopes.T, lambda b: np.broadcast_to(slopes, (len(b), 3, 200)))
        posterior = iv.Posterior(
            iv.Prior(b=iv.Normal(0.0, np.ones(200))), model, [1.0, 2.0, 3.0], iv.GaussianNoise(0.1)
        )
        run = draw(
            posterior, iv.samplers.infinity_hmc(1.0, reference=iv.maximize(posterior, seed=1)), draws=10, warmup=0
        )
        assert run.report["acceptance"][0] > 0.999

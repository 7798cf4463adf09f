"""The evidence that runs report, in memory and stored, and runs without one."""

from __future__ import annotations

import math

import numpy as np
import pytest

import invsamp as iv


def posterior(d, wide=3.0, fidelities=1):
    """Data 1 in each direction, noise of variance 1."""
    identity = iv.with_jacobian(lambda theta: theta, lambda theta: np.tile(np.eye(d), (len(theta), 1, 1)))
    models = identity if fidelities == 1 else {f"level {k}": identity for k in range(fidelities)}
    return iv.Posterior(iv.Prior(x=iv.Normal(np.zeros(d), wide)), models, np.ones(d), iv.GaussianNoise(1.0))


def truth(d, wide=3.0):
    return -0.5 * d / (1.0 + wide**2) - 0.5 * d * math.log(2.0 * math.pi * (1.0 + wide**2))


@pytest.mark.parametrize("d", [2, pytest.param(20, marks=pytest.mark.slow)])
def test_of_a_ladder_that_was_found(d, draw, within):
    run = draw(posterior(d), iv.samplers.parallel_tempering(ladder="auto"), draws=400, warmup=700, chains=16)
    found = run.log_evidence()
    assert within((found.value - truth(d)) / found.error, 4.5)
    assert found.error < 0.2
    # a prior twice as wide has another evidence
    assert not within((found.value - truth(d, wide=6.0)) / found.error, 4.5)
    assert not found.doubts


def test_a_stored_run_reports_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr(iv.Run, "warnings", lambda self: [])
    targets = [iv.tempering.tempered_likelihood(beta) for beta in (1.0, 0.3, 0.05, 0.0)]
    run = iv.sample(
        posterior(2),
        iv.samplers.parallel_tempering(targets),
        draws=50,
        progress=False,
        seed=1,
        directory=tmp_path / "run",
    )
    run.save(tmp_path / "run.nc")
    for again in (iv.load(tmp_path / "run"), iv.load(tmp_path / "run.nc")):
        assert again.log_evidence() == run.log_evidence()


class TestRefused:
    def run(self, draw, sampler, problem=None):
        return draw(posterior(1) if problem is None else problem, sampler, draws=20, warmup=300, chains=4)

    @pytest.mark.parametrize(
        ("sampler", "message"),
        [
            (
                iv.mala(),
                r"needs a ladder that ends at the prior.*T = 1.*Sample with parallel_tempering\(ladder=\"auto\"\)",
            ),
            (iv.samplers.parallel_tempering((1.0, 4.0)), "needs a ladder of tempered likelihoods, got T = 1, T = 4"),
            (
                iv.samplers.parallel_tempering([iv.tempering.tempered_likelihood(b) for b in (1.0, 0.5)]),
                "needs a ladder that ends at the prior, at beta = 0, got beta = 1, beta = 0.5",
            ),
            (
                iv.resgld(
                    [iv.tempering.tempered_likelihood(b) for b in (1.0, 0.0)], 0.01, estimator=iv.estimators.noisy(1.0)
                ),
                "needs exact energies",
            ),
        ],
    )
    def test_with_what_to_do(self, draw, sampler, message):
        with pytest.raises(ValueError, match=message):
            self.run(draw, sampler).log_evidence()

    def test_of_two_fidelities(self, draw):
        run = self.run(draw, iv.samplers.parallel_tempering(ladder="auto"), posterior(1, fidelities=2))
        with pytest.raises(ValueError, match=r"one fidelity, got \['level 1', 'level 0'\].*fidelities=\['level 1'\]"):
            run.log_evidence()

    def test_of_a_run_that_does_not_say(self):
        run = iv.Run.from_arrays(None, {"x": ()}, np.zeros((1, 2, 9, 1)), {}, {})
        with pytest.raises(ValueError, match="a run that does not say what its rungs sample"):
            run.log_evidence()


def test_a_run_prints_where_round_trips_lead_and_how_chains_share_the_modes(monkeypatch):
    monkeypatch.setattr(iv.Run, "warnings", lambda self: [])
    square = iv.with_jacobian(lambda theta: theta**2, lambda theta: 2.0 * theta[:, :, None])
    problem = iv.Posterior(iv.Prior(x=iv.Normal(0.0, 5.0)), square, [25.0], iv.GaussianNoise(3.0))
    run = iv.sample(
        problem, iv.samplers.parallel_tempering(ladder="auto"), draws=200, warmup=300, seed=1, progress=False
    )
    text = repr(run)
    assert "round trips to the prior, drawn from directly" in text
    assert "x stays on two sides of" in text and "share below, by chain: 0." in text

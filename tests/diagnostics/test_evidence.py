"""Evidence of Gaussian models, known in closed form, from draws whose laws and autocorrelations are known."""

from __future__ import annotations

import math

import numpy as np
import pytest

from invsamp.diagnostics.evidence import log_evidence


class Gaussian:
    """Data 1 in each of d directions, noise of variance 1, prior of variance 9."""

    def __init__(self, d):
        self.d = d
        # as far apart as ladders are that reject a half
        ratio = 1.0 + 3.0 / math.sqrt(d)
        inner = ratio ** -np.arange(math.ceil(math.log(100.0) / math.log(ratio)))
        self.betas = np.append(inner, 0.0)

    @property
    def truth(self):
        return -0.5 * self.d / 10.0 - 0.5 * self.d * math.log(2.0 * math.pi * 10.0)

    def misfits(self, rng, draws=250, correlation=0.8):
        """Misfits (rungs, chains, draws) of autoregressive draws."""
        noise = rng.standard_normal((len(self.betas), 4, draws, self.d))
        for k in range(1, draws):
            noise[:, :, k] = correlation * noise[:, :, k - 1] + math.sqrt(1.0 - correlation**2) * noise[:, :, k]
        variance = (1.0 / (1.0 / 9.0 + self.betas))[:, None, None, None]
        theta = self.betas[:, None, None, None] * variance + np.sqrt(variance) * noise
        return 0.5 * ((theta - 1.0) ** 2).sum(axis=3) + 0.5 * self.d * math.log(2.0 * math.pi)


@pytest.mark.parametrize("d", [2, 20, pytest.param(100, marks=pytest.mark.slow)])
def test_is_that_of_gaussians_and_errors_are_what_they_say(d, agrees, within):
    model, rng = Gaussian(d), np.random.default_rng(0)
    found = [log_evidence(model.betas, model.misfits(rng)) for _ in range(64)]
    values = np.array([(one.value, one.thermodynamic) for one in found])
    errors = np.array([(one.error, one.thermodynamic_error) for one in found])
    assert agrees(values, [model.truth] * 2)
    # of 64 scores the root mean square is 1 +- .09
    scores = (values - model.truth) / errors
    spread = np.sqrt(np.square(scores).mean(axis=0))
    assert within(np.log(spread), 0.5)
    assert sum(bool(one.doubts) for one in found) < 6
    # as if draws were independent, errors are three times too small
    naive = errors / math.sqrt((1.0 + 0.8) / (1.0 - 0.8))
    assert not within(np.log(np.sqrt(np.square((values - model.truth) / naive).mean(axis=0))), 0.5)
    # and without its normalisation a likelihood has another one
    assert not agrees(values + 0.5, [model.truth] * 2)


def test_solves_that_fail_cut_the_prior_off(agrees):
    """A uniform prior on (0, 1), flat data, solvable above a quarter: three quarters of the mass are left."""
    rng, values = np.random.default_rng(0), []
    for _ in range(64):
        misfit = np.zeros((2, 4, 100))
        misfit[1] = np.where(rng.random((4, 100)) < 0.25, np.inf, 0.0)
        found = log_evidence([1.0, 0.0], misfit)
        values.append((found.value, found.thermodynamic))
    assert agrees(values, [math.log(0.75)] * 2)


def test_rungs_too_far_apart_are_told():
    model = Gaussian(100)
    rows = [0, len(model.betas) // 2, len(model.betas) - 1]
    found = log_evidence(model.betas[rows], model.misfits(np.random.default_rng(0))[rows])
    assert any("neighbours are too far apart" in doubt for doubt in found.doubts)
    assert "log evidence" in str(found) and "thermodynamic integration" in str(found)


@pytest.mark.parametrize(
    ("betas", "shape", "message"),
    [
        ((1.0, 0.5), (2, 4, 9), r"betas must decrease from 1 to 0, got \[1.0, 0.5\]"),
        ((1.0, 0.5, 0.5, 0.0), (4, 4, 9), "betas must decrease"),
        ((1.0, 0.0), (3, 4, 9), "misfit must have one row for each of the 2 betas, got 3"),
        ((1.0, 0.0), (2, 4, 3), "misfit must have at least 4 draws of each chain, got 3"),
    ],
)
def test_refused(betas, shape, message):
    with pytest.raises(ValueError, match=message):
        log_evidence(betas, np.ones(shape))


def test_a_prior_whose_misfits_have_no_variance():
    """Stepping stones do not see it; the integral stays finite, with an error that says so."""
    model, rng = Gaussian(2), np.random.default_rng(0)
    misfit = model.misfits(rng)
    misfit[-1] *= np.exp(3.0 * rng.standard_normal(misfit[-1].shape))
    found, plain = log_evidence(model.betas, misfit), log_evidence(model.betas, model.misfits(rng))
    assert abs(found.thermodynamic - plain.thermodynamic) < 6.0 * found.thermodynamic_error + 1.0
    assert found.thermodynamic_error > 2.0 * plain.thermodynamic_error
    assert found.error < 3.0 * plain.error

"""Evidence of Gaussian models, known in closed form, from draws with known distributions and autocorrelations."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.integrate import trapezoid
from scipy.special import ndtr

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


class UnknownScale:
    """Data with noise of unknown scale, under whose half-normal prior the misfit has no mean."""

    def __init__(self, data=8):
        self.betas = np.array([1.0, 0.4, 0.15, 0.05, 0.015, 0.0])
        self.log_scale = np.linspace(-12.0, 3.0, 4001)
        scale = np.exp(self.log_scale)
        self.misfit = 0.5 * data * np.square(0.4 / scale) + data * (self.log_scale + 0.5 * math.log(2.0 * math.pi))
        self.prior = -0.5 * scale**2 + self.log_scale + 0.5 * math.log(2.0 / math.pi)

    @property
    def truth(self):
        return np.log(np.exp(self.prior - self.misfit).sum() * np.diff(self.log_scale)[0])

    def misfits(self, rng, betas=None, draws=250, correlation=0.8):
        """Misfits (rungs, chains, draws) of autoregressive draws."""
        betas = self.betas if betas is None else betas
        noise = rng.standard_normal((len(betas), 4, draws))
        for k in range(1, draws):
            noise[:, :, k] = correlation * noise[:, :, k - 1] + math.sqrt(1.0 - correlation**2) * noise[:, :, k]
        found = np.empty(noise.shape)
        for k, beta in enumerate(betas):
            logs = self.prior - beta * self.misfit
            mass = np.cumsum(np.exp(logs - logs.max()))
            scale = np.interp(ndtr(noise[k]), mass / mass[-1], self.log_scale)
            found[k] = np.interp(scale, self.log_scale, self.misfit)
        return found


@pytest.mark.parametrize("d", [2, 20, pytest.param(100, marks=pytest.mark.slow)])
def test_is_that_of_gaussians_and_errors_are_what_they_say(d, agrees, within):
    model, rng = Gaussian(d), np.random.default_rng(0)
    found = [log_evidence(model.betas, model.misfits(rng)) for _ in range(64)]
    values = np.array([(one.value, one.bennett) for one in found])
    errors = np.array([one.error for one in found])
    assert agrees(values, [model.truth] * 2)
    # of 64 scores the root mean square is 1 +- .09
    scores = (values[:, 0] - model.truth) / errors
    assert within(np.log(np.sqrt(np.square(scores).mean())), 0.5)
    assert sum(bool(one.doubts) for one in found) < 6
    # as if draws were independent, errors are three times too small
    naive = errors / math.sqrt((1.0 + 0.8) / (1.0 - 0.8))
    assert not within(np.log(np.sqrt(np.square((values[:, 0] - model.truth) / naive).mean())), 0.5)
    # and without its normalization a likelihood has another one
    assert not agrees(values + 0.5, [model.truth] * 2)


def test_solves_that_fail_cut_the_prior_off(agrees):
    """A uniform prior on (0, 1), flat data, solvable above a quarter: three quarters of the mass are left."""
    rng, values = np.random.default_rng(0), []
    for _ in range(64):
        misfit = np.zeros((2, 4, 100))
        misfit[1] = np.where(rng.random((4, 100)) < 0.25, np.inf, 0.0)
        found = log_evidence([1.0, 0.0], misfit)
        values.append((found.value, found.bennett))
    assert agrees(values, [math.log(0.75)] * 2)


def test_rungs_too_far_apart_are_reported():
    model = Gaussian(100)
    rows = [0, len(model.betas) // 2, len(model.betas) - 1]
    found = log_evidence(model.betas[rows], model.misfits(np.random.default_rng(0))[rows])
    assert any("neighbors are too far apart" in doubt for doubt in found.doubts)
    assert str(found).startswith(f"log evidence {found.value:.6g} +- {found.error:.2g}; ")


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


@pytest.mark.parametrize(
    ("row", "value", "message"),
    [(0, np.nan, "got nan"), (1, -np.inf, "got -inf"), (1, np.inf, r"got \+inf for all of 0")],
)
def test_misfits_that_are_none(row, value, message):
    misfit = np.ones((2, 4, 9))
    misfit[row] = value
    with pytest.raises(ValueError, match=message):
        log_evidence((1.0, 0.0), misfit)


def test_a_prior_under_which_the_misfit_has_no_mean(agrees, within):
    model, rng = UnknownScale(), np.random.default_rng(0)
    misfits = [model.misfits(rng) for _ in range(64)]
    found = [log_evidence(model.betas, one) for one in misfits]
    values, errors = (np.array([getattr(one, name) for one in found]) for name in ("value", "error"))
    assert agrees(values, model.truth)
    assert within(np.log(np.sqrt(np.square((values - model.truth) / errors).mean())), 0.5)
    assert sum(bool(one.doubts) for one in found) < 6
    # control: thermodynamic integration is off by a hundred of these errors
    integrals = [trapezoid(one.mean(axis=(1, 2)), model.betas) for one in misfits]
    assert np.median(integrals) < model.truth - 2.0


@pytest.mark.parametrize("rung", [0, 1])
def test_a_rung_that_samples_something_else_is_doubted(rung):
    """However heavy the tail of the misfit is under the prior."""
    model, rng = UnknownScale(), np.random.default_rng(0)
    wrong = model.betas.copy()
    wrong[rung] *= 0.1
    for _ in range(20):
        found = log_evidence(model.betas, model.misfits(rng, wrong))
        assert "disagree" in found.doubts[0]


@pytest.mark.parametrize("share", [0.3, 1.0])
def test_a_mode_that_hotter_rungs_miss_is_doubted(share):
    """Chains of the colder half of the ladder are in a narrow mode, in part or all of them."""
    model, rng = Gaussian(2), np.random.default_rng(0)
    misfit = model.misfits(rng)
    half = len(model.betas) // 2
    misfit[:half] -= np.where(rng.random(misfit[:half].shape) < share, 30.0, 0.0)
    found = log_evidence(model.betas, misfit)
    assert "disagree" in found.doubts[0]


@pytest.mark.parametrize("rung", [0, 2, 5])
def test_chains_that_stay_in_modes_of_their_own_are_doubted(rung):
    model, rng = Gaussian(2), np.random.default_rng(0)
    misfit = model.misfits(rng)
    assert not log_evidence(model.betas, misfit).doubts
    misfit[rung, :2] += 2.0 * misfit[rung].std()
    doubts = log_evidence(model.betas, misfit).doubts
    assert any(f"chains of rung {rung} have different misfits" in doubt for doubt in doubts)


def test_misfits_of_any_size():
    model, rng = UnknownScale(), np.random.default_rng(0)
    misfit = model.misfits(rng)
    plain = log_evidence(model.betas, misfit)
    misfit[-1, 0, :3] = [1e300, 1e12, np.inf]
    found = log_evidence(model.betas, misfit)
    assert abs(found.value - plain.value) < 0.1 and abs(found.bennett - plain.bennett) < 0.1
    shifted = log_evidence(model.betas, misfit + 1e6)
    assert shifted.value == pytest.approx(found.value - 1e6, abs=1e-6)
    assert shifted.bennett == pytest.approx(found.bennett - 1e6, abs=1e-6)

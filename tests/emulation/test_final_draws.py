"""Reported draws of emulated posteriors: calibrated over the prior, unless the emulator is wrong."""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm

import invsamp as iv
from invsamp.emulation.emulator.emulated_posterior import EmulatedPosterior
from invsamp.emulation.rounds import Fitted
from invsamp.results.run import Run

MATRIX = np.random.default_rng(3).standard_normal((6, 2))
#: The module, which the function of its name hides.
EMULATE = sys.modules["invsamp.emulation.emulate"]


def simulator(theta: np.ndarray) -> np.ndarray:
    y = theta @ MATRIX.T
    return y + 0.1 * np.square(y)


def scores(replicates: int, seed: int = 1) -> np.ndarray:
    """|z| of the exact p-values of each quantity, which a right emulator has above 4.5 once in 40,000 calls."""
    posterior = iv.Posterior(iv.Prior(x=iv.Normal(0.0, 1.0, shape=2)), simulator, np.zeros(6), iv.GaussianNoise(0.3))
    found = iv.calibrate(posterior, replicates=replicates, ranks=31, draws=250, seed=seed, progress=False)
    assert not found.failed
    return norm.isf(0.5 * found.p_values)


def of_wrong_outputs(fitted: Fitted, *rest: int) -> Run:
    """Draws of an emulator whose first component is off by four sds of the noise, which it takes for certain."""
    components = fitted.emulator.components
    moved = replace(components, mean=components.mean + 4.0 * components.rows[0])
    wrong = EmulatedPosterior(fitted.posterior.of, replace(fitted.emulator, components=moved), uncertain=False)
    return DRAWN(fitted._replace(posterior=wrong), *rest)


DRAWN = EMULATE.drawn


@pytest.mark.slow
def test_are_calibrated(within) -> None:
    assert within(scores(100), 4.5)


@pytest.mark.slow
def test_an_emulator_that_is_wrong_without_knowing_it_is_rejected(within, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(EMULATE, "drawn", of_wrong_outputs)
    assert not within(scores(24), 4.5)

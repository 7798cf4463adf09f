"""Outputs in units of the noise, and the principal components that stand for them."""

from __future__ import annotations

import numpy as np
import pytest

from invsamp.emulation.emulator.outputs import LEFT_OUT, OutputScale, principal_components

RNG = np.random.default_rng(0)


def scale_of(outputs: int) -> OutputScale:
    return OutputScale(np.ones(outputs), np.zeros(outputs, dtype=bool), np.full(outputs, -np.inf))


def with_sds(sds: np.ndarray, points: int = 80) -> np.ndarray:
    """Outputs (points, m) whose principal components have these sds."""
    values = RNG.standard_normal((points, len(sds)))
    left = np.linalg.qr(values - values.mean(axis=0))[0] * np.sqrt(points)
    return (left * sds) @ np.linalg.qr(RNG.standard_normal((len(sds), len(sds))))[0]


@pytest.mark.parametrize(
    ("sds", "kept"),
    [
        (np.array([5.0, 1.0, 0.025, 0.01, 0.001]), 2),  # what is left out has an sd of .027
        (np.concatenate([[5.0, 1.0], np.full(40, 0.02)]), 40),  # two of these have .028, three .035
    ],
)
def test_what_is_left_out_is_small_however_many_components_there_are(sds: np.ndarray, kept: int) -> None:
    eta = with_sds(sds)
    components, values = principal_components(eta, scale_of(len(sds)))
    assert len(components.rows) == kept
    rest = eta - components.decode(values).y
    assert np.sqrt(np.square(rest).sum(axis=1).mean()) <= LEFT_OUT


def test_one_component_is_always_kept() -> None:
    components, values = principal_components(np.zeros((6, 3)), scale_of(3))
    assert components.rows.shape == (1, 3)
    assert not values.any()

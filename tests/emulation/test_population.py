"""Chains on an emulator: minima of no mass keep none of them, and modes have their shares."""

from __future__ import annotations

import numpy as np

from invsamp.emulation.population import CHAINS, Mode, sampled


class TwoWells:
    """A standard Gaussian, and at 12 one that is ``depth`` less likely."""

    def __init__(self, depth: float) -> None:
        self.depth = depth

    def energy(self, position: np.ndarray) -> np.ndarray:
        return self.energy_and_gradient(position)[0]

    def energy_and_gradient(self, position: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        far = position - 12.0
        one = 0.5 * np.square(position).sum(axis=1)
        other = 0.5 * np.square(far).sum(axis=1) + self.depth
        return np.minimum(one, other), np.where((one < other)[:, None], position, far)


def drawn(depth: float, modes: list[Mode], seed: int) -> np.ndarray:
    """Draws from chains of which an eighth begins in the other well."""
    rng = np.random.default_rng(seed)
    start = rng.standard_normal((CHAINS, 3))
    start[::8] += 12.0
    return sampled(TwoWells(depth), modes, start, rng).draws


def test_a_minimum_of_no_mass_keeps_no_chain() -> None:
    draws = drawn(50.0, [Mode(np.zeros(3), np.eye(3))], 0)
    assert (draws[:, 0] > 6.0).mean() == 0.0
    assert np.abs(draws.std(axis=0) - 1.0).max() < 0.15


def test_modes_keep_their_shares() -> None:
    """Both wells are known: jumps give the second its share, exp(-1) of the first."""
    draws = drawn(1.0, [Mode(np.zeros(3), np.eye(3)), Mode(np.full(3, 12.0), np.eye(3))], 0)
    share = np.exp(-1.0) / (1.0 + np.exp(-1.0))
    assert abs((draws[:, 0] > 6.0).mean() - share) < 0.06

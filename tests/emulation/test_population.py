"""Chains on an emulator: minima of no mass keep none of them, and modes have their shares."""

from __future__ import annotations

import numpy as np
import pytest

import invsamp as iv
from invsamp.domains.contract import Domain
from invsamp.emulation.population import CHAINS, Mode, sampled, starts
from invsamp.emulation.search.local_model import laplace


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
    return sampled(TwoWells(depth), iv.domains.Unbounded(), modes, start, rng).draws


def test_a_minimum_of_no_mass_keeps_no_chain() -> None:
    draws = drawn(50.0, [Mode(np.zeros(3), np.eye(3))], 0)
    assert (draws[:, 0] > 6.0).mean() == 0.0
    assert np.abs(draws.std(axis=0) - 1.0).max() < 0.15


def test_modes_keep_their_shares() -> None:
    """Both wells are known: jumps give the second its share, exp(-1) of the first."""
    draws = drawn(1.0, [Mode(np.zeros(3), np.eye(3)), Mode(np.full(3, 12.0), np.eye(3))], 0)
    share = np.exp(-1.0) / (1.0 + np.exp(-1.0))
    assert abs((draws[:, 0] > 6.0).mean() - share) < 0.06


class Slope:
    """The density exp(-x - 2 y) within a domain; beyond it no mass."""

    rates = np.array([1.0, 2.0])

    def __init__(self, domain: Domain) -> None:
        self.domain = domain

    def energy(self, position: np.ndarray) -> np.ndarray:
        return self.energy_and_gradient(position)[0]

    def energy_and_gradient(self, position: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        inside = self.domain.contains(position)
        energy = np.where(inside, position @ self.rates, np.inf)
        return energy, np.where(inside[:, None], self.rates, 0.0)


@pytest.mark.parametrize(
    ("domain", "to_exponentials"),
    [
        (iv.Box(0.0, 10.0), [[1.0, 0.0], [0.0, 2.0]]),
        # where y > x / 2 > 0, the density is exp(-2 x - 2 (y - x / 2))
        (iv.domains.HalfSpaces([[0.5, -1.0], [-1.0, 0.0]], [0.0, 0.0]), [[2.0, 0.0], [-1.0, 2.0]]),
    ],
)
@pytest.mark.parametrize("seed", range(3))
def test_a_mode_in_a_corner_of_the_domain(domain: Domain, to_exponentials: list[list[float]], seed: int) -> None:
    """Its Gaussian is as wide as the exponentials there, chains start within, and their draws are those of both.

    Of about 1,000 independent draws a mean has a standard error of 0.03 of its sd, and an sd of 0.045.
    """
    potential, rng = Slope(domain), np.random.default_rng(seed)
    center = np.array([1e-7, 2e-7])
    mode = Mode(center, laplace(potential, center, np.array([3.0, 3.0])))
    assert (np.diag(mode.covariance) < 1.5).all()
    start = starts([mode], np.ones(1), domain, rng)
    assert domain.contains(start).all()
    found = sampled(potential, domain, [mode], start, rng)
    assert domain.contains(found.draws).all()
    assert domain.contains(found.wide).all()
    exponentials = found.draws @ np.transpose(to_exponentials)
    assert np.abs(exponentials.mean(axis=0) - 1.0).max() < 0.2
    assert np.abs(exponentials.std(axis=0) - 1.0).max() < 0.3

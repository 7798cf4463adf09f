"""Outputs of a simulator as the emulator sees them: in units of the data's noise, logs where this multiplies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from invsamp.posing.noise.bound_likelihood import BoundNoise
from invsamp.protocols import Array

#: Sd over the simulations, in units of the noise, of all principal components together that are left out. So much is
#: their effect on the misfit, however many they are.
LEFT_OUT = 0.03
#: Outputs of a multiplicative noise below this share of the data count as that: the log of 0 is none.
_SMALLEST = 1e-12
#: Draws of the noise that its scales are taken from.
_DRAWS = 400


class Decoded(NamedTuple):
    """Outputs, and their first two derivatives by what stands for them."""

    y: Array
    slope: Array
    bend: Array


@dataclass(frozen=True)
class OutputScale:
    """How outputs y (m,) become numbers eta in units of the noise.

    Attributes
    ----------
    scale : ndarray, shape (m,)
        Sd of the noise of each datum, of its log where ``log``.
    log : ndarray of bool, shape (m,)
    least : ndarray, shape (m,)
        Outputs below count as that, where ``log``.
    """

    scale: Array
    log: npt.NDArray[np.bool_]
    least: Array

    def encode(self, y: Array) -> Array:
        """Numbers (batch, m) of outputs."""
        with np.errstate(invalid="ignore", divide="ignore"):  # where outputs are no logs
            return np.where(self.log, np.log(np.maximum(y, self.least)), y) / self.scale

    def decode(self, eta: Array) -> Decoded:
        """Outputs (batch, m), and their derivatives by ``eta``."""
        scaled = eta * self.scale
        if not self.log.any():
            return Decoded(scaled, np.broadcast_to(self.scale, eta.shape), np.zeros(eta.shape))
        y = np.where(self.log, np.exp(np.clip(scaled, -300.0, 300.0)), scaled)
        slope = np.where(self.log, y * self.scale, self.scale)
        return Decoded(y, slope, np.where(self.log, slope * self.scale, 0.0))


def output_scale(noise: BoundNoise, theta: Array, rng: np.random.Generator) -> OutputScale:
    """The scale of the noise, from draws of it about the data; what the noise takes from theta (n, d) is that of draws.

    Data that are missing have the scale of the others.
    """
    data = np.where(np.isfinite(noise.data), noise.data, np.nanmedian(noise.data))
    log = noise.multiplicative
    points = theta[rng.integers(len(theta), size=_DRAWS)]
    with np.errstate(all="ignore"):
        drawn = noise.generate(rng, points, np.broadcast_to(data, (_DRAWS, data.size)).copy())
        away = np.where(log, np.log(drawn) - np.log(data), drawn - data)
    scale = np.nanmedian(np.abs(np.where(np.isfinite(away), away, np.nan)), axis=0) / 0.6745
    typical = np.median(scale[np.isfinite(scale) & (scale > 0.0)]) if (scale > 0.0).any() else 1.0
    scale = np.where(np.isfinite(scale) & (scale > 1e-3 * typical), scale, typical)
    return OutputScale(scale, log, np.where(log, _SMALLEST * np.abs(data), -np.inf))


@dataclass(frozen=True)
class Components:
    """Outputs as a mean and combinations of a few rows.

    Attributes
    ----------
    scale : OutputScale
    mean : ndarray, shape (m,)
    rows : ndarray, shape (k, m)
    """

    scale: OutputScale
    mean: Array
    rows: Array

    def decode(self, components: Array) -> Decoded:
        """Outputs at components (batch, k)."""
        return self.scale.decode(self.mean + components @ self.rows)


def principal_components(eta: Array, scale: OutputScale) -> tuple[Components, Array]:
    """The principal components of outputs (n, m), and what they are of each output (n, k)."""
    mean = eta.mean(axis=0)
    away = eta - mean
    # of thousands of outputs only n directions matter
    left, values, rows = np.linalg.svd(away, full_matrices=False)
    rest = np.sqrt(np.cumsum(np.square(values[::-1]))[::-1] / len(eta))  # sd of each component and all below it
    kept = rest > LEFT_OUT
    kept[0] = True
    return Components(scale, mean, rows[kept]), left[:, kept] * values[kept]

"""Outputs of a simulator as the emulator sees them: in units of the data's noise, after the link of the noise."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from invsamp.posing.noise.bound_likelihood import BoundNoise
from invsamp.protocols import Array

#: Sd over the simulations, in units of the noise, of all principal components together that are left out. So much is
#: their effect on the misfit, however many they are.
LEFT_OUT = 0.03
#: Outputs whose log is emulated below this share of the data count as that: the log of 0 is none.
_SMALLEST = 1e-12
#: Draws of the noise that its scales are taken from.
_DRAWS = 400
#: Sds of noise after its link, for data whose draws are all alike: 1/2 of the root of a count.
_USUAL = {"identity": 1.0, "log": 0.5, "root": 0.5, "arcsine": 0.5}


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
        Sd of the noise of each datum, after its link.
    link : ndarray of str, shape (m,)
        `invsamp.extending.Noise.link` of each.
    least : ndarray, shape (m,)
        Outputs below count as that, where the link is a logarithm.
    """

    scale: Array
    link: npt.NDArray[np.str_]
    least: Array

    def encode(self, y: Array) -> Array:
        """Numbers (batch, m) of outputs."""
        with np.errstate(invalid="ignore", divide="ignore"):  # where outputs are outside the link's domain
            return _linked(y, self.link, self.least) / self.scale

    def decode(self, eta: Array) -> Decoded:
        """Outputs (batch, m), and their derivatives by ``eta``: y that can be, whatever ``eta`` is."""
        x = eta * self.scale
        y, slope, bend = x, np.ones(x.shape), np.zeros(x.shape)
        log, root, arcsine = (self.link == name for name in ("log", "root", "arcsine"))
        if log.any():
            power = np.exp(np.clip(x, -300.0, 300.0))
            y, slope, bend = np.where(log, power, y), np.where(log, power, slope), np.where(log, power, bend)
        if root.any():
            y, slope, bend = np.where(root, x * x, y), np.where(root, 2.0 * x, slope), np.where(root, 2.0, bend)
        if arcsine.any():
            y, slope = np.where(arcsine, np.square(np.sin(x)), y), np.where(arcsine, np.sin(2.0 * x), slope)
            bend = np.where(arcsine, 2.0 * np.cos(2.0 * x), bend)
        return Decoded(y, slope * self.scale, bend * np.square(self.scale))


def _linked(y: Array, link: npt.NDArray[np.str_], least: Array) -> Array:
    """Outputs (batch, m) after their links."""
    functions = {
        "log": lambda: np.log(np.maximum(y, least)),
        "root": lambda: np.sqrt(np.maximum(y, 0.0)),
        "arcsine": lambda: np.arcsin(np.sqrt(np.clip(y, 0.0, 1.0))),
    }
    wanted = [name for name in functions if (link == name).any()]
    return np.select([link == name for name in wanted], [functions[name]() for name in wanted], y) if wanted else y


def output_scale(noise: BoundNoise, theta: Array, rng: np.random.Generator) -> OutputScale:
    """The scale of the noise, from draws of it about the data; what the noise takes from theta (n, d) is that of draws.

    Data that are missing have the scale of the others.
    """
    points, link = theta[rng.integers(len(theta), size=_DRAWS)], noise.links
    exact = noise.saturated(points)
    exact = np.where(np.isfinite(exact), exact, np.nanmedian(exact))
    least = np.where(link == "log", _SMALLEST * np.abs(exact[0]), -np.inf)
    again = copy.deepcopy(rng)
    scale = _spread(noise, points, exact, rng)
    elsewhere = _spread(noise, points, 2.0 * exact + 10.0 * np.nan_to_num(scale), again)
    steady = np.isclose(scale, elsewhere, rtol=1e-3, atol=0.0)
    for name, usual in _USUAL.items():
        these = link == name
        known = scale[these & np.isfinite(scale) & (scale > 0.0)]
        typical = np.median(known) if len(known) else usual
        # where it grows with the output, a datum near zero says little of it; else a small one is due to the unit
        scale = np.where(these & ~(scale > np.where(steady, 0.0, 1e-3 * typical)), typical, scale)
    return OutputScale(scale, link, least)


def _spread(noise: BoundNoise, points: Array, y: Array, rng: np.random.Generator) -> Array:
    """Sd (m,) of the noise about outputs y (n, m), after its link; NaN where no draws are finite."""
    link, none = noise.links, np.zeros(y.shape[1])
    with np.errstate(all="ignore"):
        drawn = noise.saturated(points, noise.generate(rng, points, y.copy()))
        away = np.abs(_linked(drawn, link, none) - _linked(y, link, none))
    found, some = np.full(y.shape[1], np.nan), np.isfinite(away).any(axis=0)
    found[some] = np.nanmedian(np.where(np.isfinite(away[:, some]), away[:, some], np.nan), axis=0) / 0.6745
    return found


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

"""Gaussian mixtures with known distributions: what the samplers are measured against."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

from invsamp.arguments import array, generator, integer, numbers, real

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class GaussianMixture:
    """Mixture of isotropic Gaussians, as a potential (`invsamp.protocols.Potential`).

    Parameters
    ----------
    weights : sequence of float, length k
        Positive; they are normalized.
    means : sequence, shape (k,) or (k, d)
    sds : sequence of float, length k

    Raises
    ------
    ValueError
        If the lengths differ, or a weight or sd is not positive.
    """

    weights: Sequence[float]
    means: Sequence[float] | Sequence[Sequence[float]]
    sds: Sequence[float]
    dimension: int = field(init=False)

    def __post_init__(self) -> None:
        weights, sds = array("weights", self.weights, ("k",), above=0), array("sds", self.sds, ("k",), above=0)
        means = array("means", self.means)
        if means.ndim not in (1, 2):
            raise ValueError(f"means must have shape (k,) or (k, d), got {means.shape}")
        means = means[:, None] if means.ndim == 1 else means
        if not len(means) == len(weights) == len(sds):
            raise ValueError(
                f"weights, means and sds must be equally long, got {len(weights)}, {len(means)}, {len(sds)}"
            )
        weights = weights / weights.sum()
        d = means.shape[1]
        object.__setattr__(self, "dimension", d)
        object.__setattr__(self, "_arrays", (weights, means, sds))
        object.__setattr__(self, "_log_heights", np.log(weights) - d * np.log(sds) - 0.5 * d * np.log(2.0 * np.pi))

    def energy(self, position: Array) -> Array:
        """Energy, shape (chains,)."""
        return self.energy_and_gradient(position)[0]

    def energy_and_gradient(self, position: Array) -> tuple[Array, Array]:
        """Energy (chains,) and gradient (chains, d)."""
        _, means, sds = self._arrays  # type: ignore[attr-defined]
        away = (position[:, None, :] - means) / sds[:, None]  # (chains, k, d)
        heights = self._log_heights - 0.5 * (away * away).sum(axis=2)  # type: ignore[attr-defined]
        top = heights.max(axis=1)
        shares = np.exp(heights - top[:, None])
        total = shares.sum(axis=1)
        pull = (shares / total[:, None] / sds)[:, :, None] * away
        return -top - np.log(total), pull.sum(axis=1)

    def density(self, position: Array) -> Array:
        """Normalized density (chains,) at positions (chains, d)."""
        return np.exp(-self.energy(array("position", position, ("chains", self.dimension))))

    def sample(self, rng: np.random.Generator, n: int) -> Array:
        """Independent draws (n, d)."""
        generator("rng", rng), integer("n", n, least=0)
        weights, means, sds = self._arrays  # type: ignore[attr-defined]
        which = rng.choice(len(weights), size=n, p=weights)
        return means[which] + sds[which, None] * rng.standard_normal((n, means.shape[1]))

    def probabilities(self, *edges: Array) -> Array:
        """Probabilities of the cells between edges: exact, as each part is a product over the coordinates.

        Parameters
        ----------
        *edges : ndarray, shape (bins + 1,)
            One for each dimension; ``-inf`` and ``inf`` are allowed.

        Returns
        -------
        ndarray, shape (bins_1, ..., bins_d)

        Raises
        ------
        ValueError
            If the number of edges is not the dimension.
        """
        weights, means, sds = self._arrays  # type: ignore[attr-defined]
        if len(edges) != means.shape[1]:
            raise ValueError(
                f"probabilities needs one array of edges for each of the {means.shape[1]} dimensions, got {len(edges)}"
            )
        cells = weights  # (k,), then (bins_1, ..., bins_j, k)
        for j, at in enumerate(edges):
            by_part = np.diff(ndtr((np.asarray(at)[:, None] - means[:, j]) / sds), axis=0)
            cells = cells[..., None, :] * by_part
        return cells.sum(axis=-1)

    def cdf(self, x: Array) -> Array:
        """Distribution function at ``x`` (any shape) of a mixture in one dimension."""
        weights, means, sds = self._arrays  # type: ignore[attr-defined]
        if means.shape[1] != 1:
            raise ValueError(f"cdf needs a mixture in one dimension, got {means.shape[1]}")
        return ndtr((numbers("x", x)[..., None] - means[:, 0]) / sds) @ weights


def two_modes() -> GaussianMixture:
    """The mixture 0.4 N(-4, 0.7^2) + 0.6 N(3, 0.5^2) of Li, Lin, Zhang and Zhou (2023), section 5.1."""
    return GaussianMixture((0.4, 0.6), (-4.0, 3.0), (0.7, 0.5))


def close_modes() -> GaussianMixture:
    """The mixture 0.4 N(-3, 0.7^2) + 0.6 N(2, 0.5^2) of Deng's thesis (Purdue 2021), section 2.5.1.

    There with Gaussian noise of sd 2 on the energies.
    """
    return GaussianMixture((0.4, 0.6), (-3.0, 2.0), (0.7, 0.5))


def far_modes() -> GaussianMixture:
    """The mixture 0.4 N(-6, 1) + 0.6 N(4, 1) of the same thesis, section 5.4.1: a barrier of about 12."""
    return GaussianMixture((0.4, 0.6), (-6.0, 4.0), (1.0, 1.0))


def gaussian_grid(variance: float = 0.1) -> GaussianMixture:
    """25 Gaussians of one variance on the integer grid {0, ..., 4}^2, with weights that rise linearly.

    Parameters
    ----------
    variance : float, > 0
        Of every Gaussian along each axis; published from 0.05 to 0.3.

    Notes
    -----
    The paper's weights rise by 1/210 from 1/210 to 20/210, which makes 20 of them. Here the rise goes on to all 25
    modes and the weights are divided by their sum: i / 325 for i = 1, ..., 25. Nor does the paper say which mode has
    which: here the mode at (a, b) is number 1 + 5 a + b, so the highest is at (4, 4).

    Raises
    ------
    ValueError
        If ``variance`` is not positive.

    References
    ----------
    Chen et al. (2019), ICLR, "Accelerating nonconvex learning via replica exchange Langevin diffusion", appendix E.
    """
    variance = real("variance", variance, above=0)
    means = [(float(a), float(b)) for a in range(5) for b in range(5)]
    return GaussianMixture([float(i) for i in range(1, 26)], means, [float(np.sqrt(variance))] * 25)


def sigmoid_noise_energy(position: Array, energy: Array) -> Array:
    """State-dependent sd of the energy's noise in the same section: 1.5 sigmoid(U)."""
    return 1.5 / (1.0 + np.exp(-np.clip(energy, -700.0, 700.0)))


def sigmoid_noise_gradient(position: Array, energy: Array) -> Array:
    """State-dependent sd of the gradient's noise in the same section: 5 sigmoid(theta)."""
    return 5.0 / (1.0 + np.exp(-np.clip(position[:, 0], -700.0, 700.0)))

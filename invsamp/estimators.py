"""Estimators: what a rung is told about the energy and its gradient at a position, and with what noise.

A part (`Exact`, `Minibatch`, `Noisy`) holds settings only. `bind` joins it to a potential and gives what the
loop calls. Every call draws fresh randomness from the generator that it is given.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from invsamp.arguments import array, integer, numbers, real
from invsamp.batches import Groups, random_subsets
from invsamp.contract import Array, GroupwisePotential, Potential, Terms, TermwisePotential

Structure = Literal["isotropic", "diagonal", "full"]
STRUCTURES: tuple[Structure, ...] = ("isotropic", "diagonal", "full")
#: Standard deviation of a noise: a number, or a function of (position (chains, d), energy (chains,)) -> (chains,).
StandardDeviation = float | Callable[[Array, Array], Array]
#: Indices of some of the chains.
Rows = npt.NDArray[np.intp]


class Estimate(NamedTuple):
    """Energy and gradient at a position; the variances are None where there is no noise.

    ``gradient_variance`` has shape (chains,) for isotropic noise, (chains, d) for independent entries and
    (chains, d, d) for a full covariance.
    """

    energy: Array
    gradient: Array
    energy_variance: Array | None = None
    gradient_variance: Array | None = None

    def take(self, rows: Rows) -> Estimate:
        """The estimate of the chains ``rows`` alone."""
        energy_variance, gradient_variance = (
            None if variance is None else variance[rows] for variance in (self.energy_variance, self.gradient_variance)
        )
        return Estimate(self.energy[rows], self.gradient[rows], energy_variance, gradient_variance)


class BoundEstimator(Protocol):
    """An estimator joined to its potential.

    ``exact``: nothing is random. ``exact_energy``: what `energy` gives is without noise, even where estimates are not.
    ``degrees_of_freedom`` is that of the variances that come with each estimate where they are sample
    variances (a minibatch shows its own), None where there are none or where they are the true ones.
    """

    exact: bool
    exact_energy: bool
    degrees_of_freedom: int | None

    def estimate(self, rng: np.random.Generator, position: Array) -> Estimate:
        """Energy and gradient with their stated variances."""
        ...

    def energy(self, rng: np.random.Generator, position: Array) -> tuple[Array, Array | None]:
        """Energy and its stated variance."""
        ...


@runtime_checkable
class SelfProbing(Protocol):
    """A bound estimator that knows the law of its noise, and so needs no repeated estimates."""

    def probe(self, position: Array) -> tuple[Array, Array, int]:
        """Variances of energy and gradient at a position, and their degrees of freedom."""
        ...


@runtime_checkable
class Estimator(Protocol):
    """A part that says how the energy of a potential is estimated."""

    def bind(self, potential: Potential, structure: Structure) -> BoundEstimator:
        """Join to a potential; ``structure`` is the form in which gradient variances are wanted."""
        ...


def exact() -> Exact:
    """Estimator without noise: the whole potential."""
    return Exact()


def minibatch(size: int, groups: npt.ArrayLike | None = None) -> Minibatch:
    r"""Estimator from ``size`` data terms, or groups of them, drawn without replacement, each chain with its own.

    With :math:`g_i` the sum of the terms in group i of G,

    .. math:: \hat g = g_0 + \frac{G}{n} \sum_{i \in B} g_i, \qquad
              \mathrm{cov}\,\hat g = \frac{G^2}{n} \Bigl(1 - \frac{n}{G}\Bigr) S,

    :math:`g_0` that of the prior and S the covariance of the group sums; what is stated is the unbiased estimate of S
    within the batch. The energies likewise.

    A forward model with ``rows`` (`invsamp.contract.RowsForwardModel`) evaluates the batch alone.

    Parameters
    ----------
    size : int, >= 2
        Terms or groups in a batch, n.
    groups : array_like of int, optional
        A label for each datum, in the shape of the data or flattened in C order: data of one label are drawn together,
        as all times of one sensor, which one solve gives. They may differ in number. Default: each datum by itself.

    Raises
    ------
    ValueError
        If ``size`` is below 2 (no variance within the batch) or above the number of groups, or the labels are no
        integers; in a run, if there are not as many labels as data, or fewer data than ``size``.
    """
    size = integer("size", size, least=2)  # so that a batch shows its own variance
    if groups is None:
        return Minibatch(size)
    labels = np.asarray(array("groups", groups, whole=True), dtype=np.int64)
    if size > (count := len(np.unique(labels))):
        raise ValueError(f"size of a minibatch must be at most the {count} groups, got {size}")
    return Minibatch(size, tuple(labels.ravel().tolist()))


def noisy(energy_sd: StandardDeviation = 0.0, gradient_sd: StandardDeviation = 0.0) -> Noisy:
    """Estimator with injected Gaussian noise, independent for energy and gradient, isotropic for the gradient.

    Parameters
    ----------
    energy_sd, gradient_sd : float >= 0, or callable
        Standard deviations; a callable gets (position (chains, d), energy (chains,)) and returns (chains,).

    Raises
    ------
    ValueError
        If a number is negative or not finite.
    """
    return Noisy(_standard_deviation("energy_sd", energy_sd), _standard_deviation("gradient_sd", gradient_sd))


@dataclass(frozen=True)
class Exact:
    """The potential itself."""

    def bind(self, potential: Potential, structure: Structure) -> BoundEstimator:
        """Join to a potential."""
        return _BoundExact(potential)


@dataclass(frozen=True)
class Minibatch:
    """A random subset of the data terms, or of groups of them. Made by `minibatch`."""

    size: int
    groups: tuple[int, ...] | None = None

    def __repr__(self) -> str:
        if self.groups is None:
            return f"Minibatch(size={self.size})"
        # a digest in place of thousands of labels: equal parts still print alike, and others do not
        digest = zlib.crc32(np.array(self.groups, dtype=np.int64).tobytes())
        return f"Minibatch(size={self.size} of {len(set(self.groups))} groups, labels {digest:08x})"

    def bind(self, potential: Potential, structure: Structure) -> BoundEstimator:
        """Join to a potential that has data terms."""
        if not isinstance(potential, TermwisePotential):
            raise ValueError(f"minibatch needs a potential with data terms (`terms`, `size`), got {potential!r}")
        if self.groups is None and self.size > potential.size:
            raise ValueError(f"size of a minibatch must be at most the {potential.size} data terms, got {self.size}")
        if self.groups is not None and len(self.groups) != potential.size:
            raise ValueError(
                f"groups must have one label for each of the {potential.size} data terms, got {len(self.groups)}"
            )
        groups = None if self.groups is None else Groups.of(np.array(self.groups))
        return _BoundMinibatch(potential, self.size, groups, structure)


@dataclass(frozen=True)
class Noisy:
    """The potential with injected Gaussian noise of known standard deviations."""

    energy_sd: StandardDeviation
    gradient_sd: StandardDeviation

    def bind(self, potential: Potential, structure: Structure) -> BoundEstimator:
        """Join to a potential."""
        return _BoundNoisy(potential, self.energy_sd, self.gradient_sd, structure)


class _BoundExact:
    exact = exact_energy = True
    degrees_of_freedom: int | None = None

    def __init__(self, potential: Potential) -> None:
        self._potential = potential

    def estimate(self, rng: np.random.Generator, position: Array) -> Estimate:
        return Estimate(*self._potential.energy_and_gradient(position))

    def energy(self, rng: np.random.Generator, position: Array) -> tuple[Array, None]:
        return self._potential.energy(position), None


class _BoundMinibatch:
    exact = exact_energy = False

    def __init__(self, potential: TermwisePotential, size: int, groups: Groups | None, structure: Structure) -> None:
        self._potential, self._size, self._structure = potential, size, structure
        self._groups = groups
        self.degrees_of_freedom: int | None = size - 1
        self._total = total = potential.size if groups is None else len(groups.members)
        self._scale = total / size
        # variance of (N/n) sum over a batch drawn without replacement, per unit of within-batch variance
        self._variance_scale = total**2 / size * (1.0 - size / total)

    def estimate(self, rng: np.random.Generator, position: Array) -> Estimate:
        terms = self._terms(rng, position)
        energy = terms.prior_energy + self._scale * terms.energies.sum(axis=1)
        gradient = terms.prior_gradient + self._scale * terms.gradients.sum(axis=1)
        spread = sample_variance(terms.gradients, self._structure)
        return Estimate(energy, gradient, self._energy_variance(terms.energies), self._variance_scale * spread)

    def energy(self, rng: np.random.Generator, position: Array) -> tuple[Array, Array]:
        terms = self._terms(rng, position)
        energy = terms.prior_energy + self._scale * terms.energies.sum(axis=1)
        return energy, self._energy_variance(terms.energies)

    def _terms(self, rng: np.random.Generator, position: Array) -> Terms:
        batch = random_subsets(rng, len(position), self._size, self._total)
        return self._potential.terms(position, batch) if self._groups is None else self._summed(position, batch)

    def _summed(self, position: Array, batch: npt.NDArray[np.intp]) -> Terms:
        """Terms of whole groups."""
        assert self._groups is not None
        members, counted = self._groups.members[batch], self._groups.counted[batch]
        if isinstance(self._potential, GroupwisePotential):
            return self._potential.group_terms(position, members, counted)
        terms = self._potential.terms(position, members.reshape(len(batch), -1))
        energies = (terms.energies.reshape(members.shape) * counted).sum(axis=2)
        gradients = np.einsum("cnmd,cnm->cnd", terms.gradients.reshape(*members.shape, -1), counted)
        return terms._replace(energies=energies, gradients=gradients)

    def _energy_variance(self, energies: Array) -> Array:
        return self._variance_scale * energies.var(axis=1, ddof=1)


class _BoundNoisy:
    exact = exact_energy = False
    degrees_of_freedom: int | None = None

    def __init__(
        self,
        potential: Potential,
        energy_sd: StandardDeviation,
        gradient_sd: StandardDeviation,
        structure: Structure,
    ) -> None:
        self._potential, self._energy_sd, self._gradient_sd = potential, energy_sd, gradient_sd
        self._structure = structure
        # numbers stay what they are at every step: arrays (chains,) of sd and variance by number and chains
        self._repeated: dict[tuple[float, int], tuple[Array, Array]] = {}

    def estimate(self, rng: np.random.Generator, position: Array) -> Estimate:
        energy, gradient = self._potential.energy_and_gradient(position)
        energy_sd, energy_variance = self._evaluate(self._energy_sd, position, energy)
        gradient_sd, gradient_variance = self._evaluate(self._gradient_sd, position, energy)
        chains, d = position.shape
        noise = rng.standard_normal((chains, d + 1))
        noisy_gradient = gradient + gradient_sd[:, None] * noise[:, 1:]
        variance = expand_isotropic(gradient_variance, d, self._structure)
        return Estimate(energy + energy_sd * noise[:, 0], noisy_gradient, energy_variance, variance)

    def energy(self, rng: np.random.Generator, position: Array) -> tuple[Array, Array]:
        energy = self._potential.energy(position)
        sd, variance = self._evaluate(self._energy_sd, position, energy)
        return energy + sd * rng.standard_normal(len(position)), variance

    def _evaluate(self, sd: StandardDeviation, position: Array, energy: Array) -> tuple[Array, Array]:
        """Standard deviations and variances, each (chains,)."""
        if callable(sd):
            # a failed solve has an infinite energy, and a noise that depends on it would turn that into nan
            values = np.where(np.isfinite(energy), numbers("the standard deviation", sd(position, energy)), 0.0)
            return values, values**2
        key = sd, len(position)
        if key not in self._repeated:
            self._repeated[key] = np.full(key[1], float(sd)), np.full(key[1], float(sd) * float(sd))
        return self._repeated[key]


def _standard_deviation(name: str, value: StandardDeviation) -> StandardDeviation:
    if callable(value) and not isinstance(value, type):
        return value
    return real(name, value, least=0, also=" or a function")


def probe(
    estimator: BoundEstimator, rng: np.random.Generator, position: Array, repeats: int, structure: Structure
) -> tuple[Array, Array, int]:
    """Variances of energy (chains,) and gradient (by ``structure``) at a position, and their degrees of freedom.

    From repeated estimates, or from the estimator itself where it can tell more for less.
    """
    if isinstance(estimator, SelfProbing):
        return estimator.probe(position)
    chains, d = position.shape
    estimate = estimator.estimate(rng, np.repeat(position, repeats, axis=0))
    energies = estimate.energy.reshape(chains, repeats)
    gradients = estimate.gradient.reshape(chains, repeats, d)
    return energies.var(axis=1, ddof=1), sample_variance(gradients, structure), repeats - 1


def sample_variance(values: Array, structure: Structure) -> Array:
    """Variance over axis 1 of values (chains, n, d): (chains,), (chains, d) or (chains, d, d) by ``structure``."""
    if structure == "full":
        centred = values - values.mean(axis=1, keepdims=True)
        return np.swapaxes(centred, 1, 2) @ centred / (values.shape[1] - 1)
    by_entry = values.var(axis=1, ddof=1)
    return by_entry if structure == "diagonal" else by_entry.mean(axis=1)


def expand_isotropic(variance: Array, dimension: int, structure: Structure) -> Array:
    """An isotropic variance (chains,) in the form that ``structure`` asks for."""
    if structure == "isotropic":
        return variance
    by_entry = np.repeat(variance[:, None], dimension, axis=1)
    return by_entry if structure == "diagonal" else by_entry[:, :, None] * np.eye(dimension)

"""Estimators: what a rung is told about the energy and its gradient at a position, and with what noise.

A part (`Exact`, `Minibatch`, `Noisy`) holds settings only. `bind` joins it to a fidelity and gives what asks for
energies there (`invsamp.evaluate.requests`). Every call draws fresh randomness from the generator that it is given.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
from numba import njit

from invsamp.arguments import array, integer, numbers, real
from invsamp.batches import Groups, random_subsets
from invsamp.contract import Array, Gradients
from invsamp.evaluate.requests import Asks, Batch, Estimate, Memory, Request, Rows, Structure, sample_variance

#: Standard deviation of a noise: a number, or a function of (position (chains, d), energy (chains,)) -> (chains,).
StandardDeviation = float | Callable[[Array, Array], Array]


class Source(Protocol):
    """What an estimator is joined to: one fidelity, as far as it has to be known before anything is asked.

    A fidelity with data terms also has their number, ``size``; ``sums`` says whether it sums the gradients of any batch
    itself.
    """

    fidelity: str

    @property
    def fidelities(self) -> Mapping[str, Source]:
        """Those of all fidelities of a run by name, from the coarsest to the finest."""
        ...


class BoundEstimator(Protocol):
    """An estimator joined to its potential.

    ``exact``: nothing is random. ``exact_energy``: what `energy` gives is without noise, even where estimates are not.
    ``degrees_of_freedom`` is that of the variances that come with each estimate where they are sample
    variances (a minibatch shows its own), None where there are none or where they are the true ones.
    """

    exact: bool
    exact_energy: bool
    degrees_of_freedom: int | None

    @property
    def estimate(self) -> Callable[..., Asks[Estimate]]:
        """Energy and gradient with their stated variances; without ``gradient``, the energy that a swap may use.

        Of a random generator, positions (chains, d) and ``gradient: Gradients = True``; if it is `Remembering`, of its
        memory, too.
        """
        ...


@runtime_checkable
class Remembering(Protocol):
    """A bound estimator that keeps something for each chain: plain arrays by name, whose first axis is the chains.

    Its `estimate` gets one argument more, the memory of the chains whose positions it is given, row for row. It changes
    after steps only, never by being asked, so that nothing depends on who asks when. It is saved and resumed with the
    run. ``moves``: it belongs to the position, and goes with it at swaps between rungs of one fidelity and equal
    estimators; where it cannot, it is made anew.
    """

    moves: bool

    def init(self, rng: np.random.Generator, position: Array) -> Asks[Memory]:
        """Memory of chains that begin at positions (n, d), or are put there."""
        ...

    def updated(self, rng: np.random.Generator, memory: Memory, position: Array, iteration: int) -> Asks[Memory]:
        """Memory after the rung's ``iteration``-th step, to positions (chains, d)."""
        ...


@runtime_checkable
class Pairing(Protocol):
    """A bound estimator that estimates the difference of the misfits at two positions by one batch for both.

    Its noise is that of the differences of the terms, and is the same function of the two positions whichever comes
    first: what swaps between rungs of one potential need (`invsamp.ladder.Swap`).
    """

    def pair(self, rng: np.random.Generator, here: Array, there: Array, *memory: Memory) -> Asks[Estimate]:
        """Energy at ``here`` less the misfit at ``there``, with its variance, for rows of both, (k, d)."""
        ...


@runtime_checkable
class SelfProbing(Protocol):
    """A bound estimator that knows the law of its noise, and so needs no repeated estimates."""

    def probe(self, position: Array) -> Asks[tuple[Array, Array, int]]:
        """Variances of energy and gradient at a position, and their degrees of freedom."""
        ...


@runtime_checkable
class Estimator(Protocol):
    """A part that says how the energy of a potential is estimated."""

    def bind(self, source: Source, structure: Structure | None) -> BoundEstimator:
        """Join to a fidelity; ``structure``: the form in which gradient variances are wanted, None where they are
        not."""
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

    def bind(self, source: Source, structure: Structure | None) -> BoundEstimator:
        """Join to a fidelity."""
        return _BoundExact(source.fidelity)


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

    def bind(self, source: Source, structure: Structure | None) -> BoundMinibatch:
        """Join to a fidelity that has data terms."""
        size: int | None = getattr(source, "size", None)
        if size is None:
            raise ValueError(
                "minibatch needs a potential with data terms (`terms`, `size`), and data that are independent given "
                f"the parameters, got {source!r}"
            )
        if self.groups is None and self.size > size:
            raise ValueError(f"size of a minibatch must be at most the {size} data terms, got {self.size}")
        if self.groups is not None and len(self.groups) != size:
            raise ValueError(f"groups must have one label for each of the {size} data terms, got {len(self.groups)}")
        groups = None if self.groups is None else Groups.of(np.array(self.groups))
        sums = bool(getattr(source, "sums", False)) and groups is None
        return BoundMinibatch(source.fidelity, self.size, size, groups, structure, sums)


@dataclass(frozen=True)
class Noisy:
    """The potential with injected Gaussian noise of known standard deviations."""

    energy_sd: StandardDeviation
    gradient_sd: StandardDeviation

    def bind(self, source: Source, structure: Structure | None) -> BoundEstimator:
        """Join to a fidelity."""
        return _BoundNoisy(source.fidelity, self.energy_sd, self.gradient_sd, structure)


class _BoundExact:
    exact = exact_energy = True
    degrees_of_freedom: int | None = None

    def __init__(self, fidelity: str) -> None:
        self._fidelity = fidelity

    def estimate(self, rng: np.random.Generator, position: Array, gradient: Gradients = True) -> Asks[Estimate]:
        (found,) = yield (Request(self._fidelity, position, gradient),)
        return found


class BoundMinibatch:
    exact = exact_energy = False

    def __init__(
        self,
        fidelity: str,
        size: int,
        data: int,
        groups: Groups | None,
        structure: Structure | None,
        sums: bool = False,
    ) -> None:
        self._fidelity, self._size, self._structure, self._groups = fidelity, size, structure, groups
        self._sums = sums  # then it has room for all data at once
        self.degrees_of_freedom: int | None = size - 1
        #: Number of terms or groups.
        self.total = data if groups is None else len(groups.members)

    def estimate(self, rng: np.random.Generator, position: Array, gradient: Gradients = True) -> Asks[Estimate]:
        batch = self.drawn(rng, len(position))
        (found,) = yield (Request(self._fidelity, position, gradient, batch),)
        return found

    def pair(self, rng: np.random.Generator, here: Array, there: Array) -> Asks[Estimate]:
        batch = self.drawn(rng, len(here))._replace(reference=there, order=0)
        (found,) = yield (Request(self._fidelity, here, False, batch),)
        return found

    def each(self, position: Array, members: npt.NDArray[np.intp]) -> Request:
        """A request for terms one by one: of row i the terms ``members[i]`` (rows, k) as rows * k batches of one."""
        batch = self.of(members.reshape(-1, 1))._replace(total=1, structure="isotropic")
        return Request(self._fidelity, np.repeat(position, members.shape[1], axis=0), "apart", batch)

    def drawn(self, rng: np.random.Generator, chains: int) -> Batch:
        """A batch for each of some chains."""
        return self.of(self.drawn_members(rng, chains))

    def drawn_members(self, rng: np.random.Generator, chains: int) -> npt.NDArray[np.intp]:
        """Terms or groups (chains, n) for each of some chains."""
        return random_subsets(rng, chains, self._size, self.total)

    def blocks(self, chains: int, numbers: int) -> list[Batch]:
        """All data in batches that count fully, for each of some chains the same; so many data at a time, about."""
        count = 1 if self._sums else max(1, -(-self.total * chains // numbers))
        blocks = np.array_split(np.arange(self.total), min(count, self.total // 2))
        return [self.of(np.tile(block, (chains, 1)))._replace(total=len(block), structure=None) for block in blocks]

    def of(self, members: npt.NDArray[np.intp]) -> Batch:
        """The batch of these terms or groups (chains, n)."""
        if self._groups is None:
            return Batch(members, None, self.total, self._structure)
        return Batch(self._groups.members[members], self._groups.counted[members], self.total, self._structure)


class _BoundNoisy:
    exact = exact_energy = False
    degrees_of_freedom: int | None = None

    def __init__(
        self,
        fidelity: str,
        energy_sd: StandardDeviation,
        gradient_sd: StandardDeviation,
        structure: Structure | None,
    ) -> None:
        self._fidelity, self._energy_sd, self._gradient_sd = fidelity, energy_sd, gradient_sd
        self._structure = structure
        # numbers stay what they are at every step: arrays (chains,) of sd and variance by number and chains
        self._repeated: dict[tuple[float, int], tuple[Array, Array]] = {}

    def estimate(self, rng: np.random.Generator, position: Array, gradient: Gradients = True) -> Asks[Estimate]:
        (found,) = yield (Request(self._fidelity, position, gradient),)
        energy_sd, energy_variance = self._evaluate(self._energy_sd, position, found.energy)
        chains, d = position.shape
        if not gradient:
            return found._replace(
                energy=found.energy + energy_sd * rng.standard_normal(chains), energy_variance=energy_variance
            )
        gradient_sd, gradient_variance = self._evaluate(self._gradient_sd, position, found.energy)
        noise = rng.standard_normal((chains, d + 1))
        energy, noisy_gradient = np.empty(chains), np.empty((chains, d))
        _add_noise(found.energy, found.gradient, energy_sd, gradient_sd, noise, energy, noisy_gradient)
        variance = expand_isotropic(gradient_variance, d, self._structure)
        return Estimate(energy, noisy_gradient, energy_variance, variance, *found[4:])

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


@njit(cache=True)
def _add_noise(
    energy: Array,
    gradient: Array,
    energy_sd: Array,
    gradient_sd: Array,
    noise: Array,
    noisy_energy: Array,
    noisy_gradient: Array,
) -> None:
    """A quarter of NumPy's time, and this is asked at every step."""
    for i in range(noise.shape[0]):
        noisy_energy[i] = energy[i] + energy_sd[i] * noise[i, 0]
        for j in range(gradient.shape[1]):
            noisy_gradient[i, j] = gradient[i, j] + gradient_sd[i] * noise[i, j + 1]


def _standard_deviation(name: str, value: StandardDeviation) -> StandardDeviation:
    if callable(value) and not isinstance(value, type):
        return value
    return real(name, value, least=0, also=" or a function")


def probe(
    estimator: BoundEstimator,
    rng: np.random.Generator,
    position: Array,
    repeats: int,
    structure: Structure | None,
    memory: Memory | None = None,
) -> Asks[tuple[Array, Array | None, int]]:
    """Variances of energy (chains,) and gradient (by ``structure``) at a position, and their degrees of freedom.

    From repeated estimates, or from the estimator itself where it can tell more for less. One that remembers gets the
    memory of the chains there.
    """
    if isinstance(estimator, SelfProbing):
        found = yield from estimator.probe(position)
        return found
    chains, d = position.shape
    rows = np.repeat(np.arange(chains), repeats)
    gradient = structure is not None
    estimate = yield from estimator.estimate(rng, position[rows], gradient, *remembered(memory, rows))
    energies = estimate.energy.reshape(chains, repeats)
    if structure is None:
        return energies.var(axis=1, ddof=1), None, repeats - 1
    gradients = estimate.gradient.reshape(chains, repeats, d)
    return energies.var(axis=1, ddof=1), sample_variance(gradients, structure), repeats - 1


def remembered(memory: Memory | None, rows: Rows) -> tuple[Memory, ...]:
    """What an estimator gets beside positions: the memory of these rows, or nothing if there is none."""
    return ({name: values[rows] for name, values in memory.items()},) if memory else ()


def expand_isotropic(variance: Array, dimension: int, structure: Structure | None) -> Array:
    """An isotropic variance (chains,) in the form that ``structure`` asks for."""
    if structure in ("isotropic", None):
        return variance
    by_entry = np.repeat(variance[:, None], dimension, axis=1)
    return by_entry if structure == "diagonal" else by_entry[:, :, None] * np.eye(dimension)

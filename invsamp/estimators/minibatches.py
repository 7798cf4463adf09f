"""Random subsets of the data terms, each chain with its own."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from invsamp.arguments import array, integer, shown
from invsamp.axis_labels import stated_axes
from invsamp.estimators.batches import Groups, random_subsets
from invsamp.estimators.contract import Source
from invsamp.evaluate.requests import Batch, Estimate, EvaluationRequests, Request, Structure
from invsamp.protocols import Array, Gradients
from invsamp.stored import stored_dataclass


def minibatch(size: int, groups: npt.ArrayLike | None = None) -> Minibatch:
    r"""Estimator from ``size`` data terms, or groups of them, drawn without replacement, each chain with its own.

    With :math:`g_i` the sum of the terms in group i of G,

    .. math:: \hat g = g_0 + \frac{G}{n} \sum_{i \in B} g_i, \qquad
              \mathrm{cov}\,\hat g = \frac{G^2}{n} \Bigl(1 - \frac{n}{G}\Bigr) S,

    :math:`g_0` that of the prior and S the covariance of the group sums; what is stated is the unbiased estimate of S
    within the batch. The energies likewise.

    A forward model with ``rows`` (`invsamp.protocols.RowsForwardModel`) evaluates the batch alone.

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
        If ``size`` is below 2 (no variance within the batch) or above the number of groups. If the labels are no
        integers, or come in a table or labeled array with an index of its own. In a run, also if there are not as many
        labels as data, or fewer data than ``size``.

    Examples
    --------
    >>> import invsamp as iv
    >>> sampler = iv.samplers.sgld(0.01, estimator=iv.estimators.minibatch(10))
    >>> sampler.rungs[0].estimator
    Minibatch(size=10)
    """
    size = integer("size", size, least=2)  # so that a batch shows its own variance
    if groups is None:
        return Minibatch(size)
    labels = np.asarray(array("groups", groups, whole=True), dtype=np.int64)
    if (own := next((axis for axis in stated_axes(groups, 0) if axis.labels), None)) is not None:
        raise ValueError(
            "groups must be an array without labels, in the order of the data, which a run does not compare with "
            f"those of groups, got {shown(list(own.labels or ()))}: give groups.to_numpy()"
        )
    if size > (count := len(np.unique(labels))):
        raise ValueError(f"size of a minibatch must be at most the {count} groups, got {size}")
    return Minibatch(size, tuple(labels.ravel().tolist()))


@stored_dataclass
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
        size = source.size
        if size is None:
            raise ValueError(
                "minibatch needs a potential with data terms (`terms`, `size`), and data that are independent given "
                f"the parameters, got fidelity {source.fidelity!r}, which has none"
            )
        if self.groups is None and self.size > size:
            raise ValueError(f"size of a minibatch must be at most the {size} data terms, got {self.size}")
        if self.groups is not None and len(self.groups) != size:
            raise ValueError(f"groups must have one label for each of the {size} data terms, got {len(self.groups)}")
        return BoundMinibatch(self, source, size, structure)


class BoundMinibatch:
    """A minibatch estimator joined to one fidelity: it draws the batches and asks for their terms.

    Parameters
    ----------
    settings : Minibatch
    source : Source
    data : int
        Number of data terms of the fidelity.
    structure : Structure or None
        Form of the gradient's sample variance; None: none is estimated.
    """

    exact = exact_energy = False

    def __init__(self, settings: Minibatch, source: Source, data: int, structure: Structure | None) -> None:
        self.fidelity, self._size, self._structure = source.fidelity, settings.size, structure
        self._groups = None if settings.groups is None else Groups.of(np.array(settings.groups))
        self._sums = source.sums and self._groups is None  # then it has room for all data at once
        self.degrees_of_freedom: int | None = self._size - 1
        #: Number of terms or groups.
        self.total = data if self._groups is None else len(self._groups.members)

    def estimate(
        self, rng: np.random.Generator, position: Array, gradient: Gradients = True
    ) -> EvaluationRequests[Estimate]:
        batch = self.drawn(rng, len(position))
        (found,) = yield (Request(self.fidelity, position, gradient, batch),)
        return found

    def pair(self, rng: np.random.Generator, here: Array, there: Array) -> EvaluationRequests[Estimate]:
        batch = self.drawn(rng, len(here))._replace(reference=there, order=0)
        (found,) = yield (Request(self.fidelity, here, False, batch),)
        return found

    def each(self, position: Array, members: npt.NDArray[np.intp]) -> Request:
        """A request for terms one by one: of row i the terms ``members[i]`` (rows, k) as rows * k batches of one."""
        batch = self.of(members.reshape(-1, 1))._replace(total=1, structure="isotropic")
        return Request(self.fidelity, np.repeat(position, members.shape[1], axis=0), "apart", batch)

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


class BoundControl:
    """A minibatch of terms less what is known of each, with the known sum of all added."""

    exact = exact_energy = False
    moves: ClassVar[bool] = True

    def __init__(self, batch: BoundMinibatch) -> None:
        self.batch, self.degrees_of_freedom = batch, batch.degrees_of_freedom

    def solved(
        self, position: Array, gradient: Gradients, batch: Batch, known: Sequence[Array], slope: Array | float
    ) -> EvaluationRequests[Estimate]:
        """A batch's estimate with known parts of the energy and gradient added; infinite where one is not finite."""
        (found,) = yield (Request(self.batch.fidelity, position, gradient, batch),)
        energy = found.energy
        with np.errstate(invalid="ignore"):  # of terms that could not be solved where they were remembered
            for part in known:
                energy = energy + part
        failed = ~np.isfinite(energy)
        energy[failed] = np.inf
        found = found._replace(energy=energy, failed=found.failed or bool(failed.any()))
        if not gradient:
            return found
        total = found.gradient + slope
        total[failed] = 0.0
        return found._replace(gradient=total)


def data_part(found: Estimate) -> tuple[Array, Array]:
    """Energies and gradients of data terms alone, of an estimate whose prior is stated apart."""
    assert found.prior is not None and found.prior_gradient is not None  # of batches they are stated
    with np.errstate(invalid="ignore"):  # of solves that failed
        return found.energy - found.prior, found.gradient - found.prior_gradient

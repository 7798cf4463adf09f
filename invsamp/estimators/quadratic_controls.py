r"""Minibatches of terms less their quadratic expansions about fixed references: hardly any noise near these.

With references :math:`s_r`, the terms' values :math:`l_i`, gradients :math:`g_i` and Hessians :math:`H_i` there, and r
the reference nearest to a position,

.. math:: q_i(\theta) = l_i + g_i \cdot \delta + \tfrac12 \delta^T H_i \delta, \quad \delta = \theta - s_r, \qquad
          \hat U(\theta) = U_0(\theta) + \sum_i q_i(\theta) + \frac{G}{n} \sum_{i \in B} [l_i(\theta) - q_i(\theta)].

The references are fixed, so that the noise is a function of the position alone. It is of third order in the distance,
or of second order with a small factor where :math:`H_i` is the Gauss-Newton matrix.
"""

from __future__ import annotations

import zlib
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt

from invsamp.arguments import array, instance, one_of, store
from invsamp.estimators.contract import BoundEstimator, Source
from invsamp.estimators.minibatches import BoundControl, BoundMinibatch, Minibatch, data_part, minibatch
from invsamp.evaluate.requests import Estimate, EvaluationRequests, Memory, Structure
from invsamp.protocols import Array, Gradients
from invsamp.stored import stored_dataclass

#: Of the differences of gradients that make Hessians, over what a coordinate varies by.
DIFFERENCE = 1e-4
Expansion = Literal["quadratic", "gauss_newton", "linear"]
EXPANSIONS: tuple[Expansion, ...] = ("quadratic", "gauss_newton", "linear")


def fixed_control(
    size: int, references: npt.ArrayLike, groups: npt.ArrayLike | None = None, *, order: Expansion = "quadratic"
) -> FixedControl:
    r"""Minibatches less the expansions of their terms about fixed references, such as the posterior's modes.

    An estimate costs its batch alone. The expansions are made before the first step: 1 + 2d passes over all data for
    each reference ("gauss_newton": two, "linear": one), kept for each chain, so that groups should be hundreds rather
    than millions.

    Swaps between rungs of one fidelity may take one batch for both chains, ``swap_energies="paired"``: then their
    noise is the same function of the two positions in either direction, as an exact penalty needs.

    Parameters
    ----------
    size : int, >= 2
        Terms or groups in a batch, n.
    references : array_like of float (k, d)
        Positions, in the coordinates that the sampler moves in, such as ``invsamp.maximize(posterior).position``: all
        modes that matter, as noise is small near them only.
    groups : array_like of int, optional
        As of `minibatch`: experiments, where one solve gives all data of one.
    order : "quadratic", "gauss_newton" or "linear"
        How far terms are expanded. "quadratic": the Hessians are those of the terms, by central differences of their
        gradients. "gauss_newton": without the model's second derivatives, :math:`H_i = J_i^T W_i J_i`, J the Jacobian
        of the group's observations and W the second derivatives of their misfits: nearly as good where residuals
        are small, for two passes in any dimension. It needs a `Posterior`.

    Raises
    ------
    ValueError
        As `minibatch`, or if references are no numbers (k, d); in a run, if d is not the problem's, or if a potential
        does not give what Gauss-Newton matrices are made of (`invsamp.protocols.SensitivePotential`).

    References
    ----------
    Baker, Fearnhead, Fox and Nemeth (2019), "Control variates for stochastic gradient MCMC", Statistics and Computing
    29, for fixed references of order one.

    Examples
    --------
    >>> import invsamp as iv
    >>> iv.estimators.fixed_control(size=10, references=[[0.0, 1.0]]).batch
    Minibatch(size=10)
    """
    at = array("references", references, ("k", "d"))
    one_of("order", order, EXPANSIONS)
    return FixedControl(minibatch(size, groups), tuple(map(tuple, at.tolist())), order)


@stored_dataclass
class FixedControl:
    """Minibatches less expansions about fixed references. Made by `fixed_control`."""

    batch: Minibatch
    references: tuple[tuple[float, ...], ...]
    order: Expansion = "quadratic"

    def __post_init__(self) -> None:
        instance("batch", self.batch, Minibatch, "a minibatch")
        one_of("order", self.order, EXPANSIONS)
        at = array("references", self.references, ("k", "d"))
        store(self, references=tuple(map(tuple, at.tolist())))

    def __repr__(self) -> str:
        digest = zlib.crc32(np.array(self.references).tobytes())
        return f"FixedControl({self.batch}, {len(self.references)} references {digest:08x}, {self.order})"

    def bind(self, source: Source, structure: Structure | None) -> BoundEstimator:
        """Join to a fidelity that has data terms."""
        batch = self.batch.bind(source, structure)
        if self.order == "gauss_newton" and not source.sensitive:
            raise ValueError(
                "order must not be 'gauss_newton' for a potential without `sensitivities`, which a Posterior's has. "
                f"'quadratic' takes differences of gradients. Got fidelity {source.fidelity!r}"
            )
        return _BoundFixed(batch, np.array(self.references), self.order)


class _BoundFixed(BoundControl):
    moves: ClassVar[bool] = False

    def __init__(self, batch: BoundMinibatch, references: Array, order: Expansion) -> None:
        super().__init__(batch)
        self._at, self._order = references, order

    def init(self, rng: np.random.Generator, position: Array) -> EvaluationRequests[Memory]:
        """Of each chain the same: values (k, G), gradients (k, G, d) and Hessians (k, G, d, d) of the terms, on axis
        1."""
        k, d = self._at.shape
        if position.shape[1] != d:
            raise ValueError(f"references must have the problem's {position.shape[1]} coordinates, got {d}")
        groups = np.arange(self.batch.total)
        step = DIFFERENCE * np.maximum(np.abs(self._at), 1.0)
        shifts = np.concatenate([np.zeros((1, d)), np.eye(d), -np.eye(d)])[: None if self._order == "quadratic" else 1]
        at = (self._at[:, None] + shifts * step[:, None]).reshape(-1, d)
        asked = [self.batch.each(at, np.tile(groups, (len(at), 1)))]
        if self._order == "gauss_newton":
            bent = self.batch.each(self._at, np.tile(groups, (k, 1)))
            assert bent.batch is not None
            asked.append(bent._replace(batch=bent.batch._replace(curvature=True)))
        found, *matrices = yield tuple(asked)
        energies, gradients = data_part(found)
        energies, gradients = energies.reshape(k, -1, len(groups)), gradients.reshape(k, -1, len(groups), d)
        if not np.isfinite(energies).all() or any(of.failed for of in matrices):
            around = ", and next to them within the domain, for Hessians" if self._order == "quadratic" else ""
            raise ValueError(
                f"references must be positions at which all data can be solved{around}, got {self._at.tolist()}"
            )
        hessians = np.zeros((k, len(groups), d, d))
        if self._order == "quadratic":
            # (k, direction, group, entry)
            change = (gradients[:, 1 : 1 + d] - gradients[:, 1 + d :]) / (2.0 * step[:, :, None, None])
            hessians = np.moveaxis(change, 1, 2)
            hessians = 0.5 * (hessians + np.swapaxes(hessians, 2, 3))
        for of in matrices:
            assert of.gradient_variance is not None
            hessians = of.gradient_variance.reshape(hessians.shape)
        tables = {"values": energies[:, 0], "gradients": gradients[:, 0], "hessians": hessians}
        return {name: np.repeat(table[None], len(position), axis=0) for name, table in tables.items()}

    def updated(
        self, rng: np.random.Generator, memory: Memory, position: Array, iteration: int
    ) -> EvaluationRequests[Memory]:
        """Nothing changes."""
        yield from ()
        return memory

    def estimate(
        self, rng: np.random.Generator, position: Array, gradient: Gradients, memory: Memory
    ) -> EvaluationRequests[Estimate]:
        members = self.batch.drawn_members(rng, len(position))
        known, whole = self._expanded(position, members, memory)
        batch = self.batch.of(members)._replace(known=known)
        return (yield from self.solved(position, gradient, batch, [whole[:, 0]], whole[:, 1:]))

    def pair(
        self, rng: np.random.Generator, here: Array, there: Array, memory: Memory, memory_there: Memory
    ) -> EvaluationRequests[Estimate]:
        members = self.batch.drawn_members(rng, len(here))
        (known, whole), (known_there, whole_there) = (
            self._expanded(at, members, own) for at, own in ((here, memory), (there, memory_there))
        )
        batch = self.batch.of(members)._replace(known=known - known_there, reference=there, order=0)
        return (yield from self.solved(here, False, batch, [whole[:, 0], -whole_there[:, 0]], 0.0))

    def _nearest(self, position: Array, memory: Memory) -> tuple[npt.NDArray[np.intp], Array]:
        """The reference of each position, by a fixed distance, and how far it is away (rows, d)."""
        away = position[:, None] - self._at
        if self._order == "linear":
            near = np.square(away).sum(axis=2).argmin(axis=1)
        else:
            curvature = memory["hessians"][0].sum(axis=1)
            near = np.abs(np.einsum("rkd,kde,rke->rk", away, curvature, away)).argmin(axis=1)
        return near, away[np.arange(len(position)), near]

    def _expanded(self, position: Array, members: npt.NDArray[np.intp], memory: Memory) -> tuple[Array, Array]:
        """Expansions, energies and gradients, of the members (rows, n, 1 + d), and of all terms together (rows, 1 +
        d)."""  # all chains know the same
        values, gradients, hessians = (memory[name][0] for name in ("values", "gradients", "hessians"))
        near, away = self._nearest(position, memory)
        at, here = (near[:, None], members), away[:, None]
        some = _quadratic(values[at], gradients[at], hessians[at], here)
        value, slope, curvature = (table.sum(axis=1)[near][:, None] for table in (values, gradients, hessians))
        return some, _quadratic(value, slope, curvature, here)[:, 0]


def _quadratic(values: Array, gradients: Array, hessians: Array, away: Array) -> Array:
    """Values and gradients (rows, n, 1 + d) of quadratic functions at a distance (rows, 1, d)."""
    bent = np.einsum("rnde,rne->rnd", hessians, np.broadcast_to(away, gradients.shape))
    slope = gradients + bent
    value = values + ((gradients + 0.5 * bent) * away).sum(axis=2)
    return np.concatenate([value[:, :, None], slope], axis=2)

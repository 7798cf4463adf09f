r"""The heat equation marched in time on a finite element space, and its discrete adjoint.

.. math::

    (M + \vartheta\,\Delta t\,K)\,u^{n+1} = (M - (1-\vartheta)\,\Delta t\,K)\,u^n
        + \Delta t\,M\,(\vartheta f^{n+1} + (1-\vartheta) f^n) + \Delta t\,q

with :math:`\vartheta = 1` (backward Euler) or :math:`1/2` (Crank-Nicolson), K the stiffness of the conductivity and q
the load of the boundary's fluxes. Source and boundary values enter by their nodal interpolants. The matrix is factored
once for all times, right-hand sides and adjoints.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from invsamp.solvers.fem.contract import Array, Mask, Numbers
from invsamp.solvers.fem.factors.recurrence import Factors, Marched, Recurrence
from invsamp.solvers.fem.matrices import Matrix
from invsamp.solvers.fem.space import Space

IMPLICITNESS = {"backward_euler": 1.0, "crank_nicolson": 0.5}

#: Numbers, times 8 bytes, that the multipliers of one adjoint march may take.
ROOM = 2**24


class NodalData(NamedTuple):
    """Data of k independent solutions, each (n, k) or None for zero; or weights of functionals of the same."""

    initial: Array | None = None
    source: Array | None = None  # up to its factor in time
    flux: Array | None = None  # a load vector
    edge: Array | None = None  # values at the fixed nodes, up to their factor in time


class System(NamedTuple):
    """The matrices of one step, and the factors of the implicit one."""

    implicit: Matrix
    explicit: Matrix
    factors: Factors


@dataclass(frozen=True, eq=False)
class March:
    """The theta scheme on a space.

    Parameters
    ----------
    space : Space
    fixed : array of bool, shape (n,)
        Nodes whose values are given.
    times : array, shape (steps + 1,)
        From 0 on, equally spaced.
    implicitness : float
    source_factor : array, shape (steps + 1,)
        Factor of the source at each time.
    edge_factor : array, shape (steps + 1,), or None
        Factor of the given values at each time; None if they are zero.
    kinds : collection of str
        Fields of `NodalData` whose weights are wanted of `adjoint`; that of the initial values is always there.
    """

    space: Space
    fixed: Mask
    times: Array
    implicitness: float
    source_factor: Array
    edge_factor: Array | None
    kinds: Collection[str] = NodalData._fields

    @cached_property
    def fixed_nodes(self) -> Numbers:
        """Numbers of the fixed nodes."""
        return np.flatnonzero(self.fixed)

    @property
    def step(self) -> float:
        """Length of a time step."""
        return float(self.times[-1] / (len(self.times) - 1))

    @cached_property
    def load_factor(self) -> Array:
        """Factor of the source's load in the step that ends at each time; 0 at the first time."""
        factor, implicit = np.zeros(len(self.times)), self.implicitness
        factor[1:] = self.step * (implicit * self.source_factor[1:] + (1 - implicit) * self.source_factor[:-1])
        return factor

    def system(self, conductivity: Array) -> System:
        """Combine and factor the matrices for a conductivity (c,)."""
        mass, stiffness = self.space.mass, self.space.stiffness(conductivity)
        implicit = self.space.combine(1.0, mass, self.implicitness * self.step, stiffness)
        explicit = mass
        if self.implicitness < 1:
            explicit = self.space.combine(1.0, mass, (self.implicitness - 1) * self.step, stiffness)
        return System(implicit, explicit, self.space.factor(implicit, self.fixed))

    def forward(self, system: System, data: NodalData, keep: Sequence[int], loads: Array | None = None) -> Array:
        """March forward: solutions (len(keep), n, k) at the steps ``keep``, in increasing order.

        ``loads`` (keep[-1], n, k) are added to the right-hand sides of the steps, each to its own.
        """
        fixed, shape = self.fixed_nodes, next(given for given in data if given is not None).shape
        start = np.zeros(shape) if data.initial is None else np.array(data.initial, dtype=float)
        start[fixed] = 0.0
        added, factors = [], []
        if data.source is not None:
            added.append(self.space.mass @ data.source)
            factors.append(self.load_factor)
        if data.flux is not None:
            added.append(self.step * data.flux)
            factors.append(np.ones(len(self.times)))
        for load in added:
            load[fixed] = 0.0
        if self.edge_factor is not None and data.edge is not None:
            lift = -(system.implicit @ data.edge)
            start[fixed] = self.edge_factor[0] * data.edge[fixed]
            lift[fixed] = data.edge[fixed]
            added.append(lift)
            factors.append(self.edge_factor)
        table = np.reshape(factors, (len(factors), len(self.times))).T[1 : keep[-1] + 1]
        if loads is not None:
            loads[:, fixed] = 0.0
            added, table = [*added, *loads], np.hstack([table, np.eye(keep[-1])])
        recurrence = Recurrence(start, np.array(added).reshape(-1, *shape), table, keep, np.empty((0, len(table))))
        return system.factors.march(system.explicit, fixed, recurrence).kept

    def tangent(self, system: System, data: NodalData, change: Array | None, states: Array) -> Array:
        """Derivatives of the states along k directions, (steps + 1, n, k); see `Stationary.tangent`.

        ``states`` (steps + 1, n, 1) are all that `forward` gave.
        """
        last, k = len(states) - 1, next(given for given in data if given is not None).shape[1]
        loads = None
        if change is not None:
            later, earlier = states[1:, :, 0], states[:-1, :, 0]
            u = self.implicitness * later + (1.0 - self.implicitness) * earlier
            parts = [self.space.stiffness(one) @ u.T for one in change.T]  # (n, steps) each
            loads = -self.step * np.moveaxis(np.array(parts), (0, 1, 2), (2, 1, 0))
        width = max(1, ROOM // max(1, 2 * last * states.shape[1]))
        if loads is None or k <= width:
            return self.forward(system, data, range(last + 1), loads)
        blocks = [slice(first, first + width) for first in range(0, k, width)]
        cut = [NodalData(*(None if given is None else given[:, own] for given in data)) for own in blocks]
        parts = [
            self.forward(system, part, range(last + 1), loads[:, :, own]) for part, own in zip(cut, blocks, strict=True)
        ]
        return np.concatenate(parts, axis=2)

    def adjoint(
        self, system: System, seeds: Mapping[int, Array], states: Array | None = None
    ) -> tuple[NodalData, Array | None]:
        r"""Transpose of `forward`: derivatives of :math:`\sum_n \langle s^n, u^n \rangle` to the data.

        Parameters
        ----------
        system : System
        seeds : mapping from step number to array, shape (n, k)
            The cotangents s^n, for k independent functionals.
        states : array, shape (steps + 1, n, k) or (steps + 1, n, 1), optional
            What `forward` gave for all steps, at least up to that of the last seed: of the k functionals each, or of
            all of them.

        Returns
        -------
        weights : NodalData
            A functional is the sum over the nodes of weights times data.
        sensitivity : array, shape (c, k), or None
            Derivatives to the conductivity, where ``states`` are given.
        """
        last, fixed = max(seeds), self.fixed_nodes
        n, columns = seeds[last].shape
        if states is not None and columns > 1 and columns * n * last > ROOM:
            return self._adjoint_by_parts(system, seeds, states)
        multipliers, (loads, fluxes, edge_now, edge_before) = self._backwards(system, seeds, states is not None)
        first = system.explicit @ multipliers[0]
        if 0 in seeds:
            first += seeds[0]
        edge = None
        if self.edge_factor is not None:
            # a given value acts by itself, and lifted, by its neighbors
            reaction = system.explicit @ edge_before - system.implicit @ edge_now
            for step, seed in seeds.items():
                reaction += self.edge_factor[step] * seed
            edge = np.zeros((n, columns))
            edge[fixed] = reaction[fixed]
        first[fixed] = 0.0
        source = self.space.mass @ loads if "source" in self.kinds else None
        flux = self.step * fluxes if "flux" in self.kinds else None
        sensitivity = None
        if states is not None:
            later, earlier = states[1 : last + 1], states[:last]
            u = later if self.implicitness == 1 else self.implicitness * later + (1 - self.implicitness) * earlier
            sensitivity = -self.step * self.space.cell_products(u, multipliers[:last])
        return NodalData(first, source, flux, edge), sensitivity

    def _backwards(self, system: System, seeds: Mapping[int, Array], every: bool) -> Marched:
        """Multipliers of the steps 1 to last, and zeros; or that of step 1 alone; and the sums of `adjoint`."""
        last, fixed = max(seeds), self.fixed_nodes
        later = sorted(step for step in seeds if step > 0)
        added = np.array([seeds[step] for step in later], dtype=float).reshape(-1, *seeds[last].shape)
        added[:, fixed] = 0.0
        backwards = np.arange(last, 0, -1)
        weights = np.zeros((4, last))
        if "source" in self.kinds:
            weights[0] = self.load_factor[backwards]
        if "flux" in self.kinds:
            weights[1] = 1.0
        if self.edge_factor is not None:
            weights[2:] = self.edge_factor[backwards], self.edge_factor[backwards - 1]
        factors = (backwards[:, None] == np.array(later, dtype=int)).astype(float)
        keep = range(last, -1, -1) if every else [last]
        start = np.zeros(seeds[last].shape)
        recurrence = Recurrence(start, added, factors, keep, weights)
        return system.factors.march(system.explicit, fixed, recurrence)

    def _adjoint_by_parts(self, system: System, seeds: Mapping[int, Array], states: Array) -> tuple[NodalData, Array]:
        """Some columns after the others, since the multipliers of all steps at once would need too much memory."""
        last = max(seeds)
        n, columns = seeds[last].shape
        width = max(1, ROOM // (n * last))
        parts = []
        for first in range(0, columns, width):
            own = slice(first, first + width)
            shared = states if states.shape[2] == 1 else states[:, :, own]
            parts.append(self.adjoint(system, {step: seed[:, own] for step, seed in seeds.items()}, shared))
        together = [
            None if getattr(parts[0][0], kind) is None else np.hstack([getattr(weights, kind) for weights, _ in parts])
            for kind in NodalData._fields
        ]
        return NodalData(*together), np.hstack([part[1] for part in parts if part[1] is not None])

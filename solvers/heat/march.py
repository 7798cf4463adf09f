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

from invsamp.solvers.fem.contract import Array, Factors, Mask, Matrix, Numbers, Space

IMPLICITNESS = {"backward_euler": 1.0, "crank_nicolson": 0.5}


class NodalData(NamedTuple):
    """What drives k independent solutions, each (n, k) or None for zero; or weights of functionals of the same."""

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

    @property
    def load_factor(self) -> Array:
        """Factor of the source's load in the step that ends at each time; 0 at the first time."""
        factor, implicit = np.zeros(len(self.times)), self.implicitness
        factor[1:] = self.step * (implicit * self.source_factor[1:] + (1 - implicit) * self.source_factor[:-1])
        return factor

    @property
    def _edge_factor(self) -> Array:
        return np.zeros(len(self.times)) if self.edge_factor is None else self.edge_factor

    def system(self, conductivity: Array) -> System:
        """Combine and factor the matrices for a conductivity (c,)."""
        mass, stiffness = self.space.mass, self.space.stiffness(conductivity)
        implicit = self.space.combine(1.0, mass, self.implicitness * self.step, stiffness)
        explicit = mass
        if self.implicitness < 1:
            explicit = self.space.combine(1.0, mass, (self.implicitness - 1) * self.step, stiffness)
        return System(implicit, explicit, self.space.factor(implicit, self.fixed))

    def forward(self, system: System, data: NodalData, keep: Sequence[int]) -> dict[int, Array]:
        """March forward: solutions (n, k) at the steps ``keep``."""
        load_factor, edge_factor, fixed = self.load_factor, self._edge_factor, self.fixed_nodes
        constant = None if data.flux is None else self.step * data.flux
        load = None if data.source is None else self.space.mass @ data.source
        columns = next(given for given in data if given is not None).shape[1]
        u = np.zeros((len(self.fixed), columns)) if data.initial is None else np.array(data.initial, dtype=float)
        u[fixed] = 0.0
        edge = None if self.edge_factor is None else data.edge
        if edge is not None:
            u[fixed] = edge_factor[0] * edge[fixed]
            lift = system.implicit @ edge
        kept = {0: u} if 0 in keep else {}
        for step in range(1, max(keep) + 1):
            right = system.explicit @ u
            if load is not None:
                right += load_factor[step] * load
            if constant is not None:
                right += constant
            if edge is None:
                right[fixed] = 0.0
            else:
                right -= edge_factor[step] * lift
                right[fixed] = edge_factor[step] * edge[fixed]
            u = system.factors.solve(right)
            if step in keep:
                kept[step] = u
        return kept

    def adjoint(
        self, system: System, seeds: Mapping[int, Array], states: Mapping[int, Array] | None = None
    ) -> tuple[NodalData, Array | None]:
        r"""Transpose of `forward`: derivatives of :math:`\sum_n \langle s^n, u^n \rangle` to the data.

        Parameters
        ----------
        system : System
        seeds : mapping from step number to array, shape (n, k)
            The cotangents s^n, for k independent functionals.
        states : mapping from every step number to array, shape (n, k) or (n, 1), optional
            What `forward` gave: of the k functionals each, or of all of them.

        Returns
        -------
        weights : NodalData
            A functional is the sum over the nodes of weights times data.
        sensitivity : array, shape (c, k), or None
            Derivatives to the conductivity, where ``states`` are given.
        """
        last, implicit, fixed = max(seeds), self.implicitness, self.fixed_nodes
        load_factor, edge_factor = self.load_factor, self._edge_factor
        cotangent = np.array(seeds[last], dtype=float)
        loads = np.zeros_like(cotangent) if "source" in self.kinds else None
        fluxes = np.zeros_like(cotangent) if "flux" in self.kinds else None
        edge = None if self.edge_factor is None else np.zeros_like(cotangent)
        sensitivity = None if states is None else np.zeros((len(self.space.areas), cotangent.shape[1]))
        for step in range(last, 0, -1):
            multiplier = system.factors.solve(cotangent)  # the matrix is symmetric
            multiplier[fixed] = 0.0
            if loads is not None:
                loads += load_factor[step] * multiplier
            if fluxes is not None:
                fluxes += multiplier
            if edge is not None:
                # a given value acts by itself, and lifted, by its neighbours
                reaction = cotangent - system.implicit @ multiplier
                edge[fixed] += edge_factor[step] * reaction[fixed]
            if states is not None and sensitivity is not None:
                state = states[step]
                if implicit < 1:
                    state = implicit * state + (1 - implicit) * states[step - 1]
                if state.shape != multiplier.shape:
                    state = np.repeat(state, multiplier.shape[1], axis=1)
                sensitivity += self.space.cell_products(state, multiplier)
            cotangent = system.explicit @ multiplier
            if step - 1 in seeds:
                cotangent += seeds[step - 1]
        if edge is not None:
            edge[fixed] += edge_factor[0] * cotangent[fixed]
        cotangent[fixed] = 0.0
        if sensitivity is not None:
            sensitivity *= -self.step
        source = None if loads is None else self.space.mass @ loads
        flux = None if fluxes is None else self.step * fluxes
        return NodalData(cotangent, source, flux, edge), sensitivity

r"""The stationary heat equation, :math:`K u = M f + q` in the free nodes, and its adjoint.

K is the stiffness of the conductivity, M the mass matrix, f the nodal values of the source and q the load of the
boundary's fluxes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from invsamp.solvers.fem.contract import Array, Mask
from invsamp.solvers.fem.space import Space
from invsamp.solvers.heat.march import NodalData, System


@dataclass(frozen=True, eq=False)
class Stationary:
    """One solve in place of the steps of `invsamp.solvers.heat.march.March`: the state with the number 0.

    Parameters
    ----------
    space : Space
    fixed : array of bool, shape (n,)
        Nodes whose values are given.
    """

    space: Space
    fixed: Mask

    def system(self, conductivity: Array) -> System:
        """The stiffness matrix for a conductivity (c,), and its factors."""
        stiffness = self.space.stiffness(conductivity)
        return System(stiffness, stiffness, self.space.factor(stiffness, self.fixed, few=True))

    def forward(self, system: System, data: NodalData, keep: Sequence[int]) -> Array:
        """Solutions (1, n, k)."""
        assert data.source is not None
        right, fixed = self.space.mass @ data.source, self.fixed
        if data.flux is not None:
            right += data.flux
        right[fixed] = 0.0
        if data.edge is not None:
            right -= system.implicit @ data.edge
            right[fixed] = data.edge[fixed]
        return system.factors.solve(right)[None]

    def tangent(self, system: System, data: NodalData, change: Array | None, states: Array) -> Array:
        r"""Derivatives of the solution along k directions, shape (1, n, k): :math:`K \delta u = \delta r - \delta K u`.

        Parameters
        ----------
        system : System
        data : NodalData
            Derivatives of the data, each (n, k).
        change : array, shape (c, k), or None
            Of the conductivity; None where it is known.
        states : array, shape (1, n, 1)
            What `forward` gave.
        """
        if change is not None:
            loads = np.hstack([self.space.stiffness(one) @ states[0] for one in change.T])
            data = data._replace(flux=-loads if data.flux is None else data.flux - loads)
        if data.source is None:
            data = data._replace(source=np.zeros(next(given for given in data if given is not None).shape))
        return self.forward(system, data, (0,))

    def adjoint(
        self, system: System, seeds: Mapping[int, Array], states: Array | None = None
    ) -> tuple[NodalData, Array | None]:
        """Transpose of `forward`, as `invsamp.solvers.heat.march.March.adjoint`."""
        multiplier = system.factors.solve(seeds[0])  # the matrix is symmetric
        multiplier[self.fixed] = 0.0
        # a given value acts by itself, and lifted, by its neighbors
        reaction = np.where(self.fixed[:, None], seeds[0] - system.implicit @ multiplier, 0.0)
        sensitivity = None if states is None else -self.space.cell_products(states, multiplier[None])
        return NodalData(None, self.space.mass @ multiplier, multiplier, reaction), sensitivity

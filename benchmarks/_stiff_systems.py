"""Stiff systems of any size: the Brusselator with diffusion on a line, and reaction and diffusion on a square."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


def brusselator(cells: int, height: float = 1.0) -> tuple[Any, Array]:
    """Hairer and Wanner, "Solving Ordinary Differential Equations II", IV.1, eq. (1.6'): right-hand side and start.

    Parameters A, B and alpha (1, 3 and 1 / 50 there); two states for each cell, next to each other. The first starts
    from 1 + ``height`` sin (1 there, where it has a zero nearby).
    """
    scale = float((cells + 1) ** 2)

    def rhs(t: Any, x: Any, p: Any) -> Any:
        out = []
        for k in range(cells):
            u, v = x[2 * k], x[2 * k + 1]
            before = (x[2 * k - 2], x[2 * k - 1]) if k else (1.0, 3.0)
            after = (x[2 * k + 2], x[2 * k + 3]) if k < cells - 1 else (1.0, 3.0)
            reaction, rate = u * u * v, p[2] * scale
            out.append(p[0] + reaction - (p[1] + 1.0) * u + rate * (before[0] - 2.0 * u + after[0]))
            out.append(p[1] * u - reaction + rate * (before[1] - 2.0 * v + after[1]))
        return out

    at = np.arange(1, cells + 1) / (cells + 1)
    return rhs, np.stack([1.0 + height * np.sin(2 * np.pi * at), np.full(cells, 3.0)], axis=1).ravel()


def bistable_square(side: int, patches: int = 1) -> tuple[Any, Array]:
    """u' = D Laplacian u + r u (1 - u) (u - a) on a square with closed edges; parameters D, an r for each patch, a.

    A patch is a strip of cells; all patches have the same size.
    """
    scale, patch = float(side**2), np.arange(side**2) * patches // side**2

    def rhs(t: Any, x: Any, p: Any) -> Any:
        u = np.asarray(x).reshape(side, side)
        flux_x, flux_y = u[1:] - u[:-1], u[:, 1:] - u[:, :-1]
        edge_x, edge_y = np.zeros((1, side)), np.zeros((side, 1))
        spread = np.concatenate([flux_x, edge_x]) - np.concatenate([edge_x, flux_x])
        spread = spread + np.concatenate([flux_y, edge_y], axis=1) - np.concatenate([edge_y, flux_y], axis=1)
        r = np.asarray(p)[1 + patch].reshape(side, side)
        return (p[0] * scale * spread + r * u * (1.0 - u) * (u - p[1 + patches])).reshape(-1)

    at = (np.arange(side) + 0.5) / side
    bump = np.exp(-40.0 * ((at[:, None] - 0.3) ** 2 + (at[None, :] - 0.4) ** 2))
    return rhs, bump.ravel()

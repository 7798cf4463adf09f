"""A module's outputs for some inputs, as a function of its parameters."""

from __future__ import annotations

import numpy as np
import torch

from invsamp.arguments import numbers
from invsamp.protocols import Array, Tensor
from invsamp.torch.modules import ModuleFunction


class Outputs:
    """Theta (batch, dimension) -> outputs (batch, n, ...). Made by `ModulePosterior.outputs`."""

    def __init__(self, module: ModuleFunction, x: tuple[Tensor, ...], block: int) -> None:
        self._module, self._x, self._block = module, x, block

    def __call__(self, theta: Array) -> Array:
        """Outputs at each theta."""
        module = self._module
        rows = numbers("theta", theta)
        if rows.ndim != 2 or rows.shape[1] < module.dimension:
            raise ValueError(f"theta must have shape (batch, {module.dimension}), got {rows.shape}")
        vectors = torch.as_tensor(rows[:, : module.dimension], dtype=module.dtype, device=module.device)
        weights = module.blocks(vectors)
        said = torch.func.vmap(module, in_dims=(0, None))
        found = []
        with torch.no_grad():
            for begin in range(0, len(self._x[0]), self._block):
                part = said(weights, tuple(x[begin : begin + self._block] for x in self._x))
                found.append(part.cpu().numpy())
        return np.concatenate(found, axis=1)

    def __repr__(self) -> str:
        return f"Outputs({len(self._x[0])} inputs)"

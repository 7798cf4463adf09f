"""A module as a function of its parameters, which stand one after the other in one vector."""

from __future__ import annotations

import copy
import math
import warnings

import numpy as np
import torch
from torch.nn.parameter import is_lazy

from invsamp.protocols import Array, Tensor, Torch
from invsamp.warning_codes import InvsampWarning

#: Rows of the data at which a module is tried out.
TRIED = 4


class ModuleFunction:
    """A module, whose trainable parameters are arguments; all else of it stays as it is.

    Parameters
    ----------
    module : torch.nn.Module
        A copy of it is kept.
    dtype, device
        Of the copy.

    Attributes
    ----------
    shapes : dict of names to tuples
        Of the trainable parameters, in the order of the vector.
    """

    def __init__(self, module: Torch, dtype: object, device: object) -> None:
        lazy = [name for name, part in module.named_parameters() if is_lazy(part)]
        if lazy:
            raise ValueError(f"module must hold numbers, got {lazy} without values: call module(inputs) once")
        self._share_settings(module)
        empty = [name for name, part in module.named_parameters() if part.is_meta]
        if empty:
            raise ValueError(f"module must hold numbers, got parameters on the meta device: {empty}")
        self._module = copy.deepcopy(module).to(device=device, dtype=dtype)
        held = {name: part for name, part in self._module.named_parameters() if part.requires_grad}
        if not held:
            raise ValueError("module must have parameters that are trainable (requires_grad), got none")
        self.shapes = {name: tuple(part.shape) for name, part in held.items()}
        self.dtype, self.device = dtype, device
        self._sizes = [math.prod(shape) for shape in self.shapes.values()]
        self.dimension = sum(self._sizes)

    def __call__(self, blocks: tuple[Tensor, ...], x: tuple[Tensor, ...]) -> Tensor:
        """Outputs for inputs of n rows, at parameters in the order of ``shapes``; what `torch.func` transforms."""
        return torch.func.functional_call(self._module, self.named(blocks), x)

    def blocks(self, vector: Tensor) -> tuple[Tensor, ...]:
        """Vectors (..., d) as parameters (..., *shape)."""
        parts = vector.split(self._sizes, dim=-1)
        return tuple(part.view(*vector.shape[:-1], *own) for part, own in zip(parts, self.shapes.values(), strict=True))

    def named(self, blocks: tuple[Tensor, ...]) -> dict[str, Tensor]:
        """Parameters by name."""
        return dict(zip(self.shapes, blocks, strict=True))

    @property
    def initial(self) -> Array:
        """The parameters (d,) that the module came with."""
        return self._flat(self._module)

    def drawn(self, rng: np.random.Generator, n: int) -> Array:
        """Parameters (n, d) as the layers initialize themselves; those that cannot, as they came."""
        again = copy.deepcopy(self._module).cpu()
        found = np.empty((n, self.dimension))
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            for row in found:
                torch.default_generator.manual_seed(int(rng.integers(2**63)))
                for layer in again.modules():
                    if callable(getattr(layer, "reset_parameters", None)):
                        layer.reset_parameters()
                row[:] = self._flat(again)
        return found

    def check(self, x: tuple[Tensor, ...]) -> Tensor:
        """Outputs at the parameters that it came with.

        Raises
        ------
        ValueError
            If the same inputs do not give the same outputs, buffers change, or rows depend on each other.
        """
        some = tuple(part[:TRIED] for part in x)
        before = {name: part.clone() for name, part in self._module.named_buffers()}
        first, again = self.tried("inputs", x), self.tried("inputs", x)
        changed = [name for name, part in self._module.named_buffers() if not torch.equal(part, before[name])]
        if changed:
            raise ValueError(
                f"module must not change while it is evaluated, got one whose buffers {changed} do (batch "
                "normalization in training mode): call module.eval(), or use layer or group normalization"
            )
        if not isinstance(first, torch.Tensor):
            raise ValueError(f"module must return one tensor, got {type(first).__name__}")
        if first.shape[:1] != some[0].shape[:1]:
            raise ValueError(f"module must return a row for each datum, got {tuple(first.shape)} for {len(some[0])}")
        if not torch.equal(first, again) and bool(torch.isfinite(first).all()):
            raise ValueError(
                "module must give the same outputs for the same inputs, got others (dropout, noise): call module.eval()"
            )
        fewer = (len(first) + 1) // 2
        with torch.no_grad():
            alone = self._module(*(part[:fewer] for part in some))
        if not torch.allclose(first[:fewer], alone, rtol=1e-3, atol=1e-4, equal_nan=True):
            raise ValueError(
                "module must treat each datum by itself, got outputs of a row that depend on the other rows "
                "(batch normalization in training mode): call module.eval()"
            )
        return first

    def tried(self, name: str, x: tuple[Tensor, ...]) -> Tensor:
        """The module's outputs for the first inputs, called ``name``; `ValueError` if it does not accept them."""
        try:
            with torch.no_grad():
                return self._module(*(part[:TRIED] for part in x))
        except Exception as error:  # whatever a module of the user's raises
            whole = any(part.dtype == torch.int64 for part in x)
            hint = " (integers stay integers: give x.astype('float32') unless the module expects them)" if whole else ""
            raise ValueError(
                f"{name} must be such as the module takes{hint}, got {[tuple(part.shape) for part in x]} and "
                f"{type(error).__name__}: {error}"
            ) from error

    def _flat(self, module: Torch) -> Array:
        held = dict(module.named_parameters())
        return np.concatenate([as_array(held[name]).ravel() for name in self.shapes])

    def _share_settings(self, module: Torch) -> None:
        """Warn of parameters that several layers share: they are one block."""
        names: dict[int, list[str]] = {}
        for name, part in module.named_parameters(remove_duplicate=False):
            names.setdefault(id(part), []).append(name)
        for first, *others in names.values():
            if others:
                message = f"module shares the parameter {first!r} with {others}: it is one block of this name"
                warnings.warn(message, InvsampWarning, stacklevel=5)

    def __repr__(self) -> str:
        return " ".join(repr(self._module).split())


def as_array(part: Tensor) -> Array:
    """A tensor as numbers in double precision."""
    return np.asarray(part.detach().cpu().to(torch.float64).numpy())

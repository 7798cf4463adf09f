"""Arguments as tensors of one device and precision."""

from __future__ import annotations

import numpy as np
import torch

from invsamp.protocols import Tensor, Torch


def as_device(given: Torch) -> Torch:
    """A device that is there; `ValueError` if it is none."""
    try:
        place = torch.device(given)
    except (RuntimeError, TypeError) as error:
        raise ValueError(f"device must be one of torch's, got {given!r}: {error}") from None
    if place.type == "meta":
        raise ValueError(f"device must be one that holds numbers, got {str(place)!r}: module.to_empty(device='cpu')")
    try:
        torch.zeros(1, device=place)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        said = str(error).splitlines()[0]
        raise ValueError(f"device must be one that this machine has, got {str(place)!r}: {said}") from None
    return place


def as_dtype(given: object) -> Torch:
    """Single or double precision, by torch's dtype or its name; `ValueError` if it is another."""
    for known in (torch.float32, torch.float64):
        if given is known or (isinstance(given, str) and f"torch.{given}" == str(known)):
            return known
    raise ValueError(f"dtype must be torch.float32 or torch.float64, or a name of these, got {given!r}")


def as_data(data: object, dtype: Torch, device: Torch) -> tuple[tuple[Tensor, ...], Tensor]:
    """Inputs and targets of as many rows."""
    if not isinstance(data, tuple | list) or len(data) != 2:
        found = f"{len(data)} parts" if isinstance(data, tuple | list) else type(data).__name__
        raise ValueError(f"data must be a pair (inputs, targets) of tensors or arrays, got {found}")
    x, y = as_inputs("inputs", data[0], dtype, device), _tensor("targets", data[1], dtype, device)
    same_rows("data", (*x, y))
    return x, y


def as_inputs(name: str, given: object, dtype: Torch, device: Torch) -> tuple[Tensor, ...]:
    """One tensor for each argument of a module."""
    parts = given if isinstance(given, tuple) else (given,)
    return tuple(_tensor(name, part, dtype, device) for part in parts)


def same_rows(name: str, parts: tuple[Tensor, ...]) -> None:
    """`ValueError` unless all have as many rows, at least one."""
    rows = [len(part) for part in parts]
    if len(set(rows)) != 1 or not rows[0]:
        wanted = "as many inputs as targets" if name == "data" else "rows, as many of each"
        raise ValueError(f"{name} must have {wanted}, at least one, got {rows}")


def _tensor(name: str, given: object, dtype: Torch, device: Torch) -> Tensor:
    """A copy as a tensor on a device; numbers that are not whole in its precision, whole ones as they are."""
    if isinstance(given, torch.Tensor):
        if given.device.type != device.type or (device.index is not None and given.device.index != device.index):
            raise ValueError(f"{name} must be on the device {device} of the module, got a tensor on {given.device}")
        found = given.detach()
    else:
        held = np.asarray(given)
        try:
            found = torch.as_tensor(held if held.flags.writeable else held.copy(), device=device)
        except (TypeError, ValueError) as error:
            what = f"an array of {held.dtype}" if isinstance(given, np.ndarray) else type(given).__name__
            raise ValueError(f"{name} must be a tensor or an array of numbers, got {what}") from error
    if found.is_complex():
        raise ValueError(f"{name} must be real numbers, got {found.dtype}")
    if found.ndim == 0:
        raise ValueError(f"{name} must have a row for each datum, got a number")
    return found.to(dtype if found.is_floating_point() else torch.int64, copy=True)

"""A noise of its own for each output of a model."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from invsamp.arguments import instance
from invsamp.posing.noise_contract import Noise


class Outputs:
    """A noise for each entry of the data's last axis, such as the observed states of a system.

    Parameters
    ----------
    **noises : Noise
        By name, in the order of the data's last axis. A scale broadcasts to the data's other axes.

    Raises
    ------
    ValueError
        If there is none, or one is no noise; in a posterior, if the data's last axis has another length.

    Examples
    --------
    >>> import invsamp as iv
    >>> iv.Outputs(hares=iv.LogNormalNoise("s"), lynx=iv.PoissonNoise())
    Outputs(hares=LogNormalNoise(scale='s'), lynx=PoissonNoise())
    """

    def __init__(self, **noises: Noise) -> None:
        if not noises:
            raise ValueError("noises must hold at least one output, got none")
        for name, noise in noises.items():
            instance(name, noise, Noise, "a noise such as GaussianNoise(0.1)")
        self.noises = noises

    def __repr__(self) -> str:
        return f"Outputs({', '.join(f'{name}={noise!r}' for name, noise in self.noises.items())})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Outputs) and list(self.noises.items()) == list(other.noises.items())

    def __hash__(self) -> int:
        return hash(tuple(self.noises.items()))

    def places(self, shape: tuple[int, ...]) -> list[npt.NDArray[np.intp]]:
        """Which of the data of this shape, counted in C order, belong to each output."""
        if not shape or shape[-1] != len(self.noises):
            raise ValueError(
                f"data must have {len(self.noises)} entries along their last axis, for the outputs "
                f"{list(self.noises)}, got shape {shape}"
            )
        every = np.arange(math.prod(shape)).reshape(shape)
        return [every[..., k] for k in range(shape[-1])]

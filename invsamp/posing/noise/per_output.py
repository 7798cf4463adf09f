"""A noise of its own for each output of a model."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from invsamp.arguments import instance, mapping, sequence, text
from invsamp.posing.noise.base import Noise


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

    @classmethod
    def labeled(cls, labels: Sequence[str], noises: Mapping[str, Noise]) -> Outputs:
        """A noise for each label of data that lie in a row, where not every output was seen every time.

        Parameters
        ----------
        labels : sequence of str
            Of each datum.
        noises : mapping from label to Noise

        Raises
        ------
        ValueError
            If a label has no noise, or a noise no label.

        Examples
        --------
        >>> import invsamp as iv
        >>> iv.Outputs.labeled(["a", "b", "a"], {"a": iv.GaussianNoise(0.1), "b": iv.LogNormalNoise("s")})
        Outputs.labeled(3 data, a=GaussianNoise(scale=0.1), b=LogNormalNoise(scale='s'))
        """
        given = mapping("noises", noises, "a mapping from labels to noises")
        listed = tuple(text(f"labels[{k}]", label) for k, label in enumerate(sequence("labels", labels, "of str")))
        if (found := set(listed)) != set(given):
            raise ValueError(f"noises must be those of the labels {sorted(found)}, got {sorted(given)}")
        made = cls(**given)
        made.labels = listed
        return made

    def __init__(self, **noises: Noise) -> None:
        if not noises:
            raise ValueError("noises must hold at least one output, got none")
        for name, noise in noises.items():
            instance(name, noise, Noise, "a noise such as GaussianNoise(0.1)")
        self.noises = noises
        self.labels: tuple[str, ...] | None = None

    def __repr__(self) -> str:
        listed = ", ".join(f"{name}={noise!r}" for name, noise in self.noises.items())
        return f"Outputs({listed})" if self.labels is None else f"Outputs.labeled({len(self.labels)} data, {listed})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Outputs) and self._content == other._content

    def __hash__(self) -> int:
        return hash(self._content)

    @property
    def _content(self) -> tuple[object, ...]:
        return self.labels, tuple(self.noises.items())

    def places(self, shape: tuple[int, ...]) -> list[npt.NDArray[np.intp]]:
        """Which of the data of this shape, counted in C order, belong to each output."""
        if self.labels is not None:
            if shape != (len(self.labels),):
                raise ValueError(f"data must be {len(self.labels)} in a row, one for each label, got shape {shape}")
            return [np.flatnonzero([label == name for label in self.labels]) for name in self.noises]
        if not shape or shape[-1] != len(self.noises):
            raise ValueError(
                f"data must have {len(self.noises)} entries along their last axis, for the outputs "
                f"{list(self.noises)}, got shape {shape}"
            )
        every = np.arange(math.prod(shape)).reshape(shape)
        return [every[..., k] for k in range(shape[-1])]

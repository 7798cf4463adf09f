"""A coarse forward model with what was learned of the fine one: an affine map of its observations."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from invsamp.arguments import array, optional, store
from invsamp.posing.forward_models.model_around import ModelAround
from invsamp.protocols import Array, ForwardModel, VectorJacobianProduct


@dataclass(frozen=True, eq=False)
class CorrectedModel(ModelAround):
    r"""Forward model whose observations are :math:`B\,y + c`, y those of another model.

    Parameters
    ----------
    model : ForwardModel
        With k observations.
    offset : array_like, shape (m,)
        c.
    factor : array_like, shape (m, k), optional
        B; by default the identity, m = k.

    Raises
    ------
    ValueError
        If the shapes do not fit together, or a number is not finite.

    Notes
    -----
    A model that predicts a part of the data (``data_indices``) predicts all of them once it has a factor, whose rows
    are the data's; with an offset alone it goes on to predict its own.
    """

    model: ForwardModel
    offset: npt.ArrayLike
    factor: npt.ArrayLike | None = None

    def __post_init__(self) -> None:
        offset = array("offset", self.offset, ("m",)).copy()
        factor = optional(array, "factor", self.factor, (len(offset), "k"))
        store(self, offset=offset, factor=None if factor is None else factor.copy())

    def __repr__(self) -> str:
        return f"CorrectedModel({self.model!r}, {'an offset' if self.factor is None else 'an affine map'})"

    @property
    def n_observations(self) -> int:
        """m."""
        return len(np.asarray(self.offset))

    @property
    def data_indices(self) -> npt.NDArray[np.intp] | None:
        """Of the data that it predicts; None: of all."""
        return getattr(self.model, "data_indices", None) if self.factor is None else None

    @property
    def parameters(self) -> tuple[str, ...] | None:
        """Names of what the model depends on."""
        return getattr(self.model, "parameters", None)

    @property
    def inner(self) -> ForwardModel:
        """The model."""
        return self.model

    def __call__(self, theta: Array) -> Array:
        """Observations (batch, m)."""
        return self._mapped(np.asarray(self.model(theta)))

    def linearize(self, theta: Array) -> tuple[Array, VectorJacobianProduct]:
        """Observations and the vector-Jacobian product."""
        y, product = self.model.linearize(theta)
        if self.factor is None:
            return self._mapped(np.asarray(y)), product
        return self._mapped(np.asarray(y)), lambda cotangent: product(_rows(cotangent, np.asarray(self.factor).T))

    def _mapped(self, y: Array) -> Array:
        return (y if self.factor is None else _rows(y, np.asarray(self.factor))) + np.asarray(self.offset)


def _rows(values: Array, matrix: Array) -> Array:
    """Products of a matrix and each row, whose bits do not depend on the other rows, as those of BLAS do."""
    return np.einsum("bk,mk->bm", values, matrix)

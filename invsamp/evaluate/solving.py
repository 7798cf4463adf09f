"""One request answered by its potential."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from invsamp.contract import Array, Potential, Terms
from invsamp.evaluate.requests import Batch, Estimate, Request, reduced
from invsamp.posing.forward import own_array


def solve(potential: Potential, request: Request) -> Estimate:
    """What a potential gives for a request, as it is: energies of failed solves are not finite."""
    position = np.array(request.position)  # a potential may write into what it is given
    if request.batch is not None:
        return reduced(batch_terms(potential, position, request.batch), request.batch)
    # and use the memory of what it returns again
    if request.gradient:
        energy, gradient = potential.energy_and_gradient(position)
        return Estimate(own_array(energy, "energies"), own_array(gradient, "gradients"))
    return Estimate(own_array(potential.energy(position), "energies"), None)  # type: ignore[arg-type]


def batch_terms(potential: Potential, position: Array, batch: Batch) -> Terms:
    """Terms of a batch of data, or of groups of them."""
    termwise: Any = potential  # minibatches refuse others
    if batch.counted is None:
        return termwise.terms(position, batch.members)
    if hasattr(potential, "group_terms"):
        return termwise.group_terms(position, batch.members, batch.counted)
    return summed(termwise.terms(position, batch.members.reshape(len(position), -1)), batch.members, batch.counted)


def summed(terms: Terms, members: npt.NDArray[np.intp], counted: Array) -> Terms:
    """Terms of groups, from those of the data that they hold one after the other."""
    energies = (terms.energies.reshape(members.shape) * counted).sum(axis=2)
    gradients = np.einsum("cnmd,cnm->cnd", terms.gradients.reshape(*members.shape, -1), counted)
    return terms._replace(energies=energies, gradients=gradients)


def separable(potential: Potential, position: Array) -> bool:
    """Whether the energies of some chains are, bit for bit, the same whichever chains they are evaluated with.

    They are not where rows of a batch share a matrix product, whose order of summation depends on its size. Then the
    draws would depend on the number of processes.

    Parameters
    ----------
    potential : Potential
    position : ndarray (chains, dimension)
        Where to try.
    """

    def found(count: int) -> list[Array]:
        parts = [
            [*solve(potential, Request("", block))[:2], solve(potential, Request("", block, gradient=False)).energy]
            for block in np.array_split(position, count)
        ]
        return [np.concatenate(column) for column in zip(*parts, strict=True)]

    whole = found(1)
    # each alone, halves, and thirds: every size of block that there may be is not tried, but those that differ most
    return all(
        np.array_equal(a, b, equal_nan=True)
        for count in {min(n, len(position)) for n in (2, 3, len(position))}
        for a, b in zip(found(count), whole, strict=True)
    )

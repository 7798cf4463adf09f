"""One request answered by its potential."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from invsamp.contract import Array, Gradients, Parts, Potential, SplitPotential, Terms, sums_groups
from invsamp.evaluate.requests import Answer, Batch, Estimate, Request, joined, reduced, rows_of
from invsamp.posing.forward import own_array


def solve(potential: Potential, request: Request) -> Estimate:
    """What a potential gives for a request, as it is: energies of failed solves are not finite."""
    position = np.array(request.position)  # a potential may write into what it is given
    if request.batch is not None:
        return reduced(batch_terms(potential, position, request.batch), request.batch, request.gradient)
    # and use the memory of what it returns again
    if isinstance(potential, SplitPotential):
        return estimated(potential.parts(position, request.gradient), request.gradient)
    if request.gradient:
        energy, gradient = potential.energy_and_gradient(position)
        return Estimate(own_array(energy, "energies"), own_array(gradient, "gradients"))
    return Estimate(own_array(potential.energy(position), "energies"), None)  # type: ignore[arg-type]


def estimated(parts: Parts, gradient: Gradients) -> Estimate:
    """What a potential that tells its parts was asked for, in arrays of its own."""
    energy, slope, prior, prior_slope = parts
    return Estimate(
        own_array(energy, "energies"),
        own_array(slope, "gradients") if gradient else None,  # type: ignore[arg-type]
        prior=own_array(prior, "prior energies"),
        prior_gradient=own_array(prior_slope, "gradients of the prior energy") if gradient == "apart" else None,
    )


def batch_terms(potential: Potential, position: Array, batch: Batch) -> Terms:
    """Terms of a batch of data, or of groups of them; less their expansions, and what is known, where this is
    wanted."""
    terms = _own_terms(potential, position, batch) if batch.reference is None else _expanded(potential, position, batch)
    if batch.known is None:
        return terms
    energies, gradients = terms.energies - batch.known[:, :, 0], terms.gradients - batch.known[:, :, 1:]
    return terms._replace(energies=energies, gradients=gradients)


def _expanded(potential: Potential, position: Array, batch: Batch) -> Terms:
    rows, there = len(position), batch.reference
    assert there is not None
    both = _own_terms(potential, np.concatenate([position, there]), batch.take(np.tile(np.arange(rows), 2)))
    prior, prior_gradient, energies, gradients = both
    # a reference that cannot be solved spoils what is told at the position
    prior = np.where(np.isfinite(prior[rows:]), prior[:rows], np.inf)
    with np.errstate(invalid="ignore"):  # of solves that failed
        if batch.order == 0:
            factor = -1.0 if batch.coefficient is None else batch.coefficient[:, None]
            energies, gradients = energies[:rows] + factor * energies[rows:], gradients[:rows]
        else:
            linear = (gradients[rows:] @ (position - there)[:, :, None])[:, :, 0]
            energies, gradients = energies[:rows] - energies[rows:] - linear, gradients[:rows] - gradients[rows:]
    return Terms(prior, prior_gradient[:rows], energies, gradients)


def _own_terms(potential: Potential, position: Array, batch: Batch) -> Terms:
    termwise: Any = potential  # minibatches refuse others
    if batch.counted is None:
        return termwise.terms(position, batch.members)
    if sums_groups(termwise):
        return termwise.group_terms(position, batch.members, batch.counted)
    return summed(termwise.terms(position, batch.members.reshape(len(position), -1)), batch.members, batch.counted)


def summed(terms: Terms, members: npt.NDArray[np.intp], counted: Array) -> Terms:
    """Terms of groups, from those of the data that they hold one after the other."""
    energies = (terms.energies.reshape(members.shape) * counted).sum(axis=2)
    gradients = np.einsum("cnmd,cnm->cnd", terms.gradients.reshape(*members.shape, -1), counted)
    return terms._replace(energies=energies, gradients=gradients)


def separable(request: Request, answer: Answer) -> bool:
    """Whether rows have, bit for bit, the same estimates whichever rows they are solved with.

    They have not where rows share a matrix product, whose order of summation depends on its size, or the steps of an
    integrator. Then the draws would depend on the number of processes. Equal rows do not tell, and are refused.
    """
    if not np.ptp(request.position, axis=0).any():
        return False
    whole, *parts = answer((request, *_pieces(request)))
    again = joined(parts)
    return all(_repeated(one, many) for one, many in zip(whole.arrays, again.arrays, strict=True))


def _repeated(one: Array | None, many: Array | None) -> bool:
    if one is None or many is None:
        return one is many
    return np.array_equal(np.concatenate([one] * (len(many) // len(one))), many, equal_nan=True)


def _pieces(request: Request) -> list[Request]:
    """A request's halves, thirds, and each row alone. Not every size, but those that differ most."""
    rows = len(request.position)
    counts = sorted({min(count, rows) for count in (2, 3, rows)})
    blocks = [block for count in counts for block in np.array_split(np.arange(rows), count)]
    return [rows_of(request, slice(block[0], block[-1] + 1)) for block in blocks]

"""One request answered by its potential."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import numpy as np
import numpy.typing as npt
from numba import njit

from invsamp.errors import ModelError
from invsamp.evaluate.requests import (
    Answer,
    Batch,
    Estimate,
    Request,
    guarded,
    joined,
    reduced,
    reduced_sums,
    rows_of,
)
from invsamp.posing.forward_models.guarded_model import FLOAT, own_array, real_array
from invsamp.protocols import (
    Array,
    BatchPotential,
    BatchTerms,
    CurvedPotential,
    ObservingPotential,
    Potential,
    SensitivePotential,
    SplitPotential,
    Terms,
    TermwisePotential,
    sums_batches,
    sums_groups,
)


def solve(potential: Potential, request: Request) -> Estimate:
    """The answer of a potential to a request; where anything is not finite, energies are +inf and gradients 0.

    Examples
    --------
    >>> import numpy as np
    >>> import invsamp as iv
    >>> potential = iv.extending.FunctionPotential(lambda x: (0.5 * (x**2).sum(axis=1), x), 2)
    >>> iv.evaluate.solve(potential, iv.evaluate.Request("model", np.ones((1, 2)))).energy
    array([1.])
    """
    return solver(potential)(request)


def solver(potential: Potential) -> Callable[[Request], Estimate]:
    """An answer to requests by a potential, in arrays of its own.

    A potential may write into what it is given, and use the memory of what it returns again. The copy of a position
    lies in memory as a part of the chains would: sums of the potential's must not depend on it.
    """
    energy, energy_and_gradient = potential.energy, potential.energy_and_gradient
    parts = potential.parts if isinstance(potential, SplitPotential) else None
    new, array, real = tuple.__new__, np.ndarray, FLOAT

    def solved(request: Request) -> Estimate:
        _, position, gradient, batch, observations = request
        if batch is not None:
            return _of_batch(potential, request, batch)
        position = position.copy()
        if observations:
            predicted = cast(ObservingPotential, potential).observations(position)
            y = own_array(predicted, f"the observations of fidelity {request.fidelity!r}")
            return guarded(Estimate(np.zeros(len(y)), y))
        if gradient == "curved":
            return _curved(cast(CurvedPotential, potential), request)
        slope: Array | None = None
        prior: Array | None = None
        prior_slope: Array | None = None
        if parts is not None:
            value, slope, prior, prior_slope = parts(position, gradient)
        elif gradient:
            value, slope = energy_and_gradient(position)
        else:
            value = energy(position)
        # what follows, for the usual case, as this is asked at each step
        usual = type(value) is array and value.dtype is real
        if usual and gradient is True and type(slope) is array and slope.dtype is real:
            value, slope = value.copy(), slope.copy()
            if prior is None:
                if _finite(value, slope, value):
                    return new(Estimate, (value, slope, None, None, None, None, False, None))
            elif type(prior) is array and prior.dtype is real:
                prior = prior.copy()
                if _finite(value, slope, prior):
                    return new(Estimate, (value, slope, None, None, prior, None, False, None))
        elif usual and gradient is False and prior is None:
            value = value.copy()
            if _finite(value, value, value):
                return new(Estimate, (value, None, None, None, None, None, False, None))
        owned = _owned(request, value, slope, prior, prior_slope)
        if (endless := owned.energy == -np.inf).any():
            at = request.position[endless][0].tolist()
            raise ModelError(
                f"energies of fidelity {request.fidelity!r} must be finite, or +inf where there is no density, got "
                f"-inf at the position {at}: draws cannot represent an infinite density"
            )
        return guarded(owned)

    return solved


@njit(cache=True)
def _finite(energy: Array, gradient: Array, prior: Array) -> bool:
    """Whether all of it is: for few chains in half the time of BLAS's sums of moduli."""
    wrong = 0
    for value in energy.flat:
        wrong += not abs(value) < np.inf
    for value in gradient.flat:
        wrong += not abs(value) < np.inf
    for value in prior.flat:
        wrong += not abs(value) < np.inf
    return wrong == 0


def _curved(potential: CurvedPotential, request: Request) -> Estimate:
    """Energies with gradients and Gauss-Newton matrices."""
    what, found = f"the curvature of fidelity {request.fidelity!r}", potential.curvature(request.position.copy())
    energy, gradient, matrix, prior = (own_array(part, what) for part in found[:4])
    return guarded(Estimate(energy, gradient, gradient_variance=matrix, prior=prior))


def _of_batch(potential: Potential, request: Request, batch: Batch) -> Estimate:
    """An estimate of the whole by a batch, or Gauss-Newton matrices of its terms."""
    fidelity, position = request.fidelity, request.position
    with np.errstate(invalid="ignore", over="ignore"):  # of failed solves and diverging chains
        if _sums_alone(batch) and sums_batches(potential):
            return guarded(reduced_sums(_batch_sums(potential, request), batch))
        if batch.curvature:
            return guarded(_curvatures(potential, fidelity, position.copy(), batch))
        return guarded(reduced(_batch_terms(potential, fidelity, position.copy(), batch), batch, request.gradient))


def _owned(
    request: Request, energy: Array, gradient: Array | None, prior: Array | None, prior_gradient: Array | None
) -> Estimate:
    """An estimate in arrays of its own, whatever they are made of: `solver` does the same for what is usual."""

    def own(name: str, part: Array | None, wanted: object = True) -> Array | None:
        return own_array(part, f"the {name} of fidelity {request.fidelity!r}") if wanted else None

    return Estimate(
        own("energy", energy),  # type: ignore[arg-type]
        own("gradient", gradient, request.gradient),  # type: ignore[arg-type]
        prior=own("prior energy", prior, prior is not None),
        prior_gradient=own("gradient of the prior energy", prior_gradient, request.gradient == "apart"),
    )


def _sums_alone(batch: Batch) -> bool:
    """Whether sums of gradients are enough for what is wanted of a batch."""
    expanded = batch.reference is not None and batch.order > 0
    plain = batch.structure is None and batch.counted is None and batch.known is None
    return plain and not expanded and not batch.curvature


def _batch_sums(potential: BatchPotential, request: Request) -> BatchTerms:
    """Energies of a batch, less those at a reference where there is one, and the gradient of what it stands for."""
    batch, what = request.batch, f"the terms of fidelity {request.fidelity!r}"
    assert batch is not None
    scale = batch.total / batch.members.shape[1]
    parts = potential.batch_terms(_to_read(request.position), batch.members, request.gradient, scale)
    found = BatchTerms(*(None if part is None else real_array(part, what) for part in parts))  # type: ignore[arg-type]
    if batch.reference is None:
        return found
    there = potential.batch_terms(_to_read(batch.reference), batch.members, False, scale)
    # where the reference cannot be solved, neither can the estimate at the position
    whole = np.where(np.isfinite(there.prior_energy), found.prior_energy, np.inf)
    factor = -1.0 if batch.coefficient is None else batch.coefficient[:, None]
    return found._replace(prior_energy=whole, energies=found.energies + factor * there.energies)


def _to_read(position: Array) -> Array:
    """A read-only view."""
    view = position.view()
    view.flags.writeable = False
    return view


def _batch_terms(potential: Potential, fidelity: str, position: Array, batch: Batch) -> Terms:
    """Terms of a batch of data, or of groups of them; less their expansions, and what is known, where this is
    wanted."""
    find = _own_terms if batch.reference is None else _expanded
    terms = find(potential, fidelity, position, batch)
    if batch.known is None:
        return terms
    energies, gradients = terms.energies - batch.known[:, :, 0], terms.gradients - batch.known[:, :, 1:]
    return terms._replace(energies=energies, gradients=gradients)


def _expanded(potential: Potential, fidelity: str, position: Array, batch: Batch) -> Terms:
    rows, there = len(position), batch.reference
    assert there is not None
    twice = batch.take(np.tile(np.arange(rows), 2))
    both = _own_terms(potential, fidelity, np.concatenate([position, there]), twice)
    prior, prior_gradient, energies, gradients = both
    # where the reference cannot be solved, neither can the estimate at the position
    prior = np.where(np.isfinite(prior[rows:]), prior[:rows], np.inf)
    with np.errstate(invalid="ignore"):  # of solves that failed
        if batch.order == 0:
            factor = -1.0 if batch.coefficient is None else batch.coefficient[:, None]
            energies, gradients = energies[:rows] + factor * energies[rows:], gradients[:rows]
        else:
            linear = (gradients[rows:] @ (position - there)[:, :, None])[:, :, 0]
            energies, gradients = energies[:rows] - energies[rows:] - linear, gradients[:rows] - gradients[rows:]
    return Terms(prior, prior_gradient[:rows], energies, gradients)


def _own_terms(potential: Potential, fidelity: str, position: Array, batch: Batch) -> Terms:
    termwise = cast(TermwisePotential, potential)  # minibatches refuse others
    members, counted = batch.members, batch.counted
    if counted is None:
        found = termwise.terms(position, members)
    elif sums_groups(termwise):
        found = termwise.group_terms(position, members, counted)
    else:
        found = summed(termwise.terms(position, members.reshape(len(position), -1)), members, counted)
    what = f"the terms of fidelity {fidelity!r}"
    prior, terms = (own_array(part, what) for part in found[:2]), (real_array(part, what) for part in found[2:])
    return Terms(*prior, *terms)  # sums of the terms are new arrays, the prior's part is kept as it is


def _curvatures(potential: Potential, fidelity: str, position: Array, batch: Batch) -> Estimate:
    """Gauss-Newton matrices, of the batch together; see `invsamp.evaluate.requests.Batch`."""
    members = batch.members.reshape(len(position), -1)
    found = cast(SensitivePotential, potential).sensitivities(position, members)  # who asks has refused others
    prior, slope, bends, slopes = (own_array(part, f"the sensitivities of fidelity {fidelity!r}") for part in found)
    counted = bends if batch.counted is None else bends * batch.counted.reshape(members.shape)
    matrix = np.einsum("nk,nki,nkj->nij", counted, slopes, slopes)
    return Estimate(prior, slope, gradient_variance=matrix, prior=prior)


def summed(terms: Terms, members: npt.NDArray[np.intp], counted: Array) -> Terms:
    """Terms of groups, from those of the data that they hold one after the other."""
    energies = (terms.energies.reshape(members.shape) * counted).sum(axis=2)
    gradients = np.einsum("cnmd,cnm->cnd", terms.gradients.reshape(*members.shape, -1), counted)
    return terms._replace(energies=energies, gradients=gradients)


def separable(request: Request, answer: Answer) -> bool:
    """Whether rows have, bit for bit, the same estimates whichever rows they are solved with.

    They have not where rows share a matrix product, whose order of summation depends on its size, or the steps of an
    integrator. Then the draws would depend on the number of processes. Equal rows show nothing, and are refused.
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

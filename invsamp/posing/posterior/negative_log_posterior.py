"""The posterior's energy of one fidelity, in the coordinates in which a sampler moves."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import numpy.typing as npt

from invsamp.domains import Box, Unbounded
from invsamp.domains.contract import Domain
from invsamp.posing.compiled import density_loops
from invsamp.posing.compiled.density_loops import Posed
from invsamp.posing.compiled.energy_pointer import NotCompiled
from invsamp.posing.compiled.posterior_energy import PosteriorParts
from invsamp.posing.forward_models.guarded_model import GuardedModel
from invsamp.posing.noise.bound_likelihood import BoundNoise
from invsamp.posing.posterior import gauss_newton, tangents
from invsamp.posing.posterior.compiled_energy import PosteriorSource, model_obstacle
from invsamp.posing.priors.noncentering import Moved
from invsamp.posing.priors.sampled_prior import Sampled
from invsamp.posing.transforms.univariate import Coordinates, Logit
from invsamp.protocols import (
    AnyArray,
    Array,
    Curved,
    ExpectedMisfit,
    FunctionCalls,
    Gradients,
    Linearized,
    Parts,
    Terms,
    derivative_error,
)


class PosteriorPotential:
    """Energy of one fidelity in positions: minus log likelihood, prior density and Jacobian. See `Posterior`.

    Points outside the sampling domain or of zero prior density have energy +inf and gradient 0, and the
    model is not called for them. So have points where the solve fails or anything is not finite. The
    positions are trusted to have shape (chains, dimension).
    """

    def __init__(
        self,
        sampled: Sampled,
        coordinates: Coordinates,
        domain: Domain,
        model: GuardedModel,
        columns: slice | npt.NDArray[np.intp],
        noise: BoundNoise,
    ) -> None:
        prior = sampled.base
        self._prior, self._hierarchy = prior, sampled.hierarchy
        self._coordinates, self._domain = coordinates, domain
        self._model, self._columns, self._noise = model, columns, noise
        box = domain if isinstance(domain, Box) else Box()
        lower, upper = (np.broadcast_to(end, (prior.dimension,)).copy() for end in (box.lower, box.upper))
        self._box = lower, upper
        self._slow_domain = None if isinstance(domain, (Box, Unbounded)) else domain
        #: Whether one call of compiled code poses a position: most do, and this is asked at each step.
        slow = self._slow_domain is not None or self._hierarchy is not None
        self._plain = not (prior.others or coordinates.vectors or slow)
        self.dimension = prior.dimension
        width = prior.dimension if self._hierarchy is None else self._hierarchy.width
        self._inputs = np.arange(width)[columns].size
        self._whole = isinstance(columns, slice) and columns.indices(width) == (0, width, 1)
        own = [prior.slices[name] for name in noise.names if name in prior.slices]
        self._of_noise = np.array(sorted(k for part in own for k in range(part.start, part.stop)), dtype=np.intp)
        if noise.independent:  # else there are no terms for minibatches
            self.size = noise.size

    @property
    def derivative_error(self) -> float:
        """The relative error of its derivatives that the model admits."""
        return derivative_error(self._model.model)

    @property
    def function_calls(self) -> FunctionCalls:
        """Calls of the model's function for one position, at the columns that the model gets."""
        return self._model.function_calls(self._inputs)

    @property
    def no_derivatives(self) -> str | None:
        """Why the model, or the prior, has no derivatives; None if both have."""
        return self._model.no_derivatives or self._prior.no_derivatives

    def expected_misfit(self) -> ExpectedMisfit | None:
        """Expected misfit of the data, where the noise is known."""
        return self._noise.expected_misfit()

    def residuals(self, position: Array) -> Array:
        """How far data are from predictions: see `invsamp.posing.noise.bound_likelihood.BoundNoise.residuals`."""
        return self._noise.residuals(self._pose(position)[0][0], self.observations(position))

    def energy(self, position: Array) -> Array:
        """Energy, shape (chains,)."""
        return self.parts(position, False).energy

    def energy_and_gradient(self, position: Array) -> tuple[Array, Array]:
        """Energy (chains,) and its gradient (chains, dimension)."""
        energy, gradient, _, _ = self.parts(position, True)
        assert gradient is not None  # it was asked for
        return energy, gradient

    def compiled_energy(self) -> PosteriorSource | NotCompiled:
        """As a compiled function, where all parts have some; see `invsamp.protocols.CompiledPotential`."""
        model = self._model.model
        if not self._plain:
            return NotCompiled("the prior, its coordinates or the domain have parts without a compiled loop")
        if (reason := model_obstacle(model)) is not None:  # first: likelihoods of emulators have no attribute of loops
            return NotCompiled(reason)
        if (terms := self._noise.loop) is None:
            return NotCompiled("the noise has no compiled loop")
        inputs = self._model.inputs(np.arange(self.dimension)[self._columns])
        prior = self._prior.compiled, self._box, self._prior.log_constant
        parts = PosteriorParts(self._coordinates.compiled, *prior, *inputs, terms, self._model.observations)
        return PosteriorSource(self, model, parts)

    def parts(self, position: Array, gradient: Gradients) -> Parts:
        """Energy and, of it, what is the prior's; see `invsamp.protocols.SplitPotential`."""
        posed, place = self._pose(position)
        if posed.everywhere:
            return self._parts(gradient, posed, place)
        inside = posed.inside
        chains, d = len(inside), self.dimension
        slope, prior_slope = (np.zeros((chains, d)) if wanted else None for wanted in (gradient, gradient == "apart"))
        found = Parts(np.full(chains, np.inf), slope, np.full(chains, np.inf), prior_slope)
        if inside.any():
            solved = self._parts(gradient, posed.take(inside), place[inside])
            for target, part in zip(found, solved, strict=True):
                if target is not None and part is not None:
                    target[inside] = part
        return found

    @property
    def curved(self) -> bool:
        """Whether the model has a Jacobian, data are independent, and so are parameters; see `curvature`."""
        single = self._hierarchy is None and not self._coordinates.vectors
        return single and self._noise.independent and self._model.has_jacobian

    @property
    def tangents(self) -> bool:
        """Whether the model has tangents or a Jacobian, and data are independent; see `TangentPotential`."""
        return self._noise.independent and self._model.has_tangent and self._model.no_derivatives is None

    @property
    def rows(self) -> int:
        """Data that are not missing, and unknowns of the noise."""
        return self._noise.size + len(self._of_noise)

    def tangent(self, position: Array) -> Linearized:
        """Energy, gradient and Gauss-Newton products at one position; see `invsamp.protocols.TangentPotential`."""
        posed, place = self._pose(position[None])
        if not posed.everywhere:
            return tangents.beyond(self.dimension)
        move = None if self._hierarchy is None and not self._coordinates.vectors else self._theta_at
        chain = tangents.Chain(position, posed.derivative, move, partial(self._back, place), self._columns)
        return tangents.linearized(self._noise, self._coordinates, self._of_noise, self._model, chain, posed)

    def _theta_at(self, position: Array) -> Array:
        return self._pose(position)[0].theta

    @property
    def bounded(self) -> bool:
        """Whether there are logits."""
        return any(isinstance(transform, Logit) for transform in self._coordinates.transforms)

    def curvature(self, position: Array) -> Curved:
        """Energy, gradient and Gauss-Newton matrix; see `invsamp.protocols.CurvedPotential`."""
        posed, _ = self._pose(position)
        inside, (n, d) = posed.inside, position.shape
        empty = np.full(n, np.inf), np.zeros((n, d)), np.zeros((n, d, d)), np.full(n, np.inf), *np.zeros((2, n, d))
        if inside.any():
            for target, part in zip(empty, self._curvature(position[inside], posed.take(inside)), strict=True):
                target[inside] = part
        return Curved(*empty)

    def observations(self, position: Array) -> Array:
        """Predictions (chains, m) of the model's own data; NaN where the solve failed, or theta lies outside.

        See `invsamp.protocols.ObservingPotential`.
        """
        (theta, *_, inside, everywhere), _ = self._pose(position)
        if everywhere:
            return self._model(np.ascontiguousarray(theta[:, self._columns]))
        y = np.full((len(inside), self._model.observations), np.nan)
        if inside.any():
            y[inside] = self._model(np.ascontiguousarray(theta[inside][:, self._columns]))
        return y

    def terms(self, position: Array, indices: npt.NDArray[np.intp]) -> Terms:
        """Terms at ``indices``, shape (chains, batch), of the m data; see `invsamp.protocols.Terms`.

        A point outside, or a failed solve, has prior energy +inf and all else 0. A model with ``rows``
        evaluates the batch alone, and a failure shows only there. Any other is solved in full whatever the
        batch: what a minibatch saves is up to its ``jacobian``, or else the vector-Jacobian products, one for
        each entry of the batch.
        """
        return self._terms(position, self._data_terms, indices)

    def group_terms(self, position: Array, members: npt.NDArray[np.intp], counted: Array) -> Terms:
        """Sums of terms over groups of data; see `invsamp.protocols.GroupwisePotential`.

        A model with neither ``rows`` nor ``jacobian`` gives them for one vector-Jacobian product per group.
        """
        return self._terms(position, self._group_terms, members, counted)

    def sensitivities(self, position: Array, indices: npt.NDArray[np.intp]) -> Terms:
        """Terms of Gauss-Newton matrices; see `invsamp.protocols.SensitivePotential`.

        Second derivatives are differences of the noise's, without a solve; what the noise's own unknowns add is left
        out.
        """
        return self._terms(position, self._sensitivities, indices)

    def _terms(self, position: Array, function: Callable[..., tuple[Array, Array]], *chosen: AnyArray) -> Terms:
        """Terms from a function of theta and of what is chosen, where theta is inside."""
        (theta, derivative, value, slope, jacobian_slope, inside, _), place = self._pose(position)
        chains, batch = chosen[0].shape[:2]
        result = Terms(
            np.full(chains, np.inf),
            np.zeros((chains, self.dimension)),
            np.zeros((chains, batch)),
            np.zeros((chains, batch, self.dimension)),
        )
        rows = np.flatnonzero(inside)
        if not len(rows):
            return result
        energies, gradients = function(theta[rows], *(part[rows] for part in chosen))
        with np.errstate(invalid="ignore"):  # infinity times 0, far from where the prior is: left out below
            gradients = self._back(place[rows], gradients) * derivative[rows, None, :]
            prior_gradient = -(slope[rows] * derivative[rows] + jacobian_slope[rows])
        finite = np.isfinite(energies).all(axis=1) & np.isfinite(gradients).all(axis=(1, 2))
        finite &= np.isfinite(prior_gradient).all(axis=1)
        rows = rows[finite]
        parts = (-value[rows], prior_gradient[finite], energies[finite], gradients[finite])
        for target, part in zip(result, parts, strict=True):
            target[rows] = part
        return result

    def _pose(self, position: Array) -> tuple[Posed, Array | Moved]:
        """As `invsamp.posing.compiled.density_loops.pose`, with all parts of the prior.

        Those it does not know of: some distributions and domains, the coordinates of vectors, and parameters that
        depend on others. With what leads the derivatives back: the
        positions, or what the hierarchy keeps of them.
        """
        prior, coordinates, position = self._prior, self._coordinates, np.ascontiguousarray(position)
        if not coordinates.vectors:
            posed = density_loops.pose(position, coordinates.compiled, prior.compiled, self._box, prior.log_constant)
            if self._plain:
                return posed, position
        else:
            theta, derivative, value, jacobian_slope = coordinates.evaluate(position)
            density, slope = density_loops.log_density(theta, *prior.compiled)
            value += density + prior.log_constant
            inside = density_loops.inside_box(position, *self._box, value)
            posed = Posed(theta, derivative, value, slope, jacobian_slope, inside, False)
        place: Array | Moved = position
        theta, _, value, slope, _, inside, _ = posed
        with np.errstate(all="ignore"):
            for columns, distribution in prior.others:
                part, slope[:, columns] = distribution.evaluate(theta[:, columns])
                value += part
            if self._hierarchy is not None:
                place, by_theta = self._hierarchy.forward(theta, position)
                theta = place.theta
                value += place.log_density
                if by_theta is not None:
                    slope += place.back(by_theta)
            inside &= np.isfinite(value)
            if self._slow_domain is not None:
                inside &= self._slow_domain.contains(position)
        slope = coordinates.pull_back(position, slope)
        return posed._replace(theta=theta, slope=slope, everywhere=bool(inside.all())), place

    def _back(self, place: Array | Moved, slope: Array) -> Array:
        """Derivatives with respect to theta as those with respect to what is sampled; may be in place."""
        if isinstance(place, Moved):
            return self._coordinates.pull_back(place.position, place.back(slope))
        return self._coordinates.pull_back(place, slope)

    def _parts(self, gradient: Gradients, posed: Posed, place: Array | Moved) -> Parts:
        """Of points inside; the value and the slope are written over."""
        theta, derivative, value, slope, jacobian_slope, _, _ = posed
        prior, selected = -value, theta if self._whole else np.ascontiguousarray(theta[:, self._columns])
        if not gradient:
            unused = slope if self._hierarchy is None else np.zeros(theta.shape)
            y = self._model(selected)
            self._noise.accumulate(theta, y, value, unused)
            known = np.isfinite(value)
            if not known.all():
                self._model.look(y)
            return Parts(np.where(known, -value, np.inf), None, prior, None)
        prior_slope = -(slope * derivative + jacobian_slope) if gradient == "apart" else None
        y, vjp = self._model.linearize(selected, (self._noise.cotangent, theta))
        # what the data say is yet to be brought to the coordinates of vectors, and of what depends on others
        apart = bool(self._coordinates.vectors) or self._hierarchy is not None
        by_data = np.zeros(theta.shape) if apart else slope
        y_slope = self._noise.accumulate(theta, y, value, by_data)
        by_data[:, self._columns] += vjp(y_slope)
        if not np.isfinite(value).all():
            self._model.look(y)
        if apart:
            slope += self._back(place, by_data)
        density_loops.finish(value, slope, derivative, jacobian_slope)
        return tuple.__new__(Parts, (value, slope, prior, prior_slope))

    def _curvature(self, position: Array, posed: Posed) -> Curved:
        """Of points inside; the value and the slope are written over."""
        theta, derivative, value, slope, jacobian_slope, _, _ = posed
        prior, prior_slope = -value, -(slope * derivative + jacobian_slope)
        y, jacobian = self._model.jacobian(np.ascontiguousarray(theta[:, self._columns]))
        slopes = np.zeros((*y.shape, self.dimension))
        slopes[:, :, self._columns] = jacobian
        with np.errstate(all="ignore"):
            slope += np.einsum("nm,nmd->nd", self._noise.accumulate(theta, y, value, slope), slopes)
            slopes *= derivative[:, None, :]
            parts = self._noise, self._coordinates, self._of_noise
            matrix = gauss_newton.of_misfit(*parts, position, theta, y, slopes)
        column, bends = np.arange(self.dimension), self._prior_bends(position)
        matrix[:, column, column] += bends
        density_loops.finish(value, slope, derivative, jacobian_slope)
        matrix = np.where(np.isfinite(value)[:, None, None], matrix, 0.0)
        return Curved(value, slope, matrix, prior, prior_slope, bends)

    def _prior_bends(self, position: Array) -> Array:
        """Second derivatives of the prior energy (n, d), each in its own coordinate; 0 where they are negative."""
        ends, slopes = [], []
        for step in (-gauss_newton.STEP, gauss_newton.STEP):
            ends.append(np.clip(position + step, *self._box))
            _, derivative, _, slope, jacobian_slope, _, _ = self._pose(ends[-1])[0]
            slopes.append(-(slope * derivative + jacobian_slope))
        apart = ends[1] - ends[0]
        with np.errstate(all="ignore"):
            bends = (slopes[1] - slopes[0]) / np.where(apart > 0.0, apart, np.inf)
        return np.where(np.isfinite(bends), np.maximum(bends, 0.0), 0.0)

    def _data_terms(self, theta: Array, indices: npt.NDArray[np.intp]) -> tuple[Array, Array]:
        """Minus log-likelihoods (rows, batch) at theta and their gradients in theta (rows, batch, dimension)."""
        y, seen, by_datum = self._observed(theta, self._noise.places[indices])
        gradients = np.zeros((*indices.shape, theta.shape[1]))
        with np.errstate(all="ignore"):
            log_likelihood, y_slope = self._noise.at(theta, seen, indices, gradients)
            gradients[:, :, self._columns] += y_slope[:, :, None] * by_datum
        # a datum outside the batch may show that the solve failed, too
        return self._without_failures(y, -log_likelihood), -gradients

    def _without_failures(self, y: Array, energies: Array) -> Array:
        """Energies (rows, terms) of data, in place: all of a row are infinite where its solve failed."""
        energies[~np.isfinite(y).all(axis=1)] = np.inf
        if not np.isfinite(energies).all():
            self._model.look(y)
        return energies

    def _sensitivities(self, theta: Array, indices: npt.NDArray[np.intp]) -> tuple[Array, Array]:
        """Second derivatives in the observations (rows, batch), and theirs in theta (rows, batch, dimension)."""
        seen, by_datum = self._observed(theta, self._noise.places[indices])[1:]
        bends = self._noise.bends(theta, seen, indices)
        gradients = np.zeros((*indices.shape, theta.shape[1]))
        gradients[:, :, self._columns] = by_datum
        return bends, gradients

    def _observed(self, theta: Array, places: npt.NDArray[np.intp]) -> tuple[Array, Array, Array]:
        """Observations as they were solved, those at ``places`` (rows, batch), and the Jacobian of these."""
        selected = np.ascontiguousarray(theta[:, self._columns])
        if self._model.has_rows:
            y, by_datum = self._model.rows(selected, places)
            return y, y, by_datum
        y, by_datum = self._chosen_rows(selected, places)
        return y, y[np.arange(len(places))[:, None], places], by_datum

    def _group_terms(self, theta: Array, members: npt.NDArray[np.intp], counted: Array) -> tuple[Array, Array]:
        """The same summed over groups, (rows, groups) and (rows, groups, dimension)."""
        every = members.reshape(len(theta), -1)
        if self._model.has_rows or self._model.has_jacobian:
            energies, gradients = self._data_terms(theta, every)
            # a failed solve is infinite throughout; a repeated datum that does not count is finite where the others are
            summed = np.where(counted > 0.0, energies.reshape(members.shape), 0.0).sum(axis=2)
            return summed, np.einsum("rgkd,rgk->rgd", gradients.reshape(*members.shape, -1), counted)
        y, vjp = self._model.linearize(np.ascontiguousarray(theta[:, self._columns]))
        row = np.arange(len(theta))[:, None]
        by_quantity = np.zeros((*every.shape, theta.shape[1]))
        with np.errstate(all="ignore"):
            places = self._noise.places[members]
            seen = y[row, self._noise.places[every]]
            log_likelihood, y_slope = (
                found.reshape(members.shape) for found in self._noise.at(theta, seen, every, by_quantity)
            )
            energies = -(log_likelihood * counted).sum(axis=2)
            gradients = -np.einsum("rgkd,rgk->rgd", by_quantity.reshape(*members.shape, -1), counted)
            for k in range(members.shape[1]):
                cotangent = np.zeros(y.shape)
                np.add.at(cotangent, (row, places[:, k]), y_slope[:, k] * counted[:, k])
                gradients[:, k, self._columns] -= vjp(cotangent)
        return self._without_failures(y, energies), gradients

    def _chosen_rows(self, selected: Array, places: npt.NDArray[np.intp]) -> tuple[Array, Array]:
        """All observations (rows, m), and the Jacobian of the chosen data alone (rows, batch, p)."""
        row = np.arange(len(places))
        if self._model.has_jacobian:
            y, jacobian = self._model.jacobian(selected)
            return y, jacobian[row[:, None], places]
        y, vjp = self._model.linearize(selected)
        by_datum = np.empty((*places.shape, selected.shape[1]))
        for k in range(places.shape[1]):
            cotangent = np.zeros(y.shape)
            cotangent[row, places[:, k]] = 1.0
            by_datum[:, k] = vjp(cotangent)
        return y, by_datum

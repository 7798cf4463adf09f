"""The posterior: a prior, and forward models of several fidelities with data and noise, or log likelihoods."""

from __future__ import annotations

import copy
import math
import os
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from invsamp.arguments import array, generator, integer, mapping, numbers, one_of, path, wrong
from invsamp.axis_labels import check_order, stated_axes
from invsamp.domains.constraints import DomainLike
from invsamp.posing.checks.gradient_check import GradientCheck, check_gradient
from invsamp.posing.distributions.base import as_shape
from invsamp.posing.expressions.variable_names import labels, labels_of
from invsamp.posing.forward_models.fidelity_order import check_fidelities, checked_costs, warn_of_work
from invsamp.posing.forward_models.log_density import GivenLikelihood, densities_by_fidelity
from invsamp.posing.forward_models.population import Population
from invsamp.posing.noise.base import Noise
from invsamp.posing.noise.bound_likelihood import BoundNoise
from invsamp.posing.noise.data_columns import check_noise_labels, check_places, columns_of, series_of, with_missing
from invsamp.posing.noise.per_output import Outputs
from invsamp.posing.posterior.as_html import as_html
from invsamp.posing.posterior.coordinates import unbounded_density
from invsamp.posing.posterior.data_axes import axes_of
from invsamp.posing.posterior.data_labels import data_labels, labels_for_prediction
from invsamp.posing.posterior.model_likelihood import check_count, input_shapes, noise_of, posed_model
from invsamp.posing.posterior.negative_log_posterior import PosteriorPotential
from invsamp.posing.posterior.prior_in_positions import PriorInPositions, with_support
from invsamp.posing.priors.joint_prior import Prior, by_name, widened
from invsamp.posing.priors.sampled_prior import Sampled
from invsamp.posing.transforms.univariate import Coordinates, Identity
from invsamp.protocols import Array, AxisLabels, Facts, ForwardModel, Plain
from invsamp.simulations.stored_model import stored
from invsamp.warning_codes import InvsampWarning

#: Columns that a text lists one by one.
_LISTED = 30


class Posterior(PriorInPositions):
    r"""Posterior density of an inverse problem, in several fidelities.

    .. math:: p(\theta \mid \text{data}) \propto p(\text{data} \mid F(\theta))\, p(\theta)\, 1_D(\theta)

    A sampler moves in *positions*. A parameter whose support is bounded below only, or that is log-uniform, is sampled
    as its logarithm, any other as itself; finite ends are reflecting bounds (see ``sampling_domain``). If the prior's
    density grows without bound towards one of two ends, as of ``Beta(0.5, 0.5)``, the logit is sampled. One whose
    distribution names others is sampled by way of its standard family (see `Prior`), to which ``transforms`` apply
    then. A column that ``domain`` constrains is always sampled as itself.

    Parameters
    ----------
    prior : Prior
    forward : ForwardModel or function, or mapping from name to these, optional
        One model (the fidelity ``"model"``), or several from the coarsest to the finest. A plain function of theta
        (batch, p) will do for samplers that follow no gradients. A model with ``parameters`` gets the columns of those;
        any other gets all parameters that neither the noise uses nor the distributions of other parameters.
    data : array_like, optional
        Observations of any shape; models return them flattened in C order. Those that a masked array masks are missing:
        models predict them all the same. So is NaN, with a warning. Columns of a pandas DataFrame have their names in
        figures and reports.
    noise : Noise or Outputs, optional
    domain : Domain, constraint or its text, or a sequence of these, optional
        Where theta must lie: domains of all its columns, `invsamp.domains.Product` of some of them by name, and
        ``constraint("sigma > 1 + beta")``; all of a sequence.
    transforms : mapping from parameter to {"identity", "log", "logit"}, optional
        Coordinates other than the default.
    log_likelihood : LogDensity or function, or mapping from name to these, optional
        In place of ``forward``, ``data`` and ``noise``: log p(data | theta), see `LogDensity`; several fidelities as of
        ``forward``. Then there is nothing to predict.
    costs : mapping from fidelity to float > 0, optional
        What a solve of each takes, in any unit, from the coarsest to the finest never less: how often a coarse model
        moves before the fine one decides depends on it. Default: what all models count themselves (``work``), else each
        fidelity is taken for ten times as expensive as the one before. Nothing is timed, so that a seed fixes the
        draws.
    simulations : path, optional
        Folder of a database of the models' runs (`invsamp.simulations.stored`): each is recorded as soon as it is
        finished, and is never run again, whatever the data, the noise and the prior are. Of a mapping of models each
        has a folder of its name in it. The models must have no derivatives. ``model.version``, where a model has one,
        is the label of its version.

    Attributes
    ----------
    dimension : int
    fidelities : tuple of str
        From the coarsest to the finest.
    names, shapes, labels
        As in `Prior`.
    prior, forward, data, noise, domain, costs
        As given: models by fidelity, data as an array with NaN where they are missing, bounds of `Flat` priors in the
        domain.
    coordinates : Coordinates
        The transforms between positions and parameters.
    sampling_domain : Domain
        Domain of the positions: ``domain`` and the finite ends of the supports.
    series : tuple of str or None
        Names of the entries of the data's last axis: a DataFrame's columns, those of `Outputs`, or what the finest
        model has as ``series`` (an ODE's observed states).

    Raises
    ------
    ValueError
        If the data are infinite, do not fit the noise, or are arranged in another way than the model's outputs. If a
        name is unknown, or names or costs of fidelities say that a finer one comes before a coarser one. If a transform
        does not fit its parameter's support or conflicts with ``domain``. If neither ``forward``, ``data`` and
        ``noise`` are given nor ``log_likelihood``, or both are.

    Examples
    --------
    >>> import numpy as np
    >>> import invsamp as iv
    >>> times = np.array([0.0, 1.0, 2.0])
    >>> def model(theta):
    ...     return theta[:, :1] * np.exp(-theta[:, 1:] * times)
    ...
    >>> def jacobian(theta):
    ...     decay = np.exp(-theta[:, 1:] * times)
    ...     return np.stack([decay, -theta[:, :1] * times * decay], axis=2)
    ...
    >>> prior = iv.Prior(a=iv.LogNormal(0.0, 1.0), k=iv.LogNormal(0.0, 1.0))
    >>> posterior = iv.Posterior(
    ...     prior, iv.with_jacobian(model, jacobian), data=[1.1, 0.6, 0.4], noise=iv.GaussianNoise(0.1)
    ... )
    >>> log_density, gradient = posterior.log_density([1.0, 0.5])
    >>> float(log_density.round(3))
    2.212
    """

    def __init__(
        self,
        prior: Prior,
        forward: ForwardModel | Callable[[Array], object] | Mapping[str, object] | None = None,
        data: npt.ArrayLike | None = None,
        noise: Noise | Outputs | None = None,
        domain: DomainLike | None = None,
        transforms: Mapping[str, str] | None = None,
        *,
        log_likelihood: object = None,
        costs: Mapping[str, float] | None = None,
        simulations: str | os.PathLike[str] | None = None,
    ) -> None:
        super().__init__(prior, domain, transforms)
        given = {"forward": forward, "data": data, "noise": noise}
        if log_likelihood is not None:
            _refuse_beside_likelihood(given)
            self.noise: Noise | Outputs = GivenLikelihood()
            self.forward: Plain = densities_by_fidelity(log_likelihood)
            observed = np.zeros(self.forward[tuple(self.forward)[-1]].shape)
        else:
            _refuse_missing(given)
            assert noise is not None
            self.noise = noise
            self.data = observed = with_missing(data)
            self.forward = dict(forward) if isinstance(forward, Mapping) else {"model": forward}
            if not self.forward:
                raise ValueError("forward must hold at least one model, got an empty mapping")
        check_fidelities("forward" if self.predicts else "log_likelihood", self.forward)
        self.series = series_of(data, self.noise, [*self.forward.values()][-1], observed.shape)
        if self.predicts and isinstance(noise, Noise | Outputs):
            check_noise_labels(noise, data, self.series, observed.shape)
        self._axes = stated_axes(data, observed.ndim)
        self._data_labels = self._labels(data, observed.shape)
        self._observe(observed)
        if simulations is not None:
            self.forward = self._with_databases(path("simulations", simulations), isinstance(forward, Mapping))
        self._pose()
        self.costs = None if costs is None else checked_costs(costs, self.fidelities)
        what = "forward" if self.predicts else "log_likelihood"
        check_fidelities(what, self.fidelities, self.costs)
        if self.costs is None:
            warn_of_work(what, self.forward)
        self._warn_of_unused()
        self._warn_of_unbounded_density()

    def __repr__(self) -> str:
        missing = self._bound.outputs - self._bound.size
        data = f"{self._bound.size} data{f' ({missing} missing)' if missing else ''}"
        noise = "a log likelihood" if isinstance(self.noise, GivenLikelihood) else repr(self.noise)
        return (
            f"Posterior({self.dimension} parameters {self._named()}, {data}, "
            f"fidelities {list(self.fidelities)}, {noise}, {self.sampling_domain!r})"
        )

    def _named(self) -> str:
        """All columns by their labels; of many, the names with their shapes."""
        if self.dimension <= _LISTED:
            return str(list(self.labels))
        return str([name if not shape else f"{name}{list(shape)}" for name, shape in self.shapes.items()])

    def _repr_html_(self) -> str:
        return as_html(self)

    @property
    def labels(self) -> tuple[str, ...]:
        """One name per column of theta; entries of a population's parameters are called by its members' labels."""
        return labels_of(self)

    @property
    def axes(self) -> Plain:
        """Axes of the data, as the finest model describes them, for figures: ``members``, ``times``, ``sensors``."""
        return axes_of(self.forward[tuple(self.forward)[-1]], self._data_shape) if self.predicts else {}

    @property
    def axis_labels(self) -> dict[str, AxisLabels]:
        """Names and labels of the axes of the data, ``"data"``, and of a population's own parameters.

        Draws, predictions and files have them as ArviZ's dimensions and coordinates.
        """
        model = self.forward[tuple(self.forward)[-1]]
        labels = self._data_labels
        found = {"data": labels} if labels else {}
        if isinstance(model, Population):
            member, names = next(iter(labels.items()), ("member", list(range(model.members))))
            individual = [name for name in model.individual if self.shapes.get(name) == (model.members,)]
            found |= {name: {member: names} for name in individual if member not in self.shapes}
        return found

    def potential(self, fidelity: str | None = None) -> PosteriorPotential:
        """Energy, in positions, of one fidelity; the finest by default."""
        name = self._fidelity(fidelity)
        posed = self._posed[name]
        return PosteriorPotential(
            self._sampled, self.coordinates, self.sampling_domain, posed.model, posed.columns, posed.noise
        )

    def with_data(self, data: npt.ArrayLike) -> Posterior:
        """The same posterior of other data: the models are shared, not copied.

        Parameters
        ----------
        data : array_like
            In the shape of the data that are there; what is missing is given as for a new posterior.

        Raises
        ------
        ValueError
            If the shape or the order of labels differs, the data are infinite or do not fit the noise, or the posterior
            has none: one posed by its log likelihood.
        """
        if isinstance(self.noise, GivenLikelihood):
            raise ValueError("posterior must have a forward model for other data, got one posed by its log likelihood")
        known = with_missing(data)
        if known.shape != self.data.shape:
            raise ValueError(f"data must have the shape of those before, {self.data.shape}, got {known.shape}")
        check_places("data", columns_of(data) or (), "those before", self.series or ())
        check_order("data", stated_axes(data, known.ndim), self._axes, "those before")
        check_noise_labels(self.noise, data, self.series, known.shape)
        other = copy.copy(self)
        other.data = known
        other._data_labels = self._labels(data, known.shape) or self._data_labels  # noqa: SLF001 (its own class)
        other._observe(known)  # noqa: SLF001 (its own class)
        noises = other._noises()  # noqa: SLF001
        other._posed = {name: replace(one, noise=noises[name][0]) for name, one in self._posed.items()}  # noqa: SLF001
        return other

    def with_forward(self, forward: Mapping[str, object]) -> Posterior:
        """The same posterior with other forward models, in the same coordinates; their order is that of fidelity.

        Raises
        ------
        ValueError
            As of a new posterior; also if this one was posed by its log likelihood.
        """
        models = mapping("forward", forward)
        if not self.predicts:
            raise ValueError("posterior must have forward models to replace, got one posed by its log likelihood")
        if not models:
            raise ValueError("forward must hold at least one model, got an empty mapping")
        check_fidelities("forward", models)
        other = copy.copy(self)
        other.forward = dict(models)
        other._observe(self.data)  # noqa: SLF001 (its own class)
        other._pose()  # noqa: SLF001
        if self.costs is not None:
            kept = {name: cost for name, cost in self.costs.items() if name in other.fidelities}
            other.costs = kept if len(kept) == len(other.fidelities) else None
        return other

    def alone(self, fidelity: str | None = None) -> Posterior:
        """The posterior of one fidelity by itself, of the data that it predicts; the finest by default."""
        name = self._fidelity(fidelity)
        other = copy.copy(self)
        other.forward, other.fidelities, other.costs = {name: self.forward[name]}, (name,), None
        other._posed = {name: self._posed[name]}  # noqa: SLF001 (its own class)
        return other

    @property
    def predicts(self) -> bool:
        """Whether there are forward models and data, not a log likelihood alone."""
        return not isinstance(self.noise, GivenLikelihood)

    def columns(self, fidelity: str | None = None) -> slice | npt.NDArray[np.intp]:
        """Columns of theta that a fidelity's model gets, in its order; those of what is tied stand behind them."""
        return self._posed[self._fidelity(fidelity)].columns

    def input_shapes(self, fidelity: str | None = None) -> dict[str, tuple[int, ...]]:
        """Name -> shape of all that a fidelity's model gets, fixed or not."""
        name = self._fidelity(fidelity)
        return input_shapes(name, self.forward[name], self._noises()[name][0], self.prior)

    def unknown_names(self, fidelity: str | None = None) -> tuple[str, ...]:
        """Names of what a fidelity's model gets and is not fixed, in the order of `columns`."""
        return self._posed[self._fidelity(fidelity)].unknowns

    def given(self, theta: npt.ArrayLike | Mapping[str, npt.ArrayLike], fidelity: str | None = None) -> Array:
        """Input (batch, p) of a fidelity's model at theta (batch, dimension), with tied and fixed parameters."""
        name, points = self._fidelity(fidelity), widened(self.prior, self._theta(theta))
        return self._posed[name].model.given(points[:, self._posed[name].columns])

    def unknowns(self, fidelity: str | None = None) -> int:
        """How many of the numbers that a fidelity's model gets are not fixed."""
        columns = self._posed[self._fidelity(fidelity)].columns
        return columns.stop - columns.start if isinstance(columns, slice) else len(columns)

    def for_prediction(
        self,
        forward: ForwardModel | Callable[[Array], object],
        shape: int | tuple[int, ...] | None = None,
        noise: Noise | Outputs | None = None,
    ) -> Posterior:
        """The same unknowns seen by another model, at other times or under other conditions, without data.

        For predictions of what was not measured: ``run.posterior_predictive(posterior.for_prediction(model))`` takes
        the draws that there are, ``posterior.for_prediction(model).predict(theta)`` some parameters.

        Parameters
        ----------
        forward : ForwardModel or function
            Of the posterior's parameters.
        shape : int or tuple of int, optional
            Of what is predicted. By default the model says it: arranged as its outputs are if the data have as many
            axes, not counting a last axis of length one; otherwise as a vector.
        noise : Noise or Outputs, optional
            Default: the posterior's. One that has an array as long as the data fits these alone.

        Raises
        ------
        ValueError
            If the posterior has no noise of its own, the model does not say how much it predicts, or shapes do not fit.
        """
        if noise is None and isinstance(self.noise, GivenLikelihood):
            raise ValueError("noise must be given, as the posterior has a log likelihood in its place, got None")
        count = self._arranged(forward) if shape is None else shape
        if count is None:
            raise ValueError("shape must be given for a model without n_observations, got None")
        other = copy.copy(self)
        other.noise = self.noise if noise is None else noise
        other.forward = {"model": forward}
        if as_shape(count) == ():
            raise wrong("shape", "an integer >= 1 or a tuple of these", shape)
        other.data = np.full(as_shape(count), np.nan)
        other.data.setflags(write=False)
        try:
            other._observe(other.data, unseen=True)  # noqa: SLF001 (its own class)
        except ValueError as error:
            rows, rest = divmod(other.data.size, math.prod(self.data.shape[1:]))
            if shape is None and self.data.ndim > 1 and rest == 0:
                arranged = (rows, *self.data.shape[1:])
                raise ValueError(f"{error}. Arranged as the posterior's data it would: shape={arranged}") from error
            raise
        named = other._labels(None, other.data.shape)  # noqa: SLF001 (its own class)
        other._data_labels = labels_for_prediction(named, other.axes, self._data_labels, self.axes)  # noqa: SLF001
        other._pose()  # noqa: SLF001
        return other

    def predict(self, theta: npt.ArrayLike | Mapping[str, npt.ArrayLike], fidelity: str | None = None) -> Array:
        """Noise-free observations, shape (batch, *data.shape); NaN where the solve failed, or none is predicted.

        ``theta`` is an array (batch, dimension) or (dimension,), or a mapping from name to values.
        """
        points, name = widened(self.prior, self._theta(theta)), self._fidelity(fidelity)
        if isinstance(self.noise, GivenLikelihood):
            raise ValueError("posterior must have a forward model to predict, got one posed by its log likelihood")
        return self._scatter(name, self._posed[name](points), np.nan)

    def among_data(self, y: npt.ArrayLike, fidelity: str | None = None) -> Array:
        """Observations (batch, k) of a fidelity's own data in a row of all m data, NaN for those that it has not.

        Raises
        ------
        ValueError
            If there are not as many as the fidelity predicts.
        """
        name = self._fidelity(fidelity)
        given = array("y", y, ("batch", self._posed[name].noise.outputs), finite=False, nan=True)
        return self._scatter(name, given, np.nan).reshape(len(given), -1)

    def sample_noise(
        self, rng: np.random.Generator, y: npt.ArrayLike, theta: npt.ArrayLike | Mapping[str, npt.ArrayLike]
    ) -> Array:
        """Data with fresh noise, shape (batch, *data.shape), around noise-free ``y`` of that shape."""
        generator("rng", rng)
        points = widened(self.prior, self._theta(theta))
        clean = numbers("y", y)
        if clean.shape != (len(points), *self._data_shape):
            raise ValueError(f"y must have shape {(len(points), *self._data_shape)}, got {clean.shape}")
        return self._bound.sample(rng, points, clean.reshape(len(points), -1)).reshape(clean.shape)

    def sample_data(
        self, rng: np.random.Generator, theta: npt.ArrayLike | Mapping[str, npt.ArrayLike], fidelity: str | None = None
    ) -> Array:
        """Data as the model has them come about at theta, shape (batch, *data.shape), whatever was observed.

        NaN where the solve failed. With `sample_prior` these are draws of the joint distribution, which calibration
        needs; predictions of a posterior are those of `sample_noise`, where the data may inform about the noise.
        """
        generator("rng", rng)
        points, name = self._theta(theta), self._fidelity(fidelity)
        y = self.predict(points, name).reshape(len(points), -1)
        return self._bound.generate(rng, widened(self.prior, points), y).reshape(len(points), *self.data.shape)

    def log_likelihood(self, theta: npt.ArrayLike | Mapping[str, npt.ArrayLike], fidelity: str | None = None) -> Array:
        """Log-likelihood per datum, shape (batch, *data.shape).

        Minus infinity where the solve failed; 0 for data that are missing or that a coarse fidelity does not predict.
        Of data that depend on each other, that of each given all others: what cross-validation needs.
        """
        points, name = widened(self.prior, self._theta(theta)), self._fidelity(fidelity)
        posed = self._posed[name]
        value = posed.noise.log_likelihood(points, posed(points))
        return self._scatter(name, np.where(np.isnan(value), -np.inf, value), 0.0)

    def misfit(self, theta: npt.ArrayLike | Mapping[str, npt.ArrayLike], y: npt.ArrayLike) -> Array:
        """Minus the log-likelihood of all data, shape (batch,), where noise-free observations are given: no solve.

        Parameters
        ----------
        theta : array_like (batch, dimension) or mapping
            For what the noise takes from the parameters.
        y : array_like, shape (batch, *data.shape), or (batch, m) of all m data in a row
            Where it is NaN in all rows, the data are left out, as those that a coarse model does not predict.

        Raises
        ------
        ValueError
            If the shapes are others.
        """
        points = widened(self.prior, self._theta(theta))
        given = numbers("y", y)
        if given.shape not in ((len(points), *self._data_shape), (len(points), self._bound.outputs)):
            raise ValueError(f"y must have shape {(len(points), *self._data_shape)}, got {given.shape}")
        flat = given.reshape(len(points), -1)
        seen = ~np.isnan(flat).all(axis=0)
        bound = self._bound if seen.all() else self._bound.subset(np.flatnonzero(seen))
        value = np.zeros(len(points))
        with np.errstate(all="ignore"):
            bound.accumulate(points, np.array(flat[:, seen], dtype=float, order="C"), value, np.zeros(points.shape))
        return np.where(np.isnan(value), np.inf, -value)

    def log_density(
        self, theta: npt.ArrayLike | Mapping[str, npt.ArrayLike], fidelity: str | None = None
    ) -> tuple[Array, Array]:
        """Log density of theta, prior times likelihood, and its gradient: for other software.

        Parameters
        ----------
        theta : array_like (dimension,) or (batch, dimension), or mapping
            Natural parameters.
        fidelity : str, optional
            The finest by default.

        Returns
        -------
        value : ndarray, shape () or (batch,)
            Up to the constant of the evidence; minus infinity outside the domain, and where a solve fails.
        gradient : ndarray, shape (dimension,) or (batch, dimension)
            With respect to theta; 0 where the value is infinite.

        Raises
        ------
        ValueError
            If the shape is another one; if the prior of a parameter has ends that depend on others.
        """
        named = by_name(theta)
        points = numbers("theta", theta) if named is None else self.packed("theta", named)
        self._theta(points)
        posed = self._posed[self._fidelity(fidelity)]
        centered = Sampled.as_itself(self.prior)
        identity = Coordinates([Identity()] * self.dimension)
        domain = with_support(centered.base, identity, self.domain)
        potential = PosteriorPotential(centered, identity, domain, posed.model, posed.columns, posed.noise)
        return _value_and_gradient(potential, points)

    def log_density_at(self, position: npt.ArrayLike, fidelity: str | None = None) -> tuple[Array, Array]:
        """Log density of positions, with the Jacobian of `to_theta`, and its gradient: for samplers without bounds.

        As `log_density`, in the coordinates in which positive parameters are logarithms; `to_theta` leads back.
        """
        points = numbers("position", position)
        if points.ndim not in (1, 2) or points.shape[-1] != self.dimension:
            raise ValueError(f"position must have shape (..., {self.dimension}), got {points.shape}")
        return _value_and_gradient(self.potential(fidelity), points)

    def described(self) -> Plain:
        """Its parts and the data, by which a run that goes on recognizes it."""
        fixed = {name: value.tolist() for name, value in self.prior.fixed.items()}
        prior = dict(self.prior.distributions) | fixed | dict(self.prior.tied)
        parts: Plain = {"prior": prior, "noise": self.noise, "forward": self.forward}
        return parts if isinstance(self.noise, GivenLikelihood) else parts | {"data": self.data}

    def failure_message(self, fidelity: str | None = None) -> str | None:
        """Message of the last exception of a fidelity's model; None if there was none."""
        return self._posed[self._fidelity(fidelity)].model.message

    def model_mistake(self, fidelity: str | None = None) -> Exception | None:
        """Error to raise where a fidelity's model has raised at every call; None if it has returned once."""
        return self._posed[self._fidelity(fidelity)].mistake

    def check_gradient(
        self,
        theta: npt.ArrayLike | Mapping[str, npt.ArrayLike] | None = None,
        fidelity: str | None = None,
        seed: int = 0,
    ) -> GradientCheck:
        """Check of the energy's gradient at one theta, in a random direction; prints readably.

        The slope by the gradient is compared with central differences of the energy, as at the start of a run, but has
        to be exact to 1e-6. The direction is scaled by the prior's spread in each coordinate. Nothing is raised for a
        failing solve or a wrong gradient.

        Parameters
        ----------
        theta : array_like (dimension,) or mapping, optional
            Where; a prior draw by default.
        fidelity : str, optional
            The finest by default.
        seed : int
            Of the direction and the draw.
        """
        rng = np.random.default_rng(integer("seed", seed, least=0))
        draws = self.sample_start(rng, 200)
        # not the standard deviation: a Cauchy prior has none
        spread = np.diff(np.quantile(draws, (0.25, 0.75), axis=0), axis=0)[0]
        position = draws[0] if theta is None else self.to_position(self._theta(theta))[0]
        found = check_gradient(self.potential(fidelity), position, rng.standard_normal(self.dimension) * spread)
        reason = self.failure_message(fidelity)
        if reason is None or np.isfinite(found.differences).any():
            return found
        return replace(found, message=f"{found.message} ({reason})")

    def _fidelity(self, fidelity: str | None) -> str:
        if fidelity is None:
            return self.fidelities[-1]
        return str(one_of("fidelity", fidelity, self.fidelities))

    def _arranged(self, forward: object) -> int | tuple[int, ...] | None:
        """Shape of what a model predicts, arranged as the data are where it knows how."""
        found = getattr(forward, "output_shape", None) or ()
        if found[-1:] == (1,) and len(found) == self.data.ndim + 1:
            found = found[:-1]
        return tuple(found) if len(found) == self.data.ndim else getattr(forward, "n_observations", None)

    def _labels(self, data: object, shape: tuple[int, ...]) -> AxisLabels:
        model = self.forward[tuple(self.forward)[-1]]
        return data_labels(data, model, self.series, shape, self.prior.order) if self.predicts else {}

    def _observe(self, data: Array, *, unseen: bool = False) -> None:
        """Bind the noise to data."""
        self._data_shape = data.shape
        for name, model in self.forward.items():  # before the noise: of data that are not its own its messages mislead
            if getattr(model, "data_indices", None) is None:
                check_count(name, model, data.size, data.shape)
        self._bound = BoundNoise(self.noise, data, self.prior, unseen=unseen)

    def _noises(self) -> dict[str, tuple[BoundNoise, npt.NDArray[np.intp] | None]]:
        """Of the data that each model predicts."""
        return {name: noise_of(name, model, self._bound, self._data_shape) for name, model in self.forward.items()}

    def _with_databases(self, folder: Path, named: bool) -> Plain:
        """The models with their databases."""
        if not self.predicts:
            raise ValueError(f"simulations must be None beside a log_likelihood, which has no outputs, got {folder}")
        found = {}
        for name, model in self.forward.items():
            columns = input_shapes(name, model, self._noises()[name][0], self.prior)
            found[name] = stored(model, folder / name if named else folder, names=labels(columns))
        return found

    def _pose(self) -> None:
        """Guard the models, and find what each depends on."""
        noises = self._noises()
        self.fidelities = tuple(self.forward)
        if (seen := noises[self.fidelities[-1]][0].outputs) != self._bound.outputs:
            raise ValueError(f"the finest of forward must predict all {self._bound.outputs} data, got one for {seen}")
        shape = self._data_shape
        self._posed = {n: posed_model(n, model, noises[n], self.prior, shape) for n, model in self.forward.items()}

    def _warn_of_unused(self) -> None:
        """Of parameters that reach neither a model nor the noise nor the domain."""
        constrained = self.domain.constrains(self.dimension)
        noises, parents = self._noises(), self.prior.graph.parents
        reached = list(self._bound.names)
        for name, model in self.forward.items():
            reached += input_shapes(name, model, noises[name][0], self.prior)
        used: set[str] = set()
        while reached:  # with all that they depend on
            if (name := reached.pop()) not in used:
                used.add(name)
                reached += parents.get(name, ())
        unused = [name for name in self.names if name not in used and not constrained[self.prior.slices[name]].any()]
        if unused:
            warnings.warn(
                f"neither a model nor the noise uses {', '.join(map(repr, unused))}: the data do not inform "
                f"{('it' if len(unused) == 1 else 'them')}, and the posterior is the prior there",
                InvsampWarning,
                stacklevel=3,
            )

    def _warn_of_unbounded_density(self) -> None:
        """Of parameters that the domain constrains, and whose prior density grows without bound towards an end."""
        constrained, parents = self.domain.constrains(self.dimension), self.prior.graph.parents
        alone = {name: columns for name, columns in self.prior.slices.items() if not parents.get(name)}
        found = [
            name
            for name, columns in alone.items()
            if constrained[columns].any()
            and unbounded_density(self.prior.distributions[name])[constrained[columns]].any()
        ]
        if found:
            warnings.warn(
                f"the prior density of {', '.join(map(repr, found))} grows without bound towards an end, and the "
                "domain keeps it from being sampled as a logarithm or logit: chains hardly reach that end. Constrain "
                "a formula of a parameter of bounded density instead, as of its root",
                InvsampWarning,
                stacklevel=3,
            )

    def _scatter(self, fidelity: str, values: Array, missing: float) -> Array:
        """Values (batch, m) of the data that a fidelity predicts in the shape of all data."""
        full = self._posed[fidelity].scattered(values, self._bound.outputs, missing)
        return full.reshape(len(values), *self._data_shape)


def _value_and_gradient(potential: PosteriorPotential, points: Array) -> tuple[Array, Array]:
    """Log density and gradient of positions (d,) or (batch, d), of their leading shape."""
    energy, gradient = potential.energy_and_gradient(np.atleast_2d(points))
    return (-energy[0], -gradient[0]) if points.ndim == 1 else (-energy, -gradient)


def _refuse_missing(given: Facts) -> None:
    if missing := [name for name, value in given.items() if value is None]:
        raise ValueError(
            f"{missing[0]} must be given: a posterior has forward, data and noise, or else a log_likelihood, got None"
        )


def _refuse_beside_likelihood(given: Facts) -> None:
    for name, value in given.items():
        if value is not None:
            raise ValueError(f"{name} must be None beside a log_likelihood, which contains the data, got {value!r}")

"""The contracts between the parts: what a forward model, a potential and a problem must offer.

Shapes everywhere: a leading batch axis (chains, or any batch of parameter values), then the parameter
axis. ``theta`` holds natural parameters, as the user named them; ``position`` holds the coordinates in
which a sampler moves (log or logit of a parameter where the problem says so).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, NamedTuple, Protocol, TypeGuard, runtime_checkable

import numpy as np
import numpy.typing as npt

from invsamp.compiled_calls import CompiledRows

Array = npt.NDArray[np.float64]
#: Labels along each axis of an array, by the name of the axis and in the order of the axes.
AxisLabels = dict[str, list[Any]]
#: Of any type of numbers.
AnyArray = npt.NDArray[Any]
#: Values by name that are read as they come: reports, settings and saved states, mostly of types that JSON has.
Facts = Mapping[str, Any]
Plain = dict[str, Any]
#: ArviZ's or xarray's data; an object of h5py's; a tensor of PyTorch's, and whatever else is its: libraries that do not
#: declare their types.
InferenceData = Any
Hdf5 = Any
Tensor = Any
Torch = Any
#: Vector-Jacobian product: cotangent (batch, n_observations) -> (batch, n_parameters).
VectorJacobianProduct = Callable[[Array], Array]
#: Cotangent (batch, n_observations) that all parameters (batch, dimension) and observations (batch, n_observations)
#: give.
Cotangent = Callable[[Array, Array], Array]
#: Which gradients are wanted: none, that of the energy, or beside it that of the prior energy, apart; or a Gauss-Newton
#: matrix with it (`CurvedPotential`).
Gradients = bool | Literal["apart", "curved"]


@runtime_checkable
class ForwardModel(Protocol):
    """Map from parameters to noise-free observations, on a batch.

    A model may also carry these attributes, and the methods of `JacobianForwardModel` and `RowsForwardModel`:

    - ``parameters``, tuple of str: the names of the prior's parameters that make up its theta columns, in that order. A
      vector-valued parameter takes one column per entry.
    - ``sizes``: how many entries it takes of each of ``parameters``, checked against the prior.
    - ``cost``: seconds per evaluation.
    - ``work``: the work of a solve, counted and never timed, such as unknowns times steps, in a unit that all
      fidelities of a problem share.
    - ``n_observations`` and ``output_shape``: how many observations, and how they are arranged, such as (times,
      sensors). Both are checked against the data.
    - ``series``: names of the entries of the data's last axis, for figures.
    - ``times`` (of the first axis of ``output_shape``) and ``sensors``: for figures.
    - ``data_indices``, for a coarse model that predicts a part of the data: which, counted in C order.
    - ``message``: why the last row was not finite.
    - ``no_derivatives``: why `linearize` cannot work, or None.
    - ``derivative_error``: the largest relative error of its derivatives, compared with those of its values. Where it
      is missing they are exact, to rounding.
    - ``grids``, for parameters that are values at the nodes of a mesh: by name the digest of that mesh, checked against
      the fields of the prior.
    - ``function_calls``, a `FunctionCalls`, where a row takes several calls of a function.
    """

    def __call__(self, theta: Array) -> Array:
        """Observations, shape (batch, n_observations), at theta, shape (batch, n_parameters)."""

    def linearize(self, theta: Array) -> tuple[Array, VectorJacobianProduct]:
        """Observations and the vector-Jacobian product at theta.

        The product holds what it needs: it may be asked for after the model was linearized at another theta.
        """


@runtime_checkable
class JacobianForwardModel(ForwardModel, Protocol):
    """A forward model that returns its whole Jacobian."""

    def jacobian(self, theta: Array) -> tuple[Array, Array]:
        """Observations (batch, n_observations) and Jacobian (batch, n_observations, n_parameters)."""


#: Product of a Jacobian with k vectors at each point: directions (batch, k, n_parameters) -> (batch, k,
#: n_observations), or cotangents the other way.
JacobianProduct = Callable[[Array], Array]


@runtime_checkable
class TangentForwardModel(ForwardModel, Protocol):
    """A forward model that keeps what it solved by, for products of its Jacobian with many vectors."""

    def tangent(self, theta: Array) -> tuple[Array, JacobianProduct, JacobianProduct]:
        """Observations (batch, n_observations), the product with directions, and the product with cotangents.

        Both products take k vectors for each row of theta, and may be asked for after the model was solved elsewhere.
        """


@runtime_checkable
class RowByRow(Protocol):
    """A forward model that solves the rows of a batch one after the other: a row by itself costs no more."""

    @property
    def row_by_row(self) -> bool:
        """Whether it does."""


@runtime_checkable
class AnticipatingModel(ForwardModel, Protocol):
    """A forward model elsewhere, which need not wait to be asked for a product whose cotangent is known beforehand."""

    def linearize_towards(
        self, theta: Array, cotangent: Cotangent, parameters: Array
    ) -> tuple[Array, VectorJacobianProduct]:
        """As `linearize`; the product will be asked for ``cotangent(parameters, observations)``, to rounding.

        It has to be right for any other, too.
        """


@runtime_checkable
class CompilableModel(ForwardModel, Protocol):
    """A forward model with compiled functions of one row, so that compiled loops over steps can call it."""

    @property
    def compilation_obstacle(self) -> str | None:
        """Why it has none; None if it has."""

    def compiled_rows(self) -> CompiledRows:
        """Observations and products of their Jacobian, to the bit those of `linearize`; made anew at each call."""


@runtime_checkable
class RowsForwardModel(ForwardModel, Protocol):
    """A forward model whose observations can be evaluated one by one: a minibatch costs only its own data."""

    def rows(self, theta: Array, indices: npt.NDArray[np.intp]) -> tuple[Array, Array]:
        """Observations (batch, k) and Jacobian (batch, k, n_parameters) of the data ``indices`` (batch, k).

        Each row of theta has its own indices. A row whose evaluation fails is NaN in the observations asked
        for; what would fail elsewhere is not noticed.
        """


class FinishedRun(NamedTuple):
    """One simulation: outputs (m,), all finite, or why it failed."""

    row: int  # of theta
    outputs: Array | None
    failure: str | None
    seconds: float


@runtime_checkable
class RunsRows(Protocol):
    """A forward model that runs several rows of theta at the same time, and returns each as soon as it is finished."""

    def finished(self, theta: Array) -> Iterator[FinishedRun]:
        """The runs of all rows of theta (batch, p), in the order in which they are finished."""


@runtime_checkable
class Potential(Protocol):
    """Energy (negative log density up to a constant) of one fidelity, at positions (chains, dimension).

    A failed solve or zero density is ``energy = +inf`` with ``gradient = 0``; nothing is raised for it. A potential may
    carry ``derivative_error``, ``no_derivatives`` and ``function_calls``, as a forward model does, and
    ``single_precision``, a flag.
    """

    dimension: int

    def energy(self, position: Array) -> Array:
        """Energy, shape (chains,)."""

    def energy_and_gradient(self, position: Array) -> tuple[Array, Array]:
        """Energy (chains,) and its gradient (chains, dimension)."""


@runtime_checkable
class CompiledPotential(Potential, Protocol):
    """A potential that is a compiled function, so that whole stretches of steps can be made by compiled code."""

    def compiled_energy(self) -> Any:
        """An `invsamp.posing.compiled.energy_pointer.EnergySource`, or `NotCompiled` with the reason."""


def sums_groups(potential: TermwisePotential) -> TypeGuard[GroupwisePotential]:
    """Whether a potential with data terms sums groups of them itself; asked at each step."""
    return hasattr(potential, "group_terms")


def sums_batches(potential: Potential) -> TypeGuard[BatchPotential]:
    """Whether a potential with data terms sums the gradients of a batch itself; asked at each step."""
    return hasattr(potential, "batch_terms")


class Parts(NamedTuple):
    """The energy of a position, and how much of it is the prior's; the rest is the misfit.

    Where a solve failed, the energy is infinite and the prior's is not: beyond the data, nothing is wrong there. Where
    the prior has no density both are infinite, and nothing is solved.
    """

    energy: Array  # (chains,), of prior and misfit together
    gradient: Array | None  # (chains, dimension); None where it was not asked for
    prior: Array  # (chains,), with the log-Jacobian of the coordinates
    prior_gradient: Array | None  # (chains, dimension), where it was asked for


@runtime_checkable
class SplitPotential(Potential, Protocol):
    """A potential that gives prior energy and misfit separately, as tempering of the likelihood alone needs it."""

    def parts(self, position: Array, gradient: Gradients) -> Parts:
        """Energy and prior energy, and the gradients that are wanted."""


class Curved(NamedTuple):
    """Energies of positions with what a Newton step takes."""

    energy: Array  # (chains,)
    gradient: Array  # (chains, dimension)
    matrix: Array  # (chains, dimension, dimension), positive semidefinite; 0 where the energy is infinite
    prior: Array  # (chains,), as in `Parts`
    prior_gradient: Array  # (chains, dimension)
    prior_matrix: Array  # (chains, dimension), the diagonal of what the prior adds to the matrix


@runtime_checkable
class CurvedPotential(Potential, Protocol):
    """A potential that may give a Gauss-Newton matrix for about what its gradient takes."""

    @property
    def curved(self) -> bool:
        """Whether it does."""

    @property
    def bounded(self) -> bool:
        """Whether some unknowns end where their positions are infinite, as between the bounds of a logit."""

    def curvature(self, position: Array) -> Curved:
        """Energy, gradient, and a positive semidefinite matrix in the place of second derivatives."""


class Linearized(NamedTuple):
    """The energy at one position, with products of its misfit's Gauss-Newton matrix."""

    energy: float  # +inf where a solve failed
    gradient: Array  # (dimension,)
    product: Callable[[Array], Array]  # vectors (k, dimension) -> the matrix times each of them
    rows: Callable[[], Array]  # () -> R (m, dimension), the matrix being R^T R


@runtime_checkable
class TangentPotential(Potential, Protocol):
    """A potential of a forward model with tangents: a Gauss-Newton product takes solves with factors that are kept."""

    @property
    def tangents(self) -> bool:
        """Whether its model has them."""

    @property
    def rows(self) -> int:
        """Rows of the Gauss-Newton matrix's factor: data that are not missing, and unknowns of the noise."""

    def tangent(self, position: Array) -> Linearized:
        """Energy, gradient and products at one position (dimension,)."""


@runtime_checkable
class ObservingPotential(Potential, Protocol):
    """A potential of a forward model, which gives what that predicts."""

    def observations(self, position: Array) -> Array:
        """Predicted observations (chains, m); NaN where the solve failed."""


class ExpectedMisfit(NamedTuple):
    """The misfit that data have with the stated noise; see `invsamp.posing.noise.expected_misfit`."""

    data: int  # how many
    least: float  # misfit where the model predicts every datum exactly; the others are above it
    mean: float  # for one theta
    sd: float
    low: float  # a right model's mean over the posterior is below this, or above that, in one run of 1,000 at most
    high: float


@runtime_checkable
class NoisyPotential(SplitPotential, Protocol):
    """A potential of data that come with noise."""

    def expected_misfit(self) -> ExpectedMisfit | None:
        """The expected misfit of the data; None where the noise does not state it, or adapts to the data."""

    def residuals(self, position: Array) -> Array:
        """How far data are from what is predicted (chains, m), in sds of their noise; NaN where that says nothing."""


def derivative_error(part: object) -> float:
    """The relative error of its derivatives that a forward model or a potential admits; 0: none but rounding."""
    return float(getattr(part, "derivative_error", None) or 0.0)


class FunctionCalls(NamedTuple):
    """How often a model or potential calls the function that it is made of, for one row of theta.

    Finite differences call it at shifted points. Rows of a batch count one by one.
    """

    value: int = 1  # for observations or an energy
    linearized: int = 1  # with derivatives
    each_column: int = 0  # with derivatives: more, for each column of theta

    def at(self, columns: int) -> FunctionCalls:
        """The same for a known number of columns."""
        return FunctionCalls(self.value, self.linearized + self.each_column * columns)


def function_calls(part: object) -> FunctionCalls:
    """Calls of the function of a forward model or a potential; one call for each row if none are stated."""
    found = getattr(part, "function_calls", None)
    return found if isinstance(found, FunctionCalls) else FunctionCalls()


def single_precision(potential: object) -> bool:
    """Whether a potential says that its energies are in single precision."""
    return bool(getattr(potential, "single_precision", False))


def no_derivatives(part: object) -> str | None:
    """Why a forward model or a potential has no derivatives; None if it has."""
    reason: str | None = getattr(part, "no_derivatives", None)
    return reason


class Terms(NamedTuple):
    """Energy split into a part for the prior and a minibatch of data terms.

    The full energy is ``prior_energy`` plus the sum of all ``size`` data terms.
    """

    prior_energy: Array  # (chains,)
    prior_gradient: Array  # (chains, dimension)
    energies: Array  # (chains, batch)
    gradients: Array  # (chains, batch, dimension)


@runtime_checkable
class TermwisePotential(Potential, Protocol):
    """A potential whose data terms can be evaluated one by one, for minibatches."""

    size: int  # number of data terms

    def terms(self, position: Array, indices: npt.NDArray[np.intp]) -> Terms:
        """Terms at ``indices``, shape (chains, batch): each chain has its own minibatch."""


@runtime_checkable
class GroupwisePotential(TermwisePotential, Protocol):
    """A potential that sums the terms of groups itself, for less than it would cost to have them one by one."""

    def group_terms(self, position: Array, members: npt.NDArray[np.intp], counted: Array) -> Terms:
        """Sums over groups: ``members`` and ``counted``, shape (chains, groups, most), are the groups' data.

        Groups may differ in number: where ``counted`` is 0, the index in ``members`` stands for no datum, and is one
        that another entry of the group has. Elsewhere it is 1. The terms have shapes (chains, groups) and
        (chains, groups, dimension).
        """


class BatchTerms(NamedTuple):
    """Energies of a minibatch's data terms one by one, and the gradient of their sum, in new arrays."""

    prior_energy: Array  # (chains,)
    energies: Array  # (chains, batch)
    gradient: Array | None  # (chains, dimension), of prior energy and ``scale`` times the sum, where it was asked for
    prior_gradient: Array | None  # (chains, dimension), where it was asked for "apart"


@runtime_checkable
class BatchPotential(TermwisePotential, Protocol):
    """A potential that sums the gradients of a batch itself, as reverse-mode differentiation does.

    Of very many parameters a row of gradients for each datum would not fit into memory. It is asked for them by `terms`
    only where the variance of a gradient is wanted.
    """

    def batch_terms(
        self, position: Array, indices: npt.NDArray[np.intp], gradient: Gradients, scale: float
    ) -> BatchTerms:
        """Terms at ``indices``, shape (chains, batch): each chain has its own minibatch, which counts ``scale`` times.

        The position is the chains' own, and can only be read.
        """


@runtime_checkable
class SensitivePotential(TermwisePotential, Protocol):
    """A potential whose data terms are functions of one observation each, and which gives how these change."""

    def sensitivities(self, position: Array, indices: npt.NDArray[np.intp]) -> Terms:
        """Of the terms at ``indices`` (chains, batch) what makes their Gauss-Newton matrices.

        For energies the second derivative of each term in its observation, for gradients those of the observation.
        """


@runtime_checkable
class Coloring(Protocol):
    """A random field of n values given all that it depends on: what makes it of white noise."""

    def color(self, white: Array) -> Array:
        """Values (batch, n) of white coordinates (batch, n), which are independent and standard normal."""

    def whiten(self, values: Array) -> Array:
        """White coordinates (batch, n) of values (batch, n): the inverse of `color`."""

    def pullback(self, white: Array, cotangents: Array) -> tuple[Array, Array]:
        """Products of cotangents (batch, q, n) with the derivatives of `color` at white coordinates (batch, n).

        In the white coordinates, (batch, q, n), and in the k numbers that are unknown of the field, (batch, q, k).
        """

    def log_density(self, values: Array) -> tuple[Array, Array, Array]:
        """Log density (batch,) of values (batch, n), its gradient (batch, n), and that in what is unknown."""


@runtime_checkable
class RandomField(Protocol):
    """A vector that a prior samples as white noise, such as a field of `invsamp.solvers.fields` on its mesh.

    Any `Prior` takes one in the place of a distribution. Nothing in it need be Gaussian but the white coordinates. It
    may carry ``grid``, the digest of the mesh at whose nodes its values are.
    """

    @property
    def size(self) -> int:
        """Number of values n."""

    @property
    def names(self) -> tuple[str, ...]:
        """The unknowns of the field: names of positive numbers in the prior, or formulas of these, (k,)."""

    def coloring(self, values: Array) -> Coloring:
        """The field given the values (k,) of `names`."""


@runtime_checkable
class GaussianField(RandomField, Protocol):
    """A random field whose values are Gaussian, with means and sds that it knows."""

    @property
    def marginals(self) -> tuple[Array, Array] | None:
        """Mean and sd of each value, both (n,); None where they depend on what is unknown."""


class Reference(NamedTuple):
    """A Gaussian distribution of positions: mean (d,), and sds (d,) or a lower Cholesky factor (d, d).

    ``exact`` (d,) says in which positions the prior is this Gaussian; None: it is unknown.
    """

    mean: Array
    factor: Array
    exact: npt.NDArray[np.bool_] | None = None


@runtime_checkable
class GaussianReference(Protocol):
    """A problem with a Gaussian distribution of positions for proposals: the prior's, where that is Gaussian."""

    def reference(self) -> Reference:
        """That distribution, the same at each call."""


@runtime_checkable
class DrawablePrior(Protocol):
    """A problem whose prior can be drawn from."""

    def sample_prior(self, rng: np.random.Generator, n: int) -> Array:
        """Independent draws (n, dimension), as natural parameters, of the prior restricted to the domain."""


@runtime_checkable
class GaussianMarginals(Protocol):
    """A problem that knows the exact marginal distributions of Gaussian fields in its prior."""

    def gaussian_marginals(self) -> Mapping[str, tuple[Array, Array]]:
        """Prior mean and sd of each value, both (n,), by name of the field."""


@runtime_checkable
class KnownPrior(DrawablePrior, Protocol):
    """A problem whose prior's density is known too."""

    def packed(self, argument: str, values: Mapping[str, npt.ArrayLike]) -> Array:
        """Theta (..., dimension) from values by name; ``argument`` is what messages call them."""

    def log_prior(self, theta: Array) -> Array:
        """Log prior density (n,) of theta (n, dimension), without the domain; minus infinity outside the support."""

    def to_position(self, theta: Array) -> Array:
        """Positions at natural parameters."""

    def log_prior_at(self, position: Array) -> Array:
        """The same as a density of positions (n, dimension)."""


@runtime_checkable
class Centerable(Protocol):
    """A problem with parameters that depend on others, which may be sampled centered or not, each entry by itself."""

    @property
    def centering(self) -> Mapping[str, npt.NDArray[np.bool_]]:
        """Of those whose form a run chooses: which entries are centered in the present positions, in their shape."""

    @property
    def given_centering(self) -> Mapping[str, npt.NDArray[np.bool_]]:
        """The same of those whose form was given."""

    def with_centering(self, centered: Mapping[str, Array]) -> Any:
        """The same problem in positions in which these entries are centered."""

    def centering_at(self, position: Array, misfit_slope: Array, curvature: Array) -> Mapping[str, Array]:
        """Which entries are better centered, by the misfit's gradient (d,) and the energy's Hessian at a minimum."""


@runtime_checkable
class MayGuessStarts(Protocol):
    """A problem without a prior, whose starting points may be a guess."""

    @property
    def starts_guessed(self) -> bool:
        """Whether no one said where starting points may lie."""


@runtime_checkable
class StartsAround(Protocol):
    """A problem that finds starting points from points that are possible, where it finds none by itself."""

    def sample_inside(self, rng: np.random.Generator, n: int, positions: Array) -> Array:
        """``n`` positions inside the domain, by walks from some of ``positions`` (k, dimension)."""


@runtime_checkable
class RemovableDomain(Protocol):
    """A problem that can do without its domain, as boundaries other than reflection need it."""

    @property
    def domain(self) -> Any:
        """The part of the domain that can be left out: the domain without the prior's support."""

    def without_domain(self) -> Problem:
        """The same problem, in the same coordinates, without it."""


@runtime_checkable
class ExplainsFailures(Protocol):
    """A problem that knows what its failed solves said."""

    def failure_message(self, fidelity: str | None = None) -> str | None:
        """The message of the last failed solve of a fidelity; None if none failed."""

    def model_mistake(self, fidelity: str | None = None) -> Exception | None:
        """The error to raise if every call of a fidelity's model has raised; None if one has returned."""


@runtime_checkable
class HasModels(Protocol):
    """A problem with a forward model for each fidelity."""

    @property
    def forward(self) -> Mapping[str, ForwardModel]:
        """Forward models by fidelity."""


@runtime_checkable
class Observed(Protocol):
    """A problem with data."""

    @property
    def data(self) -> Array:
        """Observations, of any shape."""


@runtime_checkable
class NamesSeries(Protocol):
    """A problem that may know what its data are called."""

    @property
    def series(self) -> tuple[str, ...] | None:
        """Names of the entries of the data's last axis."""


@runtime_checkable
class KnowsAxes(Protocol):
    """A problem that may know what the axes of its data are."""

    @property
    def axes(self) -> Plain:
        """``members`` of a population, ``times``, whether they are of ``sensors``; each where it is known."""


@runtime_checkable
class LabelsAxes(Protocol):
    """A problem that may know names and labels of the axes of its data and parameters."""

    @property
    def axis_labels(self) -> Mapping[str, AxisLabels]:
        """By parameter, and of the data by ``"data"``: ArviZ's dimensions and coordinates."""


@runtime_checkable
class Limited(Protocol):
    """A problem that knows between which ends each parameter lies."""

    @property
    def limits(self) -> Mapping[str, tuple[Array, Array] | None]:
        """Lower and upper ends of the support by name; None of vectors whose entries constrain each other."""


@runtime_checkable
class Predicts(Protocol):
    """A problem that predicts what would be seen in place of its data."""

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """Name -> shape of every parameter."""

    def predict(self, theta: object, fidelity: str | None = None) -> Array:
        """Noise-free observations (batch, *data.shape)."""

    def sample_noise(self, rng: np.random.Generator, y: object, theta: object) -> Array:
        """Data with fresh noise around noise-free ``y``, of that shape."""


@runtime_checkable
class PointwiseLikelihood(Protocol):
    """A problem that gives the log likelihood of each datum."""

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """Name -> shape of every parameter."""

    def log_likelihood(self, theta: object, fidelity: str | None = None) -> Array:
        """Log likelihoods (batch, *data.shape)."""


@runtime_checkable
class Described(Protocol):
    """A problem that lists its parts, by which a run that goes on recognizes it."""

    def described(self) -> Facts:
        """Parts by name, with printable settings: "prior", "noise", "forward" (each may be a mapping), and "data"."""


@runtime_checkable
class SampledProblem(Protocol):
    """A problem as a boundary lets the sampler see it: other bounds, or other energies, in the same coordinates."""

    @property
    def sampling_domain(self) -> Any:
        """Domain of the positions (`invsamp.domains`)."""

    def potential(self, fidelity: str | None = None) -> Potential:
        """The potential of one fidelity, the finest by default."""


@runtime_checkable
class Problem(SampledProblem, Protocol):
    """The interface of a problem for samplers: `invsamp.Posterior`, or `invsamp.Target` for a density by itself.

    What else a problem may offer has protocols of its own: `DrawablePrior`, `KnownPrior`, `GaussianReference`,
    `StartsAround`, `RemovableDomain`, `ExplainsFailures`, `HasModels`, `Observed`, `NamesSeries`,
    `Predicts`, `Described`. Nothing beside these is asked of one.
    """

    @property
    def dimension(self) -> int:
        """Number of parameters."""

    @property
    def fidelities(self) -> tuple[str, ...]:
        """Names of the fidelities, from the coarsest to the finest."""

    @property
    def support(self) -> Any:
        """Domain of theta, for plots."""

    def sample_start(self, rng: np.random.Generator, n: int) -> Array:
        """``n`` starting positions inside the domain, shape (n, dimension)."""

    def to_theta(self, position: Array) -> Array:
        """Natural parameters (..., dimension) at positions (..., dimension)."""

    def to_position(self, theta: Array) -> Array:
        """Positions at natural parameters; inverse of `to_theta`."""

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """Name -> shape of every parameter, in the order of theta's columns."""

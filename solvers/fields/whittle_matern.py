"""Whittle-Matern fields on a mesh, by the stochastic partial differential equation that they solve."""

from __future__ import annotations

import hashlib
import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln

from invsamp.arguments import array, generator, integer, one_of, real, shown, text
from invsamp.solvers.fem.contract import Array
from invsamp.solvers.fem.foreign_mesh import as_mesh
from invsamp.solvers.fem.mesh import Mesh
from invsamp.solvers.fields.coloring import MaternColoring
from invsamp.solvers.fields.operator import ROBIN, Assembled, Power, fraction_of
from invsamp.solvers.foreign import Given

#: A fixed number, or the name of an unknown, or a formula of names.
Scale = float | str


def matern(
    mesh: Given,
    range: Scale,
    sd: Given = 1.0,
    smoothness: float = 1.0,
    *,
    mean: Given = 0.0,
    anisotropy: Given = None,
    boundary: str = "robin",
) -> MaternField:
    r"""Gaussian field with a Whittle-Matern covariance, by its values at the nodes of a mesh.

    The field u solves

    .. math:: (1 - \nabla\cdot(\ell^2 H \nabla))^{\alpha/2} (u - m) = s W, \qquad
              \ell = \frac{\text{range}}{\sqrt{8 \nu}}, \qquad \alpha = \nu + d / 2,

    with white noise W, in linear finite elements with lumped masses. The cost of a draw is that of solves with sparse
    factors.

    Parameters
    ----------
    mesh : Mesh, or a mesh of scikit-fem or dolfinx
        In one to three dimensions d. That of `extended` reaches beyond an equation's.
    range : float, > 0, or str
        Distance at which the correlation has fallen to about 0.14, in the unit of the mesh; twice the ``length`` of
        `invsamp.solvers.fem.random_fields.Matern`. A str names an unknown of the prior, or is a formula of names.
    sd : float, > 0, or str; or array (n,), or function of points (n, d)
        Standard deviation at a point. A str as for ``range``.
    smoothness : float in (0, 7]
        :math:`\nu`: the field is less than :math:`\nu` times differentiable. Where :math:`\alpha` is even, as for 1 in
        the plane, a draw takes :math:`\alpha / 2` solves. Otherwise a rational function takes ten more, with a relative
        error of the operator's power below 0.001.
    mean : float, array (n,) or function of points (n, d)
    anisotropy : array (d, d), or function of points (c, d) -> (c, d, d), optional
        The tensor H, symmetric and positive definite: the range along an eigenvector is ``range`` times the square root
        of its eigenvalue.
    boundary : {"robin", "neumann"}
        Condition at the boundary. Neumann's doubles the variance there, and multiplies it by four in corners of a
        square; Robin's keeps it within 15% of what it is inside. Where the range is known, either is then scaled at
        each node, so that the standard deviation there is ``sd`` exactly.

    Returns
    -------
    MaternField
        For `invsamp.Prior`, and for forward models by `invsamp.solvers.fields.Nodal`.

    Raises
    ------
    ValueError
        If an argument is not what it has to be, or the precision matrix is singular.

    Warns
    -----
    UserWarning
        If the range is below the mesh width: neighboring values are then nearly independent.

    References
    ----------
    Lindgren, Rue and Lindström (2011), Journal of the Royal Statistical Society B 73, 423-498, eq. (2) to (4), where
    kappa is :math:`1 / \ell`. Fractional powers as by Bolin and Kirchner (2020).

    Examples
    --------
    >>> import invsamp as iv
    >>> from invsamp.solvers import fields
    >>> from invsamp.solvers.fem.mesh import unit_square
    >>> mesh = unit_square(8)
    >>> prior = iv.Prior(u=fields.matern(mesh, range=0.4, sd=1.0))
    >>> log_conductivity = fields.Nodal("u", mesh)  # what an equation takes, as fields.LogField(log_conductivity)
    >>> prior.dimension
    81
    """
    mesh = as_mesh("mesh", mesh)
    size = len(mesh.points)
    nu = real("smoothness", smoothness, above=0, most=7)
    one_of("boundary", boundary, ("robin", "neumann"))
    names: dict[str, str] = {}
    if isinstance(range, str):
        names["range"] = text("range", range)
        known_range = math.nan
    else:
        known_range = real("range", range, above=0, also=", or the name of an unknown")
    if isinstance(sd, str):
        names["sd"] = text("sd", sd)
        spread: Array = np.ones(size)
    else:
        spread = _nodal("sd", sd, mesh)
        if not (spread > 0).all():
            raise ValueError(f"sd must be positive, got {spread.min():g}")
    tensor = _tensor(anisotropy, mesh)
    _warn_of_width(known_range, mesh)
    field = MaternField(mesh, known_range, spread, nu, _nodal("mean", mean, mesh), tensor, boundary, names)
    if "range" not in names and not field.at(**dict.fromkeys(names, 1.0)).power.good:
        raise ValueError(
            "range must give a precision matrix that is positive definite, got a singular one for range "
            f"{range!r} on {mesh!r}: check that its units are those of the mesh"
        )
    return field


@dataclass(frozen=True, eq=False, repr=False)
class MaternField:
    """A Gaussian field on a mesh; made by `matern`.

    What a prior needs of it is ``size``, ``names`` and `coloring`. In white coordinates it is N(0, I).

    Attributes
    ----------
    mesh : Mesh
    range : float
        NaN if it is unknown.
    sd, mean : ndarray, shape (n,)
        At the nodes; an unknown sd is a factor of ``sd``.
    smoothness : float
    tensor : ndarray, shape (c, d, d), or None
    boundary : str
    unknown : mapping from "range" or "sd" to name or formula
    """

    mesh: Mesh
    range: float
    sd: Array
    smoothness: float
    mean: Array
    tensor: Array | None
    boundary: str
    unknown: Mapping[str, str]

    def __repr__(self) -> str:
        sd = self.sd[0] if (self.sd == self.sd[0]).all() else "of the point"
        shown_range = self.unknown.get("range", f"{self.range:g}")
        shown_sd = self.unknown.get("sd", sd if isinstance(sd, str) else f"{sd:g}")
        return (
            f"matern({self.size} nodes, range={shown_range}, sd={shown_sd}, smoothness={self.smoothness:g}; "
            f"{self.digest[:8]})"
        )

    def __eq__(self, other: object) -> bool:
        return self.digest == other.digest if isinstance(other, MaternField) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.digest)

    def __getstate__(self) -> dict[str, object]:
        # the mesh, not its factors
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    @cached_property
    def digest(self) -> str:
        """Hash of mesh and settings: equal for equal fields."""
        found = hashlib.sha256(self.mesh.digest.encode())
        found.update(repr((self.range, self.smoothness, self.boundary, sorted(self.unknown.items()))).encode())
        for values in (self.sd, self.mean, self.tensor):
            found.update(b"none" if values is None else np.ascontiguousarray(values).tobytes())
        return found.hexdigest()

    @property
    def grid(self) -> str:
        """Digest of the mesh."""
        return self.mesh.digest

    @property
    def size(self) -> int:
        """Number of nodes n."""
        return len(self.mesh.points)

    @property
    def names(self) -> tuple[str, ...]:
        """Names or formulas of what is unknown of range and sd, in this order."""
        return tuple(self.unknown[key] for key in ("range", "sd") if key in self.unknown)

    def coloring(self, values: Array) -> MaternColoring:
        """The map from white noise to the field, given ``values`` (k,) of `names`; see `invsamp.protocols.Coloring`."""
        given = dict(zip((key for key in ("range", "sd") if key in self.unknown), map(float, values), strict=True))
        if "range" in given:
            return MaternColoring(self._power(given["range"]), self._scale(given["range"]), self, given)
        return MaternColoring(self._known[0], self._known[1], self, given)

    def at(self, **values: float) -> MaternColoring:
        """The field given values of what is unknown, by ``range=`` and ``sd=``.

        Raises
        ------
        ValueError
            If a value is missing, too many, or not positive.
        """
        if set(values) != set(self.unknown):
            raise ValueError(f"values must be given for {sorted(self.unknown) or 'nothing'}, got {sorted(values)}")
        return self.coloring(np.array([real(key, values[key], above=0) for key in ("range", "sd") if key in values]))

    def sample(self, rng: np.random.Generator, n: int, **values: float) -> Array:
        """``n`` independent draws, shape (n, size), given what is unknown as for `at`."""
        white = generator("rng", rng).standard_normal((integer("n", n, least=0), self.size))
        return self.at(**values).color(white)

    def log_density(self, field: npt.ArrayLike, **values: float) -> Array:
        """Log density of nodal values (batch, size), shape (batch,), given what is unknown as for `at`."""
        return self.at(**values).log_density(array("field", field, ("batch", self.size)))[0]

    def pointwise_sd(self, **values: float) -> Array:
        """Standard deviation at each node, (size,), given what is unknown as for `at`; by selected inverses."""
        coloring = self.at(**values)
        return coloring.scale * np.sqrt(coloring.power.variances()) / coloring.root

    @property
    def marginals(self) -> tuple[Array, Array] | None:
        """Mean and sd at each node, both (size,), as they were asked for; None where range or sd are unknown."""
        return None if self.unknown else (self.mean, self.sd)

    @property
    def alpha(self) -> float:
        """The power of the operator: smoothness + d / 2."""
        return self.smoothness + self.mesh.points.shape[1] / 2

    @cached_property
    def assembled(self) -> Assembled:
        """The operator's matrices."""
        return Assembled(self.mesh, self.tensor, ROBIN if self.boundary == "robin" else 0.0)

    @cached_property
    def _fraction(self) -> Given:
        # the poles must not depend on a range that is unknown
        widest = float(np.ptp(self.mesh.points, axis=0).max()) if "range" in self.unknown else self.range
        return fraction_of(self.alpha, self.assembled.largest(self._length(widest)))

    @cached_property
    def _known(self) -> tuple[Power, Array]:
        """The power and the scale of a known range, whose pointwise sd is exact."""
        power = self._power(self.range)
        sd = np.sqrt(power.variances()) / self.assembled.root if power.good else np.ones(self.size)
        return power, self.sd / sd

    def _power(self, of_range: float) -> Power:
        return Power(self.assembled, self._length(of_range), self.alpha, self._fraction)

    def _length(self, of_range: float) -> float:
        return of_range / math.sqrt(8.0 * self.smoothness)

    def _scale(self, of_range: float) -> Array:
        """Factor of S^(-alpha/2) C^(-1/2) w by which the field has sd 1 in all of space, times the sd given."""
        dimension = self.mesh.points.shape[1]
        half = 0.5 * (gammaln(self.alpha) - gammaln(self.smoothness)) + 0.25 * dimension * math.log(4.0 * math.pi)
        volume = np.ones(self.size) if self.tensor is None else self._root_volume
        with np.errstate(over="ignore"):
            return self.sd * volume * np.exp(half + 0.5 * dimension * math.log(self._length(of_range)))

    @cached_property
    def _root_volume(self) -> Array:
        """The fourth root of det H at the nodes: means over the cells around, by their size."""
        assert self.tensor is not None
        cells, volumes = self.mesh.cells, self.mesh.areas
        values = np.linalg.det(self.tensor) ** 0.25
        corners = cells.shape[1]
        weights = np.bincount(cells.ravel(), np.repeat(volumes, corners), self.size)
        return np.asarray(np.bincount(cells.ravel(), np.repeat(volumes * values, corners), self.size) / weights)


def _nodal(name: str, given: Given, mesh: Mesh) -> Array:
    """A number, an array or a function of points as values at the nodes."""
    values = given(mesh.points) if callable(given) else given
    found = array(name, values, also=f", of shape () or ({len(mesh.points)},), or a function of points")
    if found.shape not in ((), (len(mesh.points),)):
        raise ValueError(f"{name} must be a number or have shape ({len(mesh.points)},), got shape {found.shape}")
    return np.array(np.broadcast_to(found, (len(mesh.points),)))


def _tensor(given: Given, mesh: Mesh) -> Array | None:
    if given is None:
        return None
    cells, dimension = len(mesh.cells), mesh.points.shape[1]
    values = given(mesh.midpoints) if callable(given) else given
    found = array("anisotropy", values, also=", or a function of points")
    if found.shape not in ((dimension, dimension), (cells, dimension, dimension)):
        raise ValueError(
            f"anisotropy must have shape ({dimension}, {dimension}), or as a function of points (c, {dimension}) give "
            f"(c, {dimension}, {dimension}), got shape {found.shape}"
        )
    tensor = np.array(np.broadcast_to(found, (cells, dimension, dimension)))
    if not np.allclose(tensor, np.swapaxes(tensor, 1, 2), rtol=1e-10, atol=0.0):
        raise ValueError(f"anisotropy must be symmetric, got {shown(tensor[0])}")
    if not (np.linalg.eigvalsh(tensor)[:, 0] > 0).all():
        raise ValueError(
            f"anisotropy must be positive definite, got the eigenvalue {np.linalg.eigvalsh(tensor).min():g}"
        )
    return tensor


def _warn_of_width(known_range: float, mesh: Mesh) -> None:
    width = float((mesh.areas ** (1.0 / mesh.points.shape[1])).mean())
    if known_range < width:
        warnings.warn(
            f"range {known_range:g} is below the mesh width, {width:.3g}: neighboring values are nearly "
            "independent, and the field's covariance differs from the stated one; take a finer mesh, or a "
            "longer range",
            stacklevel=3,
        )

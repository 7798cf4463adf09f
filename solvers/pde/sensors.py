"""Observations of a state: its values at points, or functionals in UFL."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy.sparse as sparse

from invsamp.arguments import array, integer
from invsamp.solvers._dolfinx import cell_dofs, collapsed, compiled, is_mixed, load, sum_over_ranks
from invsamp.solvers.foreign import Form, Function, FunctionSpace, Given, Sparse
from invsamp.solvers.pde import access
from invsamp.solvers.pde.checks import check_form
from invsamp.solvers.pde.derivatives import depends_on, expand, partial, with_degrees
from invsamp.solvers.pde.unknowns import Unknowns

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Points:
    """Points, and which component of the state they see; made by `point_sensors`."""

    points: npt.ArrayLike
    component: tuple[int, ...] = ()


def point_sensors(points: npt.ArrayLike, component: int | Sequence[int] = ()) -> Points:
    """Sensors for one component of the state at points.

    Parameters
    ----------
    points : array_like, shape (n_sensors, dimension)
    component : int or sequence of int
        Which subspace of the state's space: 1 for the second function of a mixed element (or the second entry of a
        vector), (0, 1) for the second entry of the first function. Empty: the whole state.

    Raises
    ------
    ValueError
        If ``component`` is no such number.
    """
    path = component if isinstance(component, list | tuple) else (component,)
    also = ", or several of them"
    numbers = tuple(integer("component", number, least=0, also=also) for number in path)
    return Points(array("points", points, ("n_sensors", "dimension")), numbers)


class PointSensors:
    """Values of the state, or of one component, at points; all entries of a vector at the first point come first.

    Raises
    ------
    ValueError
        On every rank, if a point lies outside the mesh, or the state has no such component.
    """

    forms: tuple[Form, ...] = ()

    def __init__(self, state: Function, points: npt.ArrayLike, component: tuple[int, ...] = ()) -> None:
        space, positions = _component(state.function_space, component)
        dimension = space.mesh.geometry.dim
        where = array("sensors", points, finite=False, nan=True, empty=True).copy()
        if where.ndim != 2 or where.shape[1] != dimension or not len(where):
            raise ValueError(f"sensors must be points of shape (n_sensors, {dimension}), got {where.shape}")
        if not np.isfinite(where).all():
            raise ValueError(f"sensors must be finite, got {where[~np.isfinite(where).all(axis=1)][0].tolist()}")
        cells = access.owned_cells(space.mesh, where)
        seen = sum_over_ranks(space.mesh.comm, (cells >= 0).astype(float))
        if not seen.all():
            raise ValueError(f"sensors must lie in the mesh, got {where[seen == 0][0].tolist()}")
        self.points = where
        self._state = state
        self._work = load().fem.Function(state.function_space)
        self._matrix = _point_matrix(space, where, cells, positions, len(self._work.x.array))
        self._transposed = self._matrix.T.tocsr()
        self.count = self._matrix.shape[0]

    def values(self) -> Array:
        """This rank's points."""
        return self._matrix @ self._state.x.array

    def change(self, state: Array, functionals: Array) -> Array:
        """Changes of the values, from those of the state's local entries; they do not depend on the unknowns."""
        return self._matrix @ state

    def seed(self, weights: Array) -> Array:
        """The basis functions at the points, weighted."""
        self._work.x.array[:] = self._transposed @ weights
        return access.accumulate(self._work).copy()

    def add_gradient(self, gradient: Array, theta: Array, weights: Array) -> None:
        """Nothing: the points see the state alone."""


class FunctionalSensors:
    """Functionals of the state, UFL forms without test function such as ``u * dx(region)``.

    Raises
    ------
    ValueError
        If one is not a functional, or does not depend on the state.
    """

    def __init__(self, state: Function, functionals: Sequence[Form], unknowns: Unknowns) -> None:
        x = load()
        for number, form in enumerate(functionals):
            check_form(f"sensors[{number}]", form, state.function_space.mesh)
            if form.arguments():
                raise ValueError(f"sensors[{number}] must be a functional, without test and trial function, got {form}")
            if not depends_on(form, state):
                raise ValueError(f"sensors[{number}] must depend on the state, got a functional without it")
        self.forms = tuple(with_degrees(form) for form in functionals)
        self.count = len(self.forms)
        space = state.function_space
        self._unknowns = unknowns
        self._compiled = [compiled(form) for form in self.forms]
        self._weights = x.fem.Constant(space.mesh, np.zeros(self.count))
        weighted = self._weights[0] * self.forms[0]
        for number in range(1, self.count):
            weighted = weighted + self._weights[number] * self.forms[number]
        self._seed = compiled(expand(x.ufl.derivative(weighted, state, x.ufl.TestFunction(space))))
        self._work = x.fem.Function(space)
        self._partials = [partial(weighted, part.coefficient, space.mesh) for part in unknowns.parts]

    def values(self) -> Array:
        """This rank's parts of the integrals."""
        return np.array([float(load().fem.assemble_scalar(form)) for form in self._compiled])

    def change(self, state: Array, functionals: Array) -> Array:
        """Changes of the values: those of the functionals themselves."""
        return functionals

    def seed(self, weights: Array) -> Array:
        """The derivative of the weighted sum, assembled."""
        self._weights.value = weights
        return access.assemble_vector(self._seed, self._work).copy()

    def add_gradient(self, gradient: Array, theta: Array, weights: Array) -> None:
        """Where the functionals hold unknowns themselves."""
        self._weights.value = weights
        for part, found, where in self._direct():
            gradient[where] += part.pullback(theta[where], found.assemble())

    def _direct(self) -> Iterator[tuple[Form, Function, slice]]:
        for part, found, where in zip(self._unknowns.parts, self._partials, self._unknowns.slices, strict=True):
            if found is not None:
                yield part, found, where


class SensorGroups:
    """Sensors of several kinds, one group after the other."""

    def __init__(self, groups: Sequence[PointSensors | FunctionalSensors]) -> None:
        self._groups = tuple(groups)
        self.count = sum(group.count for group in groups)
        self.forms = tuple(form for group in groups for form in group.forms)
        self._ends = np.cumsum([group.count for group in groups])[:-1]

    def values(self) -> Array:
        """Those of all groups."""
        return np.concatenate([group.values() for group in self._groups])

    def change(self, state: Array, functionals: Array) -> Array:
        """Those of all groups, each of its own functionals."""
        own = np.split(functionals, np.cumsum([len(group.forms) for group in self._groups])[:-1])
        return np.concatenate([group.change(state, part) for group, part in zip(self._groups, own, strict=True)])

    def seed(self, weights: Array) -> Array:
        """The sum of the groups'."""
        parts = zip(self._groups, np.split(weights, self._ends), strict=True)
        return np.sum([group.seed(part) for group, part in parts], axis=0)

    def add_gradient(self, gradient: Array, theta: Array, weights: Array) -> None:
        """Each group adds its own."""
        for group, part in zip(self._groups, np.split(weights, self._ends), strict=True):
            group.add_gradient(gradient, theta, part)


Sensors = PointSensors | FunctionalSensors | SensorGroups


def make_sensors(sensors: Given, state: Function, unknowns: Unknowns) -> Sensors:
    """Sensors from points (n_sensors, dimension), from one functional, or from functionals and `point_sensors` mixed.

    Raises
    ------
    ValueError
        As `PointSensors` and `FunctionalSensors` do.
    """
    form = load().ufl.Form
    if isinstance(sensors, form | Points):
        sensors = [sensors]
    if not isinstance(sensors, Sequence) or not any(isinstance(one, form | Points) for one in sensors):
        return PointSensors(state, sensors)
    for number, one in enumerate(sensors):
        if not isinstance(one, form | Points):
            raise ValueError(f"sensors[{number}] must be a functional in UFL or point_sensors(...), got {one!r}")
    groups: list[PointSensors | FunctionalSensors] = []
    for kind, members in itertools.groupby(sensors, type):
        if kind is Points:
            groups.extend(PointSensors(state, one.points, one.component) for one in members)
        else:
            groups.append(FunctionalSensors(state, list(members), unknowns))
    return groups[0] if len(groups) == 1 else SensorGroups(groups)


def _component(space: FunctionSpace, component: tuple[int, ...]) -> tuple[FunctionSpace, npt.NDArray[np.intp] | None]:
    """The space of a component by itself, and where its entries stand among the state's; None for the whole state."""
    part = space
    for number in component:
        try:
            part = part.sub(number)
        except Exception as error:  # which one depends on the version
            raise ValueError(
                f"component must be one of the state's, whose space is {space}, got {component}"
            ) from error
    positions = None
    if component:
        part, positions = collapsed(part)
    if is_mixed(part):
        raise ValueError(
            "sensors at points see one function of a mixed element: write point_sensors(points, component=0), or a "
            "list of several"
        )
    return part, positions


def _point_matrix(
    space: FunctionSpace, points: Array, cells: npt.NDArray[np.intp], positions: npt.NDArray[np.intp] | None, width: int
) -> Sparse:
    """Matrix from the state's local entries (width) to the values at this rank's points.

    By evaluating one basis function at a time: the way to do so has not changed between versions, and it holds for
    every element.
    """
    function = load().fem.Function(space)
    block = int(space.dofmap.index_map_bs)
    table = cell_dofs(space)
    padded = np.zeros((len(points), 3))
    padded[:, : points.shape[1]] = points
    rows, columns, weights = [], [], []
    components = 0
    for row in np.flatnonzero(cells >= 0):
        for dof in (table[cells[row]][:, None] * block + np.arange(block)).ravel():
            function.x.array[dof] = 1.0
            value = np.ravel(function.eval(padded[row], cells[row]))
            function.x.array[dof] = 0.0
            components = len(value)
            seen = np.flatnonzero(value)
            rows.append(row * components + seen)
            columns.append(np.full(len(seen), dof if positions is None else positions[dof]))
            weights.append(value[seen])
    components = int(access.largest_over_ranks(space.mesh.comm, components))
    entries = [np.concatenate(part) if part else np.empty(0) for part in (weights, rows, columns)]
    shape = (len(points) * components, width)
    return sparse.csr_matrix((entries[0], (entries[1].astype(np.intp), entries[2].astype(np.intp))), shape=shape)

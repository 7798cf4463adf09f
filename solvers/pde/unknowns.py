"""The columns of theta: constants, functions by their values, and functions by a parametrized field."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from invsamp.solvers._dolfinx import collapsed, is_mixed, n_components, sum_over_ranks
from invsamp.solvers.fem.field_contract import Field, pushforward
from invsamp.solvers.foreign import Comm, Constant, Function, FunctionSpace
from invsamp.solvers.pde import access

Array = npt.NDArray[np.float64]


class ConstantValue:
    """The entries of a constant, in C order."""

    def __init__(self, name: str, constant: Constant) -> None:
        self.coefficient = constant
        self.names: tuple[str, ...] = (name,)
        self.sizes: tuple[int, ...] = (int(np.size(constant.value)),)

    def present(self) -> Array:
        """The entries that the constant has now."""
        return np.array(self.coefficient.value, dtype=float).ravel()

    def write(self, theta: Array) -> None:
        """Set the constant."""
        self.coefficient.value = theta.reshape(self.coefficient.value.shape)

    def push(self, theta: Array, direction: Array, into: Constant) -> None:
        """Set a constant to the direction."""
        into.value = direction.reshape(into.value.shape)

    def pullback(self, theta: Array, cotangent: Array) -> Array:
        """The cotangent itself."""
        return cotangent


class NodalValues:
    """A function's values at its points, in an order that does not depend on how the mesh is distributed.

    The points are ordered by their last coordinate, then the one before, so that x runs fastest; a vector's components
    stand together. Of a mixed element all values of the first function come first, then those of the second.
    """

    def __init__(self, name: str, function: Function) -> None:
        self.coefficient = function
        order = _columns_of(function.function_space)
        if order is None:
            raise ValueError(
                f"parameters[{name!r}] must be a function with one value at each of its points, such as DG0 or "
                f"continuous Lagrange, or a mixed one of these, got one of {function.function_space.ufl_element()}"
            )
        self._columns, count = order
        self._owned = access.owned_dofs(function.function_space)
        self.names: tuple[str, ...] = (name,)
        self.sizes: tuple[int, ...] = (count,)

    def present(self) -> Array:
        """The values that the function has now."""
        values = np.zeros(self.sizes[0])
        values[self._columns[: self._owned]] = self.coefficient.x.array[: self._owned]
        return sum_over_ranks(self.coefficient.function_space.mesh.comm, values)

    def write(self, theta: Array) -> None:
        """Set the function, its ghosts too."""
        self.coefficient.x.array[:] = theta[self._columns]

    def push(self, theta: Array, direction: Array, into: Function) -> None:
        """Set a function to the direction, its ghosts too."""
        into.x.array[:] = direction[self._columns]

    def pullback(self, theta: Array, cotangent: Array) -> Array:
        """The owned entries at their columns."""
        gradient = np.zeros(self.sizes[0])
        gradient[self._columns[: self._owned]] = cotangent
        return gradient


class FieldValues:
    """A function whose values at its points are those of a parametrized field."""

    def __init__(self, function: Function, field: Field) -> None:
        if not isinstance(field, Field):
            raise ValueError(f"fields must hold fields of invsamp.solvers.fem.fields, got {field!r}")
        space = function.function_space
        if space.dofmap.index_map_bs != 1:
            raise ValueError(
                f"fields must belong to scalar functions, got one of {space.dofmap.index_map_bs} components"
            )
        self.coefficient, self.field = function, field
        self.names, self.sizes = tuple(field.parameters), tuple(int(size) for size in field.sizes)
        points = access.dof_points(space)
        if points is None:
            raise ValueError(f"fields must belong to functions of values at points, got one of {space.ufl_element()}")
        self._everywhere = field.at(points)
        self._owned = field.at(points[: access.owned_dofs(space)])

    def present(self) -> Array:
        """Zeros: a field cannot be read back from its values."""
        return np.zeros(sum(self.sizes))

    def write(self, theta: Array) -> None:
        """Set the function, its ghosts too."""
        self.coefficient.x.array[:] = self._everywhere.values(theta[None])[0]

    def push(self, theta: Array, direction: Array, into: Function) -> None:
        """Set a function to the change of the field, its ghosts too."""
        into.x.array[:] = pushforward(self._everywhere, theta[None], direction[None])[0]

    def pullback(self, theta: Array, cotangent: Array) -> Array:
        """The field's own."""
        return self._owned.pullback(theta[None], cotangent[None])[0]


#: The unknowns behind one function or constant of the form.
Part = ConstantValue | NodalValues | FieldValues


class Unknowns:
    """All parts, in the order of theta's columns.

    Raises
    ------
    ValueError
        If nothing is unknown, a name occurs twice, or something is not a constant or function of dolfinx.
    """

    def __init__(self, parameters: Mapping[str, object] | None, fields: Mapping[object, Field] | None) -> None:
        parts: list[Part] = []
        for name, given in (("parameters", parameters), ("fields", fields)):
            if given is not None and not isinstance(given, Mapping):
                raise ValueError(f"{name} must be a mapping, from a name or a function, got {given!r}")
        for name, coefficient in (parameters or {}).items():
            if access.is_function(coefficient):
                parts.append(NodalValues(name, coefficient))
            elif access.is_constant(coefficient):
                parts.append(ConstantValue(name, coefficient))
            else:
                raise ValueError(
                    f"parameters[{name!r}] must be a dolfinx.fem.Constant or dolfinx.fem.Function, got {coefficient!r}"
                )
        for function, field in (fields or {}).items():
            if not access.is_function(function):
                raise ValueError(f"fields must map functions of dolfinx to fields, got the key {function!r}")
            parts.append(FieldValues(function, field))
        if not parts:
            raise ValueError("parameters and fields must name at least one unknown, got none")
        self.parts = tuple(parts)
        self.names = tuple(name for part in parts for name in part.names)
        self.sizes = tuple(size for part in parts for size in part.sizes)
        if len(set(self.names)) < len(self.names):
            raise ValueError(f"names of unknowns must be distinct, got {list(self.names)}")
        if len({id(part.coefficient) for part in parts}) < len(parts):
            raise ValueError("every function and constant can be one unknown only, got one of them twice")
        ends = np.cumsum([0] + [sum(part.sizes) for part in parts])
        self.slices = tuple(slice(int(a), int(b)) for a, b in itertools.pairwise(ends))
        self.dimension = int(ends[-1])
        #: The values that constants and functions had when the problem was made; zero for fields.
        self.reference = np.concatenate([part.present() for part in parts])

    def write(self, theta: Array) -> None:
        """Give all coefficients their values for theta (dimension,)."""
        for part, columns in zip(self.parts, self.slices, strict=True):
            part.write(theta[columns])


def _columns_of(space: FunctionSpace) -> tuple[npt.NDArray[np.intp], int] | None:
    """Columns of this rank's entries, ghosts too, and how many columns there are; None if points coincide."""
    if is_mixed(space):
        columns, first = np.zeros(0, dtype=np.intp), 0
        for number in range(n_components(space)):
            own, positions = collapsed(space.sub(number))
            if (found := _columns_of(own)) is None:
                return None
            columns = np.pad(columns, (0, max(0, int(positions.max(initial=-1)) + 1 - len(columns))))
            columns[positions] = first + found[0]
            first += found[1]
        return columns, first
    block = space.dofmap.index_map_bs
    points = access.dof_points(space)
    order = None if points is None else _common_order(space.mesh.comm, points, access.owned_dofs(space) // block)
    if order is None:
        return None
    return (order[0][:, None] * block + np.arange(block)).ravel(), order[1] * block


def _common_order(comm: Comm, points: Array, owned: int) -> tuple[npt.NDArray[np.intp], int] | None:
    """Numbers of this rank's points in the order of all points, and how many there are; None if any coincide."""
    everything = np.concatenate(comm.allgather(points[:owned]))
    extent = max(float(np.ptp(everything, axis=0).max(initial=0.0)), np.finfo(float).tiny)
    # points on different ranks differ by rounding; an odd unit, as mesh points sit on even ones, where that would show
    rounded = np.round(everything / (1.0372957e-9 * extent))
    own = np.round(points / (1.0372957e-9 * extent))
    distinct = np.unique(rounded[:, ::-1], axis=0)
    if len(distinct) < len(everything):
        return None
    ranks = {tuple(row): number for number, row in enumerate(distinct.tolist())}
    return np.array([ranks[tuple(row)] for row in own[:, ::-1].tolist()], dtype=np.intp), len(distinct)

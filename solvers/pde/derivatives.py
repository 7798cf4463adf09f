"""Derivatives of forms with respect to the unknowns, by UFL."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from invsamp.solvers._dolfinx import compiled, estimated_degree, load
from invsamp.solvers.foreign import Coefficient, Domain, Form, Vec
from invsamp.solvers.pde import access

Array = npt.NDArray[np.float64]


def depends_on(form: Form, coefficient: Coefficient) -> bool:
    """Whether a form, its derivatives carried out, still holds a function or constant."""
    return any(held is coefficient for held in (*form.coefficients(), *form.constants()))


def expand(form: Form) -> Form:
    """The form with its derivatives carried out; without integrals if nothing is left."""
    from ufl.algorithms import expand_derivatives

    return expand_derivatives(form)


def with_degrees(form: Form) -> Form:
    """The form with the degrees of quadrature that UFL estimates for it, which all that is derived from it then keeps.

    Left alone, UFL would estimate those of a derivative anew. Where it finds another degree, and the quadrature is not
    exact, the derivative is not that of the discrete problem. Degrees that a user set stay.
    """
    measures = [
        (one.ufl_domain(), one.integral_type(), str(one.subdomain_id()), id(one.subdomain_data()), repr(one.metadata()))
        for one in form.integrals()
    ]
    degrees: dict[Form, int] = {}
    for measure in dict.fromkeys(measures):
        # UFL adds up the integrands of one measure before it looks at them
        alike = [one for one, own in zip(form.integrals(), measures, strict=True) if own == measure]
        degrees[measure] = estimated_degree(load().ufl.Form(alike))
    return load().ufl.Form(
        [
            one.reconstruct(metadata={"quadrature_degree": degrees[measure]} | one.metadata())
            for one, measure in zip(form.integrals(), measures, strict=True)
        ]
    )


class Partial:
    """Derivative of a scalar form to one function or constant, at the values that its coefficients have.

    Made by `partial`.
    """

    def __init__(self, form: Form, direction: Coefficient, work: Vec) -> None:
        self._form = compiled(form)
        self._direction = direction  # of a constant: one entry at a time
        self._work = work  # of a function: what the derivative is assembled into

    def assemble(self) -> Array:
        """This rank's part: of a constant, shape (size,), a summand; of a function, its owned entries."""
        if self._work is not None:
            return access.assemble_vector(self._form, self._work).copy()
        direction = np.zeros(self._direction.value.shape)
        values = np.empty(direction.size)
        for k in range(direction.size):
            direction.flat[k] = 1.0
            self._direction.value = direction
            values[k] = float(load().fem.assemble_scalar(self._form))
            direction.flat[k] = 0.0
        return values


def partial(form: Form, coefficient: Coefficient, mesh: Domain) -> Partial | None:
    """The derivative of a scalar form to a function or a constant; None where it vanishes for all values."""
    found = differentiate(form, coefficient, mesh)
    if found is None:
        return None
    is_function = access.is_function(coefficient)
    return Partial(*found, load().fem.Function(coefficient.function_space) if is_function else None)


def differentiate(
    form: Form, coefficient: Coefficient, mesh: Domain, direction: Coefficient = None
) -> tuple[Form, Form] | None:
    """The derivative in UFL and the constant that is its direction (None for functions); None where it vanishes.

    It is along ``direction``, a function or constant like the coefficient. Without one it is a linear form for a
    function; for a constant, the derivative along a constant of its shape, which is made.
    """
    fem, ufl = load().fem, load().ufl
    if not depends_on(form, coefficient):
        return None
    if access.is_function(coefficient):
        along = ufl.TestFunction(coefficient.function_space) if direction is None else direction
        derivative = expand(ufl.derivative(form, coefficient, along))
        return (derivative, None) if derivative.integrals() else None
    # UFL differentiates to variables, not to constants: each entry becomes a variable
    indices = list(np.ndindex(coefficient.value.shape))
    variables = [ufl.variable(coefficient[index] if index else coefficient) for index in indices]
    varied = ufl.replace(form, {coefficient: _nested(variables, coefficient.value.shape)})
    direction = fem.Constant(mesh, np.zeros(coefficient.value.shape)) if direction is None else direction
    derivative = None
    for index, variable in zip(indices, variables, strict=True):
        term = (direction[index] if index else direction) * ufl.diff(varied, variable)
        derivative = term if derivative is None else derivative + term
    derivative = expand(derivative)
    return (derivative, direction) if derivative.integrals() else None


def _nested(entries: list[Form], shape: tuple[int, ...]) -> Form:
    if not shape:
        return entries[0]
    rows = np.empty(len(entries), dtype=object)
    rows[:] = entries
    return load().ufl.as_tensor(rows.reshape(shape).tolist())

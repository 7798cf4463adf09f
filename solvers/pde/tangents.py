r"""How states and observations change along directions of the unknowns.

Where F(u, m) vanishes, a change :math:`\delta m` changes the state by :math:`\delta u` with
:math:`(\partial F/\partial u)\, \delta u = -(\partial F/\partial m)\, \delta m`; in time, the change of the previous
state is one more term on the right. The matrix is that of the adjoint equation, untransposed. UFL gives the right-hand
side.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from invsamp.solvers._dolfinx import compiled, load
from invsamp.solvers.foreign import Coefficient, Form, Function
from invsamp.solvers.pde import access
from invsamp.solvers.pde.derivatives import differentiate, expand
from invsamp.solvers.pde.equation import Equation
from invsamp.solvers.pde.operator import Operator

Array = npt.NDArray[np.float64]


class Changes:
    """The directions, as functions and constants like those of the unknowns, and what they change.

    Parameters
    ----------
    equation : Equation
    previous : Function, optional
        The state at the last time.
    functionals : sequence of ufl.Form
        Functionals of the state and the unknowns.
    """

    def __init__(self, equation: Equation, previous: Function, functionals: tuple[Form, ...]) -> None:
        x = load()
        self._equation = equation
        space = equation.space
        self.directions = [_like(part.coefficient, space.mesh) for part in equation.unknowns.parts]
        #: Changes of the state, and of the one before.
        self.state, self.previous, self._boundary = (x.fem.Function(space) for _ in range(3))
        self._right = x.fem.Function(space)
        before = [] if previous is None else [(previous, self.previous)]
        lifted = [(equation.state, self._boundary)] if equation.has_unknown_boundary else []
        self._form = self._along(equation.residual, [*before, *lifted])
        self._functionals = [self._along(form, [(equation.state, self.state)]) for form in functionals]

    def _along(self, form: Form, also: list[tuple[Coefficient, Coefficient]]) -> Form:
        """The compiled derivative of a form along all directions, and some more; None where it vanishes."""
        found = None
        parts = [part.coefficient for part in self._equation.unknowns.parts]
        for coefficient, direction in [*zip(parts, self.directions, strict=True), *also]:
            term = differentiate(form, coefficient, self._equation.space.mesh, direction)
            if term is not None:
                found = term[0] if found is None else found + term[0]
        return None if found is None else compiled(expand(found))

    def point(self, theta: Array, direction: Array) -> None:
        """Let the directions be those of theta (dimension,) along ``direction`` (dimension,)."""
        unknowns = self._equation.unknowns
        for part, where, into in zip(unknowns.parts, unknowns.slices, self.directions, strict=True):
            part.push(theta[where], direction[where], into)

    def step(self, operator: Operator) -> bool:
        """Solve for the change of the state, where the equation holds; False if that failed."""
        equation, right = self._equation, self._right
        self._boundary.x.array[:] = 0.0
        equation.change_boundary(self.directions, self._boundary.x.array)
        self._boundary.x.scatter_forward()
        if not equation.ready(operator):
            return False
        if self._form is None:
            self.state.x.array[:] = self._boundary.x.array
            return True
        access.assemble_vector(self._form, right)[equation.fixed_owned] = 0.0
        if not operator.solve(access.vector(right), self.state, verified=True):
            return False
        self.state.x.array[:] = self._boundary.x.array - self.state.x.array
        return True

    def functionals(self) -> Array:
        """This rank's parts of the changes of the functionals."""
        return np.array(
            [0.0 if form is None else float(load().fem.assemble_scalar(form)) for form in self._functionals]
        )


def _like(coefficient: Coefficient, mesh: object) -> Coefficient:
    fem = load().fem
    if access.is_function(coefficient):
        return fem.Function(coefficient.function_space)
    return fem.Constant(mesh, np.zeros(coefficient.value.shape))

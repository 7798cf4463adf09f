"""Checks of a user's UFL before anything is compiled: the compiler's own messages name no cause."""

from __future__ import annotations

import numpy as np

from invsamp.arguments import sequence
from invsamp.solvers._dolfinx import load, restricts
from invsamp.solvers.foreign import DirichletBC, Domain, Form, Function
from invsamp.solvers.pde import access
from invsamp.solvers.pde.derivatives import depends_on, expand


def check_residual(residual: Form, state: Function, previous: object) -> None:
    """Raise ValueError unless the form is a residual of the state (and of the previous one, if any)."""
    check_state(state)
    check_form("residual", residual, state.function_space.mesh)
    arguments = residual.arguments()
    if len(arguments) != 1:
        raise ValueError(
            f"residual must hold one test function and no trial function, got {len(arguments)} arguments: write the "
            "state itself, a Function, where a bilinear form has its trial function"
        )
    if arguments[0].ufl_function_space() != state.function_space.ufl_function_space():
        raise ValueError("residual must be tested with functions of the state's space, got another space")
    _check_linear(residual, arguments)
    for name, function in (("state", state), ("previous", previous)):
        if function is not None and not depends_on(residual, function):
            raise ValueError(
                f"residual must depend on {name}, got one that does not hold it (the functions of a mixed element are "
                f"those of ufl.split({name}), not of {name}.split())"
            )


def check_state(state: object) -> None:
    """Raise ValueError unless it is a function of dolfinx."""
    if not access.is_function(state):
        raise ValueError(f"state must be a dolfinx.fem.Function, got {state!r}")


def check_form(name: str, form: object, mesh: object) -> None:
    """Raise ValueError unless it is a form on this mesh, all of whose functions and constants have values."""
    x = load()
    from ufl.corealg.traversal import traverse_unique_terminals

    if not isinstance(form, x.ufl.Form):
        raise ValueError(f"{name} must be a UFL form, got {type(form).__name__}")
    for integral in form.integrals():
        for held in traverse_unique_terminals(integral.integrand()):
            _check_terminal(name, held, mesh)


def check_boundary_conditions(boundary_conditions: object, space: object) -> tuple[DirichletBC, ...]:
    """The conditions as a tuple; ValueError unless they are Dirichlet conditions on the space or on parts of it."""
    conditions = sequence("boundary_conditions", boundary_conditions, "a sequence of DirichletBC", least=0)
    for number, bc in enumerate(conditions):
        if not hasattr(bc, "dof_indices"):
            raise ValueError(f"boundary_conditions[{number}] must be a DirichletBC, got {bc!r}")
        if not restricts(bc, space):
            raise ValueError(
                f"boundary_conditions[{number}] must be one of the state's space (the same object) or of a part of it, "
                "got one of another space"
            )
    return conditions


def _check_terminal(name: str, held: object, mesh: Domain) -> None:
    ufl = load().ufl
    if isinstance(held, ufl.Coefficient | ufl.Constant):
        if access.is_constant(held):
            kind = np.asarray(held.value).dtype
        elif access.is_function(held):
            kind = held.x.array.dtype
        else:
            raise ValueError(
                f"{name} must hold functions and constants of dolfinx.fem, which have values, got {held!r}"
            )
        if kind != np.float64:
            raise ValueError(
                f"{name} must hold real numbers of double precision, such as Constant(mesh, 2.0), got {held} of {kind}"
            )
    domain = ufl.domain.extract_unique_domain(held)
    if domain is not None and domain != mesh.ufl_domain():
        raise ValueError(f"{name} must hold functions and constants on the state's mesh, got {held} of another mesh")


def _check_linear(residual: object, arguments: object) -> None:
    from ufl.algorithms.check_arities import ArityMismatch, check_form_arity
    from ufl.algorithms.remove_complex_nodes import remove_complex_nodes

    try:
        check_form_arity(remove_complex_nodes(expand(residual)), arguments)
    except (Exception, ArityMismatch) as error:  # the latter is a BaseException since UFL 2023
        raise ValueError(f"residual must be linear in its test function, in every term: {error}") from error

"""Names for the types of libraries without annotations: for the reader, as they are not checked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

#: dolfinx: `mesh.Mesh`, `fem.FunctionSpace`, `fem.Function`, `fem.Constant`, `fem.DirichletBC`, a compiled `fem.Form`.
Domain = Any
FunctionSpace = Any
Function = Any
Constant = Any
DirichletBC = Any
Compiled = Any
#: UFL: a form or expression, and what it may depend on (a function or constant).
Form = Any
Coefficient = Any
#: petsc4py and mpi4py.
Vec = Any
Mat = Any
Solver = Any
Comm = Any
#: scipy.sparse, and meshio.
Sparse = Any
Read = Any
#: sympy and libsbml; what numba and llvmlite build code with (builders, types, values), and a function that numba has
#: compiled, which is not called as it is written.
Expression = Any
Sbml = Any
Llvm = Any
Jitted = Any
#: What a right-hand side computes with: numbers, arrays, expressions, nodes of a graph, and a function of (t, x, p).
Term = Any
OfState = Callable[[Term, Term, Term], Term]
#: Of any arguments.
Called = Callable[..., Any]
#: The result of a user's function before it is checked.
Given = Any

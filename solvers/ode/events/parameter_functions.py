"""Numbers that may depend on an ODE's parameters: times and amounts of doses, initial values."""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import numpy.typing as npt

from invsamp.arguments import function, real, wrong
from invsamp.solvers.foreign import Term
from invsamp.solvers.ode.codegen.importable_source import ELEMENTARY, of_source
from invsamp.solvers.ode.codegen.observable_functions import Function, StateFunction

Array = npt.NDArray[np.float64]
#: What a formula may be made of.
_NODES = (
    *(ast.Expression, ast.BinOp, ast.UnaryOp, ast.Call, ast.Name, ast.Load, ast.Constant),
    *(ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Pow, ast.USub, ast.UAdd),
)
#: A number, the name of a parameter or a formula of names, or a function of the sequence of the model's parameters.
Quantity = float | str | Callable[[Term], Term]


def shallow_quantity(name: str, value: object) -> Quantity:
    """Check a quantity before the parameters are known; `ValueError` for what is none for any."""
    if (isinstance(value, str) and value) or (callable(value) and not isinstance(value, type)):
        return cast(Quantity, value)
    return real(name, value, also=", the name of a parameter or a function of p")


def check_quantity(name: str, value: object, parameters: tuple[str, ...]) -> Quantity:
    """The quantity, if it is one; a function is called and differentiated once, so that a wrong one is reported.

    Raises
    ------
    ValueError
    """
    if isinstance(value, str):
        if value in parameters:
            return value
        if not is_formula(value):
            raise ValueError(
                f"{name} must be a number, one of the parameters {parameters}, a formula or a function of p, "
                f"got {value!r}"
            )
        value = formula(name, value, parameters)
    if callable(value):
        made = parameter_function(name, value, len(parameters))
        if made.n_outputs != 1:
            raise ValueError(f"{name} must return a number, got {made.n_outputs}")
        return value  # type: ignore[no-any-return]
    return real(name, value)


def is_formula(text: str) -> bool:
    """Whether a text is more than a name: an operation, or a function of something."""
    try:
        return isinstance(ast.parse(text, mode="eval").body, ast.BinOp | ast.UnaryOp | ast.Call)
    except SyntaxError:
        return False


def names_in(text: str) -> list[str]:
    """The name that a text is, or those that its formula reads, in their order."""
    if not is_formula(text):
        return [text]
    nodes = list(ast.walk(ast.parse(text, mode="eval")))
    called = [node.func for node in nodes if isinstance(node, ast.Call)]
    found = [node for node in nodes if isinstance(node, ast.Name) and node not in called]
    return [node.id for node in sorted(found, key=lambda node: (node.lineno, node.col_offset))]


@functools.lru_cache(maxsize=256)
def formula(name: str, text: str, parameters: tuple[str, ...]) -> Callable[[Term], Term]:
    """A formula of parameters as a function of p, the same one each time.

    Raises
    ------
    ValueError
        If it reads anything else.
    """
    tree = _checked(name, text, parameters, "parameters")
    places = "".join(f"{each} = p[{k}]; " for k, each in enumerate(parameters) if each in _names(tree))
    return cast(Callable[[Term], Term], of_source(f"def formula(p):\n    {places}return {ast.unparse(tree)}\n"))


def state_formulas(texts: Sequence[object], states: Sequence[str], parameters: Sequence[str]) -> Function:
    """Formulas of states, parameters and the time ``t``, by their names, as one function of (t, x, p).

    Raises
    ------
    ValueError
        If one is none, or reads anything else.
    """
    places = {"t": "t"} | {each: f"x[{k}]" for k, each in enumerate(states)}
    places |= {each: f"p[{k}]" for k, each in enumerate(parameters)}
    trees = []
    for k, text in enumerate(texts):
        if not isinstance(text, str):
            raise wrong(f"of[{k}]", "a formula of the model's names", text)
        trees.append(_checked(f"of[{k}]", text, tuple(places), "names"))
    used = [each for each in places if each in set().union(*map(_names, trees))]
    # at once, as a state may be called x
    assigned = f"{', '.join(used)}, = {', '.join(places[each] for each in used)},\n    " if used else ""
    values = ", ".join(map(ast.unparse, trees))
    return cast(Function, of_source(f"def formula(t, x, p):\n    {assigned}return ({values},)\n"))


def _checked(name: str, text: str, names: tuple[str, ...], what: str) -> ast.Expression:
    """A formula, if it is made of these names, numbers and elementary functions."""
    try:
        tree = ast.parse(text, mode="eval")
    except SyntaxError:
        raise wrong(name, f"a formula of the {what} {names}", text) from None
    called = {node.func for node in ast.walk(tree) if isinstance(node, ast.Call)}
    for node in ast.walk(tree):
        right = isinstance(node, _NODES)
        if isinstance(node, ast.Name):
            right = node.id in (ELEMENTARY if node in called else names)
        elif isinstance(node, ast.Constant):
            right = type(node.value) in (int, float)
        if not right or (isinstance(node, ast.Call) and node.keywords):
            advice = ""
            if isinstance(node, ast.Name) and node not in called:
                advice = f": {node.id} has to be one of the model's parameters="
            raise ValueError(
                f"{name} must be a formula of the {what} {names}, of numbers, + - * / ** and "
                f"{', '.join(ELEMENTARY)}, got {text!r}{advice}"
            )
    return tree


def _names(tree: ast.AST) -> set[str]:
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


def parameter_function(name: str, of_parameters: Callable[[Term], object], count: int) -> StateFunction:
    """A function ``f(p)`` of ``count`` parameters with its derivatives; one that returns a number has one output."""
    function(name, of_parameters, f"{name}(p)")
    if (key := (id(of_parameters), count)) in _FUNCTIONS:
        return _FUNCTIONS[key][1]

    def outputs(t: Term, x: Term, p: Term) -> Term:
        values = of_parameters(p)
        return values if hasattr(values, "__len__") else (values,)

    try:
        made = StateFunction(outputs, 0, count)
    except ValueError as error:
        raise ValueError(f"{name} must be a function of the {count} parameters p: {error}") from error
    object.__setattr__(made, "_origin", (parameter_function, (name, of_parameters, count)))
    _FUNCTIONS[key] = of_parameters, made
    return made


@dataclass(frozen=True, eq=False)
class Quantities:
    """Several quantities, evaluated for batches of parameters.

    Parameters
    ----------
    entries : sequence of Quantity
        Checked ones.
    parameters : tuple of str
    """

    entries: tuple[Quantity, ...]
    parameters: tuple[str, ...]

    def values(self, p: Array) -> Array:
        """Values (batch, entries) at parameters (batch, q)."""
        out = np.empty((len(p), len(self.entries)))
        for k, entry in enumerate(self.entries):
            if isinstance(entry, str):
                out[:, k] = p[:, self.parameters.index(entry)]
            elif callable(entry):
                out[:, k] = evaluate(self._function(entry), p)[:, 0]
            else:
                out[:, k] = entry
        return out

    def slopes(self, p: Array) -> Array:
        """Derivatives (batch, entries, q)."""
        out = np.zeros((len(p), len(self.entries), len(self.parameters)))
        for k, entry in enumerate(self.entries):
            if isinstance(entry, str):
                out[:, k, self.parameters.index(entry)] = 1.0
            elif callable(entry):
                out[:, k] = differentiate(self._function(entry), p)[:, 0]
        return out

    @property
    def parameters_read(self) -> frozenset[int]:
        """Parameters on which they may depend."""
        found = {self.parameters.index(entry) for entry in self.entries if isinstance(entry, str)}
        return frozenset(found).union(
            *(self._function(each).parameters_read for each in self.entries if callable(each))
        )

    def _function(self, entry: Callable[[Term], object]) -> StateFunction:
        return parameter_function("a function of p", entry, len(self.parameters))


#: Functions with their derivatives; the function itself is kept, so that its identity stays its own.
_FUNCTIONS: dict[tuple[int, int], tuple[object, StateFunction]] = {}


def evaluate(made: StateFunction, p: Array) -> Array:
    """Outputs (batch, n_outputs) of a function of parameters alone."""
    return made(np.zeros(1), np.empty((len(p), 1, 0)), p)[:, 0]


def differentiate(made: StateFunction, p: Array) -> Array:
    """Its derivatives (batch, n_outputs, q)."""
    if not p.shape[1]:
        return np.zeros((len(p), made.n_outputs, 0))
    return made.jacobians(np.zeros(1), np.empty((len(p), 1, 0)), p)[:, 0]

"""Inequalities between parameters by name, such as ``"sigma > 1 + beta"`` or ``"a * b < 1"``."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Union

import numpy as np

from invsamp import arguments
from invsamp.domains.contract import Domain
from invsamp.domains.formula_level import FormulaLevel
from invsamp.domains.half_spaces import HalfSpaces
from invsamp.domains.intersection import Intersection, intersect
from invsamp.domains.level_set import LevelSet
from invsamp.domains.product import Product
from invsamp.domains.unbounded import Unbounded
from invsamp.expression import entry_label

#: What problems take as ``domain=``.
DomainLike = Union[Domain, "Constraint", str, Sequence[Union[Domain, "Constraint", str]]]

WHAT = "a Domain, a constraint(...) or its text, or a sequence of these"
#: A linear expression: coefficients of labels, and the constant under "".
Linear = dict[str, float]


@dataclass(frozen=True)
class Constraint:
    """Inequalities between parameters; made by `constraint`, combined with ``&``.

    Attributes
    ----------
    texts : tuple of str
        As they were written.
    rows : tuple
        For each linear inequality the pairs of a label and its coefficient, and the offset: sum <= offset.
    levels : tuple of FormulaLevel
        One for each inequality that is not linear.
    """

    texts: tuple[str, ...]
    rows: tuple[tuple[tuple[tuple[str, float], ...], float], ...]
    levels: tuple[FormulaLevel, ...] = ()

    def __and__(self, other: Constraint) -> Constraint:
        """Both constraints; ValueError for a domain, as the columns of the names are not known yet."""
        if not isinstance(other, Constraint):
            raise ValueError(f"a constraint and a domain go together as a list, domain=[{self!r}, {other!r}]")
        return Constraint(self.texts + other.texts, self.rows + other.rows, self.levels + other.levels)

    def bind(self, columns: Mapping[str, tuple[int, ...]], dimension: int) -> Domain:
        """The domain in the columns of theta; `columns` maps every name and every label to its columns.

        Raises
        ------
        ValueError
            If a name is unknown, a vector is used without an index, or no point satisfies all linear inequalities.
        """
        parts: list[Domain] = [self._half_spaces(columns, dimension)] if self.rows else []
        for level in self.levels:
            curved = LevelSet(level, level.gradient, len(level.names))
            parts.append(Product({tuple(self._column(name, columns) for name in level.names): curved}))
        return reduce(intersect, parts)

    def _half_spaces(self, columns: Mapping[str, tuple[int, ...]], dimension: int) -> HalfSpaces:
        normals = np.zeros((len(self.rows), dimension))
        for row, (terms, _) in zip(normals, self.rows, strict=True):
            for label, coefficient in terms:
                row[self._column(label, columns)] += coefficient
        try:
            return HalfSpaces(normals, [offset for _, offset in self.rows])
        except ValueError:
            raise ValueError(f"constraint {self} must allow some parameters, but no parameters satisfy it") from None

    def _column(self, label: str, columns: Mapping[str, tuple[int, ...]]) -> int:
        if label not in columns:
            raise ValueError(f"constraint {self} names {label!r}, which is none of {list(columns)}")
        if len(columns[label]) != 1:
            raise ValueError(
                f"constraint {self} needs single numbers, but {label!r} has {len(columns[label])} entries: "
                f"write {label}[0] or another index"
            )
        return columns[label][0]

    def __str__(self) -> str:
        return " & ".join(map(repr, self.texts))

    def __repr__(self) -> str:
        return f"Constraint({self})"


def constraint(text: str) -> Constraint:
    """Inequalities between named parameters.

    Parameters
    ----------
    text : str
        Comparisons by ``<``, ``<=``, ``>``, ``>=``, in chains if wanted, of formulas: numbers, parameters,
        ``+ - * / **`` and ``exp log sqrt abs sin cos tanh``. An entry of a vector is ``k[0]``, of a matrix ``m[0, 1]``.
        ``<`` means ``<=``: the boundary has no probability. Linear comparisons become half-spaces, others a
        `LevelSet` of the difference of both sides, with exact derivatives. That difference must be continuous where
        moves go: write ``"a < b * c"`` instead of ``"a / b < c"`` if b may be zero.

    Raises
    ------
    ValueError
        If the text is not a comparison of such formulas, or is an equality.

    Examples
    --------
    >>> import invsamp as iv
    >>> iv.constraint("sigma > 1 + beta") & iv.constraint("0 < rho < 2 * (sigma - 1)")
    Constraint('sigma > 1 + beta' & '0 < rho < 2 * (sigma - 1)')
    >>> posterior_domain = [iv.constraint("a * b < 1"), "a**2 + b**2 < 4"]
    """
    try:
        tree = ast.parse(arguments.text("text", text).strip(), mode="eval").body
    except SyntaxError as error:
        raise ValueError(f"text must be a comparison such as 'sigma > 1 + beta', got {text!r}: {error}") from None
    if not isinstance(tree, ast.Compare):
        raise ValueError(f"text must be a comparison such as 'sigma > 1 + beta', got {text!r}")
    sides = [tree.left, *tree.comparators]
    rows, levels = [], []
    for left, comparison, right in zip(sides, tree.ops, sides[1:], strict=False):
        if isinstance(comparison, ast.Eq | ast.NotEq):
            raise ValueError(
                f"constraint must be an inequality, got {text!r}: what satisfies an equality has no volume to sample "
                "in. Express one parameter by the others in the forward model instead"
            )
        if not isinstance(comparison, ast.Lt | ast.LtE | ast.Gt | ast.GtE):
            raise ValueError(f"constraint must compare by <, <=, > or >=, got {text!r}")
        less, more = (left, right) if isinstance(comparison, ast.Lt | ast.LtE) else (right, left)
        try:
            rows.append(_row(_sum(_linear(less), _linear(more), -1.0), text))
        except _NotLinearError:
            levels.append(FormulaLevel(ast.unparse(less), ast.unparse(more)))
            if not levels[-1].names:
                raise ValueError(f"constraint must depend on a parameter, got {text!r}") from None
    return Constraint((text.strip(),), tuple(rows), tuple(levels))


def bound_domain(domain: DomainLike | None, columns: Mapping[str, tuple[int, ...]], dimension: int) -> Domain:
    """The domain of theta that an argument ``domain=`` means; `columns` maps names and labels to columns.

    Raises
    ------
    ValueError
        If it is none, a name is unknown, the dimension does not fit, or nothing is left.
    """
    if domain is None:
        return Unbounded()
    if isinstance(domain, str):
        domain = _read(domain)
    if isinstance(domain, list | tuple):
        parts = [_read(part) if isinstance(part, str) else part for part in domain]
        # together, so that the message for an empty set repeats the texts
        written = [part for part in parts if isinstance(part, Constraint)]
        together = [reduce(Constraint.__and__, written)] if written else []
        others = [part for part in parts if not isinstance(part, Constraint)]
        bound = [bound_domain(part, columns, dimension) for part in (*together, *others)]
        return reduce(intersect, bound) if bound else Unbounded()
    if isinstance(domain, Constraint):
        return domain.bind(columns, dimension)
    if isinstance(domain, Product) and not domain.bound:
        domain = domain.bind(columns)
    elif isinstance(domain, Intersection):
        return bound_domain(domain.parts, columns, dimension)
    whole: Domain = arguments.instance("domain", domain, Domain, WHAT)
    whole.check_dimension(dimension)
    return whole


def _read(text: str) -> Constraint:
    try:
        return constraint(text)
    except ValueError as error:
        raise ValueError(f"domain must be {WHAT}, got {text!r}: {error}") from None


def named_columns(shapes: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
    """Columns of every name, and of every entry of a vector by its label, such as ``"k[0]"``."""
    columns: dict[str, tuple[int, ...]] = {}
    start = 0
    for name, shape in shapes.items():
        size = int(np.prod(shape))
        columns[name] = tuple(range(start, start + size))
        for k, index in enumerate(np.ndindex(shape) if shape else ()):
            columns[f"{name}[{', '.join(map(str, index))}]"] = (start + k,)
        start += size
    return columns


class _NotLinearError(Exception):
    """An expression is not linear in the parameters."""


def _row(difference: Linear, text: str) -> tuple[tuple[tuple[str, float], ...], float]:
    """Coefficients by label, and the offset, of the inequality difference <= 0."""
    offset = -difference.pop("", 0.0)
    terms = tuple((label, value) for label, value in difference.items() if value != 0.0)
    if not terms:
        raise ValueError(f"constraint must depend on a parameter, got {text!r}")
    if not np.isfinite([offset, *(value for _, value in terms)]).all():
        raise ValueError(f"constraint must have finite coefficients, got {text!r}")
    return terms, offset


def _linear(node: ast.expr) -> Linear:
    """The linear expression that a syntax tree means."""
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(node.value, bool):
        return {"": float(node.value)}
    if isinstance(node, ast.Name):
        return {node.id: 1.0}
    if (label := entry_label(node)) is not None:
        return {label: 1.0}
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
        return _sum({}, _linear(node.operand), -1.0 if isinstance(node.op, ast.USub) else 1.0)
    if isinstance(node, ast.BinOp):
        left, right = _linear(node.left), _linear(node.right)
        if isinstance(node.op, ast.Add | ast.Sub):
            return _sum(left, right, 1.0 if isinstance(node.op, ast.Add) else -1.0)
        if isinstance(node.op, ast.Mult):
            for factor, other in ((left, right), (right, left)):
                if not factor.keys() - {""}:
                    return _sum({}, other, factor.get("", 0.0))
        if isinstance(node.op, ast.Div) and not right.keys() - {""}:
            if right.get("", 0.0) == 0.0:
                raise ValueError(f"constraint must not divide by zero, got {ast.unparse(node)!r}")
            return _sum({}, left, 1.0 / right[""])
    raise _NotLinearError


def _sum(a: Linear, b: Linear, factor: float) -> Linear:
    total = dict(a)
    for label, value in b.items():
        total[label] = total.get(label, 0.0) + factor * value
    return total

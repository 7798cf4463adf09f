r"""Steps of an explicit pair with a traced right-hand side in them, as machine code.

`invsamp.solvers.ode.integrators.explicit_rk` calls a right-hand side by its address, once a stage, and keeps all
stages in memory. With few components that takes longer than the sums. Here a step is one function without loops.
Sensitivities are vectors over their columns, which share the entries of the Jacobian in
:math:`S' = (\partial f / \partial x) S + \partial f / \partial p`. Operations and their order are the same, and so are
the numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from llvmlite import ir
from numba.extending import intrinsic

from invsamp.solvers.foreign import Jitted, Llvm
from invsamp.solvers.ode.codegen.compile_cache import Compiled, compiled, digest
from invsamp.solvers.ode.codegen.compile_rhs import key_of
from invsamp.solvers.ode.codegen.llvm import operation
from invsamp.solvers.ode.codegen.numpy_substitutes import Rhs
from invsamp.solvers.ode.codegen.operation_graph import Traced, operands_of, reachable, trace_graph
from invsamp.solvers.ode.integrators.explicit_rk import Row, Tableau
from invsamp.solvers.ode.integrators.tableau_dormand_prince import TABLES
from invsamp.solvers.ode.integrators.whole_step import ARGUMENTS, ATTEMPT, STEP, WRITE

_DOUBLE, _SIZE, _INDEX = ir.DoubleType(), ir.IntType(64), ir.IntType(32)
#: Components of a vector.
_LANES = 4
#: Vectors whose outputs are written in one loop over the times, with their coefficients in registers.
_AT_ONCE = 3
#: A step with more operations is left to loops.
_MOST_OPERATIONS = 1000
#: Of each component of a trajectory, or vector of them, a value.
Values = list[Llvm]


@lru_cache(maxsize=256)
def prepare_steps(rhs: Rhs, n: int, q: int, columns: int, own: tuple[int, ...], pair: str) -> Compiled | None:
    """Compile a pair's `STEP` for states and ``columns`` of sensitivities, the first of them to ``own``.

    None where a right-hand side does not trace, or a step has too many operations.
    """
    table = TABLES[pair]()
    try:
        count = _count(trace_graph(rhs, n, q), n, columns, table)
    except ValueError:
        return None
    if count > _MOST_OPERATIONS:
        return None

    def typed(
        typingctx: Llvm, kind: Llvm, first: Llvm, last: Llvm, t: Llvm, h: Llvm, lower: Llvm, upper: Llvm,
        rtol: Llvm, weight: Llvm, y: Llvm, p: Llvm, absolute: Llvm, k: Llvm, z: Llvm, kept: Llvm, times: Llvm,
        out: Llvm,
    ) -> Llvm:  # fmt: skip
        def codegen(context: Llvm, builder: Llvm, signature: Llvm, values: Llvm) -> Llvm:
            kind = ir.FunctionType(_DOUBLE, [value.type for value in values])
            function = ir.Function(builder.module, kind, builder.module.get_unique_name("step"))
            function.linkage = "internal"
            _Writer(function, _Plan(trace_graph(rhs, n, q), n, columns, own), table).write()
            return builder.call(function, values)

        return STEP, codegen

    names = ", ".join(ARGUMENTS)
    operations: Jitted = intrinsic(typed)
    key = key_of(f"{pair}{columns}_of_{own}_{digest(repr(table), str(STEP))}", rhs, n, q)
    source = f"def evaluate({names}):\n    return operations({names})\n"
    return compiled(source, pair, key=key, scope={"operations": operations}, signature=STEP)


class Item(NamedTuple):
    """A state, or one state's sensitivities to some columns."""

    state: int
    columns: tuple[int, ...]  # none for a state itself
    places: tuple[int, ...]  # among all components


class _Plan(NamedTuple):
    traced: Traced
    n: int
    columns: int
    own: tuple[int, ...]

    @property
    def items(self) -> list[Item]:
        """All components, states first."""
        chunks = [range(c, min(c + _LANES, self.columns)) for c in range(0, self.columns, _LANES)]
        n = self.n
        vectors = [Item(i, (*c,), tuple(n + k * n + i for k in c)) for c in chunks for i in range(n)]
        return [Item(i, (), (i,)) for i in range(n)] + vectors

    @property
    def wanted(self) -> list[int]:
        """Nodes of the right-hand side and of its derivatives."""
        slopes = (self.traced.by_states, self.traced.by_parameters) if self.columns else ()
        return [*self.traced.outputs, *(node for each in slopes for node in each.nodes)]


def _count(traced: Traced, n: int, columns: int, table: Tableau) -> int:
    """Operations of a step, and of its interpolant."""
    plan = _Plan(traced, n, columns, ())
    rhs = len(reachable(traced.graph, plan.wanted)) + -(-columns // _LANES) * 2 * len(traced.by_states.nodes)
    rows = [*table.stages, *table.extra_stages, *table.errors, *table.interpolant]
    calls = len(table.stages) + len(table.extra_stages)
    return calls * rhs + 2 * len(plan.items) * sum(map(len, rows))


class _Writer:
    """Writes the function: from one component after the other, as every sum is of one component."""

    def __init__(self, function: Llvm, plan: _Plan, table: Tableau) -> None:
        self.function, self.plan, self.table = function, plan, table
        self.arguments = dict(zip(ARGUMENTS, function.args, strict=True))
        for argument in function.args:
            if argument.type.is_pointer:
                argument.add_attribute("noalias")
        self.builder = ir.IRBuilder(function.append_basic_block("entry"))
        self.items, self.m = plan.items, plan.n * (1 + plan.columns)
        self.last = len(table.stages) - 1
        graph, self.moving = plan.traced.graph, set[int]()
        self.nodes = reachable(graph, plan.wanted)
        for k in self.nodes:
            if graph.rows[k][0] in ("t", "y") or any(j in self.moving for j in operands_of(graph.rows[k])):
                self.moving.add(k)

    def write(self) -> None:
        b, kind = self.builder, self.arguments["kind"]
        blocks = [self.function.append_basic_block(name) for name in ("attempt", "outputs", "unpack")]
        switch = b.switch(kind, blocks[2])
        switch.add_case(_SIZE(ATTEMPT), blocks[0])
        switch.add_case(_SIZE(WRITE), blocks[1])
        for block, body in zip(blocks, (self._attempt, self._outputs, self._unpack), strict=True):
            b.position_at_end(block)
            self.fixed: dict[int, Llvm] = {}
            b.ret(body())

    def _attempt(self) -> Llvm:
        """The stages to ``kept``, the end of the step to z, the slope there to k, and the error in tolerances."""
        y = self._all("y")
        stages = {0: self._all("k")}
        z = y
        for s in range(1, self.last + 1):
            z = self._sums(self.table.stages[s], stages, y)
            stages[s] = self._slopes(self.table.nodes[s], z)
        for item, value, slope in zip(self.items, z, stages[self.last], strict=True):
            self._scatter(value, "z", item.places)
            self._scatter(slope, "k", [self.last * self.m + place for place in item.places])
        for s, slopes in stages.items():
            for pointer, value in zip(self._kept(s), slopes, strict=True):
                self.builder.store(value, pointer).align = 8
        return self._error(y, z, stages)

    def _outputs(self) -> Llvm:
        """The interpolant at output times."""
        table = self.table
        used = {s for row in (*table.interpolant, *table.extra_stages) for s in row if s <= self.last}
        stages = {s: [self._aligned(pointer) for pointer in self._kept(s)] for s in sorted(used)}
        y = self._all("y")
        for s, (node, row) in enumerate(zip(table.extra_nodes, table.extra_stages, strict=True), start=self.last + 1):
            stages[s] = self._slopes(node, self._sums(row, stages, y))
        coefficients = [self._flat(y), *(self._flat(self._sums(row, stages)) for row in table.interpolant)]
        per_length = self.builder.fdiv(_DOUBLE(1.0), self.arguments["h"])
        for first in range(0, len(coefficients[0]), _AT_ONCE):
            self._write_some([each[first : first + _AT_ONCE] for each in coefficients], first * _LANES, per_length)
        return _DOUBLE(0.0)

    def _unpack(self) -> Llvm:
        """The stages between the first and the last one to k."""
        b, kept = self.builder, [place for item in self.items for place in item.places]
        before, body, after = (
            b.block,
            self.function.append_basic_block("stage"),
            self.function.append_basic_block("end"),
        )
        b.branch(body)
        b.position_at_end(body)
        s = b.phi(_SIZE)
        s.add_incoming(_SIZE(1), before)
        source, target = (b.gep(self.arguments[name], [b.mul(s, _SIZE(self.m))]) for name in ("kept", "k"))
        for number, place in enumerate(kept):
            b.store(b.load(b.gep(source, [_SIZE(number)])), b.gep(target, [_SIZE(place)]))
        following = b.add(s, _SIZE(1))
        s.add_incoming(following, body)
        b.cbranch(b.icmp_signed("<", following, _SIZE(self.last)), body, after)
        b.position_at_end(after)
        return _DOUBLE(0.0)

    def _sums(self, row: Row, stages: Mapping[int, Values], base: Values | None = None) -> Values:
        """``base + h sum_s row[s] stages[s]``, in the order of `invsamp.solvers.ode.integrators.stage_programs`."""
        b, sums = self.builder, []
        for place in range(len(self.items)):
            total = None
            for s, weight in row.items():
                stage = stages[s][place]
                term = b.fmul(self._spread(_DOUBLE(weight), stage), stage)
                total = term if total is None else b.fadd(total, term)
            total = b.fmul(self._spread(self.arguments["h"], total), total)
            sums.append(total if base is None else b.fadd(base[place], total))
        return sums

    def _slopes(self, node: float, states: Values) -> Values:
        """The right-hand side at t + node h, within its bounds, and its derivatives times sensitivities."""
        b, graph, plan = self.builder, self.plan.traced.graph, self.plan
        lower, upper = self.arguments["lower"], self.arguments["upper"]
        time = b.fadd(self.arguments["t"], b.fmul(_DOUBLE(node), self.arguments["h"]))
        time = b.select(b.fcmp_ordered("<", time, lower), lower, time)
        time = b.select(b.fcmp_ordered(">", time, upper), upper, time)
        found = self.fixed  # what neither moves nor depends on states is computed once
        for k in self.nodes:
            name, *operands = graph.rows[k]
            if k in found and k not in self.moving:
                continue
            if name == "constant":
                found[k] = _DOUBLE(operands[0])
            elif name == "t":
                found[k] = time
            elif name == "y":
                found[k] = states[operands[0]]
            elif name == "p":
                found[k] = b.load(self._at("p", operands[0]))
            else:
                found[k] = operation(b, name, [found[j] for j in operands])
        slopes = [found[node] for node in plan.traced.outputs]
        by = {(item.state, item.columns): value for item, value in zip(self.items, states, strict=True)}
        for item in self.items[plan.n :]:
            total = None
            for i, j, node in zip(*plan.traced.by_states, strict=True):
                if i == item.state:
                    other = by[j, item.columns]
                    term = b.fmul(self._spread(found[node], other), other)
                    total = term if total is None else b.fadd(term, total)
            by_own = {j: node for i, j, node in zip(*plan.traced.by_parameters, strict=True) if i == item.state}
            nodes = [by_own.get(plan.own[c]) if c < len(plan.own) else None for c in item.columns]
            if total is None or any(node is not None for node in nodes):
                # -0 changes no number that it is added to
                zero = _DOUBLE(0.0 if total is None else -0.0)
                more = self._joined([zero if node is None else found[node] for node in nodes])
                total = more if total is None else b.fadd(more, total)
            slopes.append(total)
        return slopes

    def _error(self, y: Values, z: Values, stages: Mapping[int, Values]) -> Llvm:
        """As `invsamp.solvers.ode.integrators.explicit_rk.error_norm`; infinite where anything is not finite."""
        b, n = self.builder, self.plan.n
        infinity, largest, good = _DOUBLE(float("inf")), _DOUBLE(0.0), None
        scales = []
        for item, old, new in zip(self.items, y, z, strict=True):
            old, new = self._absolute(old), self._absolute(new)
            most = b.select(b.fcmp_ordered(">", new, old), new, old)
            absolute = self._gather("absolute", item.places)
            scales.append(b.fadd(absolute, b.fmul(self._spread(self.arguments["rtol"], most), most)))
        squares = []
        for row in self.table.errors:
            parts = [b.fdiv(error, scale) for error, scale in zip(self._sums(row, stages), scales, strict=True)]
            squares.append([b.fmul(part, part) for part in parts])
        for first in range(0, len(self.items), n):
            blocks = []
            for each in squares:
                total = each[first]
                for part in each[first + 1 : first + n]:
                    total = b.fadd(total, part)
                blocks.append(total)
            lanes = [self._lanes(block) for block in blocks]
            for total, *others in zip(*lanes, strict=True):
                for each in (total, *others):
                    finite = b.fcmp_ordered("<", each, infinity)
                    good = finite if good is None else b.and_(good, finite)
                for other in others:
                    both = b.fadd(total, b.fmul(_DOUBLE(0.01), other))
                    smaller = b.fmul(total, b.fdiv(total, both))
                    total = b.select(b.fcmp_ordered(">", total, _DOUBLE(0.0)), smaller, total)
                if first > 0:
                    weight = self.arguments["weight"]
                    total = b.fmul(total, b.fmul(weight, weight))
                largest = b.select(b.fcmp_ordered(">", total, largest), total, largest)
        size = operation(b, "sqrt", [b.fdiv(largest, _DOUBLE(float(n)))])
        return b.select(good, size, infinity)

    def _write_some(self, coefficients: list[Values], place: int, per_length: Llvm) -> None:
        """Components from ``place`` on at all times, from the coefficients of all powers of x from 0 on."""
        b, argument = self.builder, self.arguments
        before = b.block
        head, inside, after = (self.function.append_basic_block(name) for name in ("times", "time", "written"))
        b.branch(head)
        b.position_at_end(head)
        j = b.phi(_SIZE)
        j.add_incoming(argument["first"], before)
        b.cbranch(b.icmp_signed("<", j, argument["last"]), inside, after)
        b.position_at_end(inside)
        x = b.fmul(b.fsub(b.load(b.gep(argument["times"], [j])), argument["t"]), per_length)
        row = b.gep(argument["out"], [b.mul(j, _SIZE(self.m))])
        for number in range(len(coefficients[0])):
            constant, *others = (each[number] for each in coefficients)
            by, value = self._spread(x, constant), others[-1]
            for coefficient in (*others[-2::-1], constant):
                value = b.fadd(coefficient, b.fmul(by, value))
            target = b.gep(row, [_SIZE(place + number * _LANES)])
            b.store(value, b.bitcast(target, value.type.as_pointer())).align = 8
        j.add_incoming(b.add(j, _SIZE(1)), b.block)
        b.branch(head)
        b.position_at_end(after)

    def _flat(self, values: Values) -> Values:
        """The same in vectors of neighbors."""
        entries: dict[int, Llvm] = {}
        for item, value in zip(self.items, values, strict=True):
            entries.update(zip(item.places, self._lanes(value), strict=True))
        chunks = [range(c, min(c + _LANES, self.m)) for c in range(0, self.m, _LANES)]
        return [self._joined([entries[place] for place in chunk]) for chunk in chunks]

    def _kept(self, stage: int) -> list[Llvm]:
        """Pointers to the components of a stage."""
        pointers, place = [], stage * self.m
        for item in self.items:
            kind = _kind(len(item.places))
            pointers.append(self.builder.bitcast(self._at("kept", place), kind.as_pointer()))
            place += len(item.places)
        return pointers

    def _aligned(self, pointer: Llvm) -> Llvm:
        found = self.builder.load(pointer)
        found.align = 8
        return found

    def _all(self, name: str) -> Values:
        return [self._gather(name, item.places) for item in self.items]

    def _gather(self, name: str, places: Sequence[int]) -> Llvm:
        return self._joined([self.builder.load(self._at(name, place)) for place in places])

    def _scatter(self, value: Llvm, name: str, places: Sequence[int]) -> None:
        for place, entry in zip(places, self._lanes(value), strict=True):
            self.builder.store(entry, self._at(name, place))

    def _at(self, name: str, place: int) -> Llvm:
        return self.builder.gep(self.arguments[name], [_SIZE(place)])

    def _joined(self, entries: Sequence[Llvm]) -> Llvm:
        """A vector of scalars, or the only one."""
        if len(entries) == 1:
            return entries[0]
        value = ir.Constant(_kind(len(entries)), ir.Undefined)
        for lane, entry in enumerate(entries):
            value = self.builder.insert_element(value, entry, _INDEX(lane))
        return value

    def _lanes(self, value: Llvm) -> list[Llvm]:
        """The scalars of a vector, or of one."""
        if not isinstance(value.type, ir.VectorType):
            return [value]
        return [self.builder.extract_element(value, _INDEX(lane)) for lane in range(value.type.count)]

    def _spread(self, value: Llvm, like: Llvm) -> Llvm:
        """A scalar as often as another value has lanes."""
        if not isinstance(like.type, ir.VectorType):
            return value
        undefined, count = ir.Constant(like.type, ir.Undefined), like.type.count
        one = self.builder.insert_element(undefined, value, _INDEX(0))
        return self.builder.shuffle_vector(one, undefined, ir.Constant(ir.VectorType(_INDEX, count), [0] * count))

    def _absolute(self, value: Llvm) -> Llvm:
        vector = isinstance(value.type, ir.VectorType)
        name = f"llvm.fabs.v{value.type.count}f64" if vector else "llvm.fabs.f64"
        module = self.builder.module
        known = module.globals.get(name) or ir.Function(module, ir.FunctionType(value.type, [value.type]), name)
        return self.builder.call(known, [value])


def _kind(width: int) -> Llvm:
    return _DOUBLE if width == 1 else ir.VectorType(_DOUBLE, width)

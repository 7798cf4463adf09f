"""Calls with wrong arguments: values that can be right for no argument of a kind, and what a call makes of them.

A call is a valid one with one argument replaced. Its annotation says what an argument may be. So a
value is put in its place only if it is certainly wrong: 2.7 for a count, "no" for a flag, a prior for a sampler.
"""

from __future__ import annotations

import inspect
import re
import signal
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import invsamp as iv

#: A call that goes on for longer hangs: seconds of the processor, and of the clock where it waits.
SECONDS, WAITING = 5.0, 60.0
#: What an annotation allows, by the beginnings of its alternatives; everything else is a part, an object of some class.
KINDS = {
    "bool": {"flag"},
    "int": {"integer"},
    "float": {"integer", "real"},
    "StepSizes": {"integer", "real", "function", "none", "entries"},
    "StandardDeviation": {"integer", "real", "function"},
    "str": {"text"},
    "Unknown": {"integer", "real", "text"},
    "None": {"none"},
    "Callable": {"function"},
    "Function": {"function"},
    "Rhs": {"function"},
    "Jacobian": {"function"},
    "Schedule": {"function"},
    "Array": {"integer", "real", "numbers"},
    "npt.ArrayLike": {"integer", "real", "numbers"},
    "BoolArray": {"mask"},
    "Mapping": {"mapping"},
    "Sequence": {"entries"},
    "Iterable": {"entries"},
    "tuple": {"entries"},
}
#: Arguments of which a negative number may be right.
SIGNED = {
    *("mean", "lower", "upper", "log_mean", "location", "x", "center", "center", "offsets", "normals", "vertices"),
    *("value", "flux", "data", "theta", "position", "positions", "move", "draws", "reference", "start", "values"),
    *("thetas", "times", "states", "initial", "observed", "points", "truth", "grid", "edges", "height", "matrix"),
    *("t0", "breakpoints", "gradient", "exponent", "thetas", "y", "parameters", "continuity", "bounds", "holes"),
    *("conductivity", "source", "modes", "offset", "log_density", "derivatives", "starts", "unobserved", "mean"),
    *("log_weight", "prior", "covariance", "when", "until", "coordinates", "x_label", "boundary", "elsewhere", "begin"),
    *("level", "sensors"),
}
#: Arguments that may be infinite.
UNBOUNDED = {"lower", "upper", "bounds", "factor"}


#: Arguments that may hold NaN, where something can be said of it: no density, no solution.
WITH_NAN = {"x", "theta", "position", "thetas", "grid", "density"}


@dataclass(frozen=True)
class Junk:
    """A value, made anew for each call, and the kinds of arguments for which it may be right."""

    make: Callable[[], Any]
    right_for: frozenset[str]


def junk(*right_for: str) -> Callable[[Callable[[], Any]], Junk]:
    return lambda make: Junk(make, frozenset(right_for))


#: Wrong for every argument, in whatever it stands.
NEVER: tuple[Callable[[], Any], ...] = (
    lambda: 1j,
    object,
    lambda: {1, 2},
    lambda: b"ab",
    lambda: np.datetime64("2020-01-01"),
    lambda: slice(3),
    lambda: ...,
    lambda: np.ma.masked,
    lambda: Exception("no argument"),
)
VALUES: tuple[Junk, ...] = (
    *(junk()(make) for make in NEVER),
    junk("with nan")(lambda: np.nan),
    junk("with nan")(lambda: [np.nan]),
    junk("text")(lambda: "no"),
    junk("text")(lambda: "False"),
    junk("text")(lambda: "3"),
    junk()(lambda: ""),
    junk("none")(lambda: None),
    junk("flag")(lambda: True),
    junk("flag")(lambda: np.False_),
    junk("integer")(lambda: 1),
    junk("signed")(lambda: -1),
    junk("signed")(lambda: -0.5),
    junk("real", "numbers")(lambda: 2.7),
    junk("real", "numbers")(lambda: 2.0),
    junk("unbounded")(lambda: np.inf),
    junk("empty")(list),
    junk("empty")(tuple),
    junk("empty", "empty mapping")(dict),
    junk("mapping")(lambda: {"no such name": 1.0}),
    junk("function")(lambda: lambda: None),
    junk("function")(lambda: iv.estimators.exact),
    junk("function")(lambda: iv.Normal),
    junk("distribution")(lambda: iv.Normal(0.0, 1.0)),
    junk()(lambda: [[1.0], [2.0, 3.0]]),
    junk("repeated")(lambda: ["a", "a"]),
    junk("entries")(lambda: np.array(["a", "b"])),
    junk()(lambda: np.array([1.0, 1j])),
    junk("missing")(lambda: np.ma.array([1.0, 2.0], mask=[False, True])),
    junk("empty")(lambda: np.zeros((2, 0))),
    junk("any shape")(lambda: np.zeros((1, 2, 1, 2, 1))),
    junk()(lambda: iter([1.0])),
)


@dataclass(frozen=True)
class Call:
    """A valid call of a public name; ``kinds`` are those of arguments without a clear annotation."""

    function: Callable[..., Any]
    arguments: Mapping[str, Any] = field(default_factory=dict)
    kinds: Mapping[str, set[str]] = field(default_factory=dict)

    def __call__(self, **changed: Any) -> Any:
        return self.function(**{**self.arguments, **changed})

    def parameters(self) -> dict[str, set[str]]:
        """Name -> kinds of every argument."""
        found = {}
        for name, parameter in inspect.signature(self.function).parameters.items():
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                continue
            kinds = set(self.kinds.get(name) or kinds_of(parameter.annotation))
            if parameter.default is None:
                kinds.add("none")
            if kinds & {"integer", "real", "numbers"}:
                kinds |= {"signed"} if name in SIGNED else set()
                kinds |= {"unbounded"} if name in UNBOUNDED else set()
                kinds |= {"with nan"} if name in WITH_NAN else set()
            found[name] = kinds
        return found


@dataclass(frozen=True)
class Outcome:
    """What became of a wrong call."""

    call: str
    argument: str
    value: str
    answer: str  # "named", "from inside", "accepted" or "hangs"
    message: str = ""

    def __str__(self) -> str:
        return f"{self.call}({self.argument}={self.value}): {self.answer} {self.message}"


def kinds_of(annotation: Any) -> set[str]:
    """Kinds of arguments that an annotation allows."""
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))
    kinds: set[str] = set()
    for alternative in _alternatives(text):
        kinds |= KINDS.get(re.split(r"[\[(]", alternative)[0].strip(), {"part"})
    return kinds


def wrong_calls(calls: Mapping[str, Call], seed: int) -> Iterator[tuple[str, str, Junk | Callable[[], Any]]]:
    """Endless calls that are wrong for certain: of what, which argument, and the value that it gets."""
    rng = np.random.default_rng(seed)
    listed = [(name, parameters) for name, call in calls.items() if (parameters := call.parameters())]
    while True:
        name, parameters = listed[rng.integers(len(listed))]
        argument = list(parameters)[rng.integers(len(parameters))]
        if "everything" in parameters[argument]:
            continue
        if rng.random() < 0.2:
            how = int(rng.integers(2 if "mapping" in parameters[argument] else 3))
            yield name, argument, _wrapped(NEVER[rng.integers(len(NEVER))], how)
            continue
        value = VALUES[rng.integers(len(VALUES))]
        if not value.right_for & parameters[argument]:
            yield name, argument, value.make


def outcome(name: str, call: Call, argument: str, make: Callable[[], Any]) -> Outcome:
    """Make the call, and judge the answer."""
    value = make()
    shown = _shown(value)
    try:
        with deadline(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            call(**{argument: value})
    except Hanging:
        return Outcome(name, argument, shown, "hangs")
    except Exception as error:
        named = isinstance(error, ValueError | TypeError) and names(str(error), argument)
        return Outcome(name, argument, shown, "named" if named else "from inside", f"{type(error).__name__}: {error}")
    return Outcome(name, argument, shown, "accepted")


def names(message: str, argument: str) -> bool:
    """Whether a message is about the argument: a word that is also English counts only as the subject."""
    if len(argument) > 2:
        return re.search(rf"(?<![\w]){re.escape(argument)}(?!\w)", message) is not None
    return re.search(rf"(?<![\w]){re.escape(argument)}(\[[^]]*\])? must", message) is not None


class Hanging(BaseException):
    """Raised in a call that does not end."""


class deadline:
    """Raises `Hanging` in what it encloses when its time is up."""

    def __enter__(self) -> None:
        self._before = {s: signal.signal(s, _hang) for s in (signal.SIGVTALRM, signal.SIGALRM)}
        signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
        signal.setitimer(signal.ITIMER_REAL, WAITING)

    def __exit__(self, *_: object) -> None:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        for number, handler in self._before.items():
            signal.signal(number, handler)


def _hang(*_: object) -> None:
    raise Hanging


def _wrapped(make: Callable[[], Any], how: int) -> Callable[[], Any]:
    """Something that holds a value which is wrong wherever it stands."""
    if how == 0:
        return lambda: [make()]
    if how == 1:
        return lambda: (1.0, make())
    return lambda: {"no such name": make()}


def _alternatives(annotation: str) -> list[str]:
    """What stands between the bars that are in no brackets."""
    parts, depth = [""], 0
    for letter in annotation:
        depth += (letter in "[(") - (letter in "])")
        if letter == "|" and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts]


def _shown(value: Any) -> str:
    return " ".join(repr(value).split())[:60]

"""Names of fidelities, which a mapping has from the coarsest to the finest: the last one's posterior is sampled."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Iterable, Mapping
from itertools import pairwise

from invsamp.arguments import mapping, one_of, real, text
from invsamp.warning_codes import InvsampWarning

#: Words that say where a fidelity stands among others, from the coarsest to the finest.
_WORDS = (
    *({"coarsest", "cheapest", "lowest"}, {"coarser", "cheaper", "lower"}),
    *({"coarse", "cheap", "crude", "rough", "low", "lofi", "surrogate"}, {"medium", "middle", "mid", "intermediate"}),
    *({"fine", "high", "hifi", "expensive"}, {"finer", "higher"}, {"finest", "highest", "exact"}),
)
_RANKS = {word: rank for rank, words in enumerate(_WORDS) for word in words}
#: Words that say it by themselves, or of some quantities: a low tolerance is a fine model.
_RELATIVE = {"lowest", "lower", "low", "high", "higher", "highest"}
_QUANTITIES = {"fidelity", "resolution", "accuracy"}


def check_fidelities(argument: str, names: Iterable[object], costs: Mapping[str, float] | None = None) -> None:
    """`ValueError` unless fidelities have names of text, in the order that these and the costs of a solve state."""
    order = [text(f"every name in {argument}", name) for name in names]
    ranks = [(name, rank) for name in order if (rank := _rank(name)) is not None]
    for (before, one), (after, other) in pairwise(ranks):
        if other < one:
            raise ValueError(_wrong(argument, order, before, after, "by their names"))
    for before, after in pairwise(order) if costs else ():
        if costs is not None and costs[after] < costs[before]:
            found = f"by costs of {costs[before]:g} and {costs[after]:g}"
            raise ValueError(_wrong(argument, order, before, after, found))


def warn_of_work(argument: str, models: Mapping[str, object]) -> None:
    """Warn where all models count what a solve takes, and the last one, which is sampled, counts less than another."""
    counted = {name: getattr(model, "work", None) for name, model in models.items()}
    known = {name: work for name, work in counted.items() if work is not None and math.isfinite(work)}
    *_, finest = models
    most = max(known, key=lambda name: known[name], default=finest)
    if len(known) == len(models) and known[most] > known[finest]:
        warnings.warn(
            f"{argument} goes from the coarsest fidelity to the finest, so {finest!r} is the one that is "
            f"sampled. But a solve of {most!r} takes {known[most] / known[finest]:.3g} times its work. If the "
            "order is right, give the costs of solves by costs=",
            InvsampWarning,
            stacklevel=3,
        )


def checked_costs(given: Mapping[str, float], fidelities: tuple[str, ...]) -> dict[str, float]:
    """Cost of a solve of each fidelity, in their order."""
    found = mapping("costs", given)
    for name in found:
        one_of("costs", name, fidelities)
    if missing := [name for name in fidelities if name not in found]:
        raise ValueError(f"costs must hold every fidelity of {list(fidelities)}, got none for {missing}")
    return {name: real(f"costs[{name!r}]", found[name], above=0) for name in fidelities}


def _rank(name: str) -> int | None:
    """Where the name says that the fidelity stands; None if it says nothing, or several things."""
    words = set(re.split(r"[\W\d_]+", name.lower())) - {""}
    if len(words) > 1 and not words & _QUANTITIES:
        words -= _RELATIVE
    found = {_RANKS[word] for word in words if word in _RANKS}
    return found.pop() if len(found) == 1 else None


def _wrong(argument: str, order: list[str], before: str, after: str, why: str) -> str:
    return (
        f"{argument} must go from the coarsest fidelity to the finest, got {before!r} before {after!r}, which is "
        f"coarser {why}: the posterior of the last one, here {order[-1]!r}, would be sampled. Reverse the mapping, or "
        "change the names or costs if they are wrong"
    )

"""States at which fidelities are compared, with the laws from which they were drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from invsamp.arguments import numbers
from invsamp.contract import Array
from invsamp.fidelities import reweighting
from invsamp.results.run import Run


@dataclass(frozen=True)
class Given:
    """Positions (n, d), and either the rungs that drew them or the log density, but for a constant, of the draws."""

    position: Array
    source: str
    rungs: tuple[tuple[str, float, int], ...] = ()  # fidelity, temperature, number of draws
    log_density: Array | None = None  # (n,)

    def log_mixture(self, energies: Mapping[str, Array]) -> Array:
        """Log density (n,), but for a constant, of the draws, given every level's energies at them."""
        if self.log_density is not None:
            return self.log_density
        reduced = np.stack([energies[level] / temperature for level, temperature, _ in self.rungs])
        return reweighting.log_mixture(reduced, [count for _, _, count in self.rungs])


def gather(problem: Any, thetas: npt.ArrayLike | Run | int, most: int, rng: np.random.Generator) -> Given:
    """The states that ``thetas`` stands for.

    Raises
    ------
    ValueError
        If it is of the wrong kind, shape or problem.
    """
    if isinstance(thetas, Run):
        return _of_run(problem, thetas, most)
    if isinstance(thetas, int | np.integer) and not isinstance(thetas, bool):
        return _of_prior(problem, int(thetas), rng)
    try:
        points = numbers("thetas", thetas)
    except ValueError as error:
        raise ValueError(f"{error}: give an array of numbers, a Run or a number of draws") from None
    if points.ndim != 2 or points.shape[1] != problem.dimension:
        raise ValueError(f"thetas must have shape (n, {problem.dimension}), got {points.shape}")
    if not np.isfinite(points).all():
        bad = int((~np.isfinite(points)).any(axis=1).sum())
        raise ValueError(f"thetas must be finite, got {bad} rows that are not")
    source = f"{len(points)} given states, taken as draws of the posterior"
    finest = problem.fidelities[-1]
    return Given(np.ascontiguousarray(problem.to_position(points)), source, ((finest, 1.0, len(points)),))


def level_name(names: Sequence[str], wanted: str | int) -> str:
    """A fidelity by its name, or by the number of levels below the finest (the coarsest if there are not so many)."""
    if isinstance(wanted, str):
        if wanted not in names:
            raise ValueError(f"fidelity must be one of {list(names)}, got {wanted!r}")
        return wanted
    if isinstance(wanted, bool) or not isinstance(wanted, int | np.integer) or wanted < 0:
        raise ValueError(f"fidelity must be a name or a number >= 0 of levels below the finest, got {wanted!r}")
    return names[max(0, len(names) - 1 - int(wanted))]


def _of_run(problem: Any, run: Run, most: int) -> Given:
    if dict(run.shapes) != {name: tuple(shape) for name, shape in problem.shapes.items()}:
        raise ValueError(
            f"thetas must be a run of this posterior, whose parameters are {dict(problem.shapes)}, got {run.shapes}"
        )
    report, finest = run.report, problem.fidelities[-1]
    # a run that does not say what its hot rungs are shows its cold one
    temperatures = report.get("temperatures") or [1.0]
    fidelities = report.get("fidelities") or [finest]
    known = min(len(temperatures), len(fidelities), run.rungs)
    share = max(1, most // known)
    parts, rungs = [], []
    for rung in range(known):
        draws = run.rung_theta(rung).reshape(-1, problem.dimension)
        chosen = draws[np.unique(np.linspace(0, len(draws) - 1, share).astype(int))]
        parts.append(chosen)
        rungs.append((level_name(problem.fidelities, fidelities[rung]), float(temperatures[rung]), len(chosen)))
    position = problem.to_position(np.concatenate(parts))
    source = f"{len(position)} draws of {'a run' if known == 1 else f'the {known} rungs of a run'}"
    return Given(np.ascontiguousarray(position), source, tuple(rungs))


def _of_prior(problem: Any, count: int, rng: np.random.Generator) -> Given:
    if count < 1:
        raise ValueError(f"thetas as a number of draws must be positive, got {count}")
    prior, coordinates = getattr(problem, "prior", None), getattr(problem, "coordinates", None)
    if prior is None or coordinates is None or not hasattr(problem, "sample_prior"):
        raise ValueError(f"thetas must be states or a Run where the problem has no prior to draw from, got {count}")
    # independent draws of a known density, which those of `sample_start` need not be
    position = problem.to_position(problem.sample_prior(rng, count))
    change = coordinates.evaluate(position)
    return Given(position, f"{count} draws from the prior", (), prior.log_density(change.theta) + change.log_jacobian)

"""States at which fidelities are compared, with the targets from which they were drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from invsamp.arguments import array, integer, one_of
from invsamp.diagnostics import weights
from invsamp.fidelities import reweighting
from invsamp.ladder.rung import as_fidelity
from invsamp.posing.expressions.variable_names import check_shapes
from invsamp.protocols import Array, KnownPrior, Problem
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


def gather(problem: Problem, thetas: npt.ArrayLike | Run | int, most: int, rng: np.random.Generator) -> Given:
    """The states that ``thetas`` stands for.

    Raises
    ------
    ValueError
        If it is of the wrong kind, shape or problem.
    """
    if isinstance(thetas, Run):
        return _of_run(problem, thetas, most)
    if isinstance(thetas, int | np.integer) and not isinstance(thetas, bool):
        return _of_prior(problem, integer("thetas", thetas, least=1), rng)
    points = array("thetas", thetas, ("n", problem.dimension), also=", a Run or a number of draws")
    source = f"{len(points)} given states, taken as draws of the posterior"
    finest = problem.fidelities[-1]
    return Given(np.ascontiguousarray(problem.to_position(points)), source, ((finest, 1.0, len(points)),))


def level_name(names: Sequence[str], wanted: str | int) -> str:
    """A fidelity by its name, or by the number of levels below the finest (the coarsest if there are not so many)."""
    if isinstance(wanted, str):
        return str(one_of("fidelities", wanted, names))
    return names[max(0, len(names) - 1 - int(as_fidelity("fidelities", wanted)))]


def _of_run(problem: Problem, run: Run, most: int) -> Given:
    check_shapes(problem.shapes, run.shapes)
    report, finest = run.report, problem.fidelities[-1]
    # a run that does not say what its hot rungs are shows its cold one
    temperatures = report.get("temperatures") or [1.0]
    fidelities = report.get("fidelities") or [finest]
    known = min(len(temperatures), len(fidelities), run.rungs)
    share = max(1, most // known)
    parts, rungs = [], []
    for rung in range(known):
        draws, weight = run.rung_theta(rung).reshape(-1, problem.dimension), run.rung_weights(rung)
        if weight is None:
            chosen = draws[np.unique(np.linspace(0, len(draws) - 1, share).astype(int))]
        else:
            chosen = draws[weights.resampled(weight.ravel(), share)]
        parts.append(chosen)
        # what weights make of a rung's draws is the posterior
        temperature = float(temperatures[rung]) if weight is None else 1.0
        rungs.append((level_name(problem.fidelities, fidelities[rung]), temperature, len(chosen)))
    position = problem.to_position(np.concatenate(parts))
    source = f"{len(position)} draws of {'a run' if known == 1 else f'the {known} rungs of a run'}"
    return Given(np.ascontiguousarray(position), source, tuple(rungs))


def _of_prior(problem: Problem, count: int, rng: np.random.Generator) -> Given:
    if not isinstance(problem, KnownPrior):
        raise ValueError(f"thetas must be states or a Run where the problem has no prior to draw from, got {count}")
    # independent draws of a known density, which those of `sample_start` need not be
    position = problem.to_position(problem.sample_prior(rng, count))
    return Given(position, f"{count} draws from the prior", (), problem.log_prior_at(position))

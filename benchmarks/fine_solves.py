"""Fine solves per effective draw: a corrected coarse model that moves, and the fine model that only decides.

    python benchmarks/fine_solves.py [--seeds N] [--draws N] [--only NAME...]

For each problem, of `iv.correct` and `iv.surrogate_exchange` together: every fine solve is counted, those of the pairs
and of warm-up too, an energy as much as an energy with its gradient. ESS: bulk, the least over all unknowns, and for
problems with two modes that of the mode's indicator. Beside it `iv.ghmc()` on the fine model (one mode), and the ladder
of temperatures over both fidelities (two modes). The weight of a mode is held against quadrature.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from typing import NamedTuple

import invsamp as iv
from invsamp.contract import Array
from invsamp.diagnostics import ess
from invsamp.problems import conductivity, heat_modes, heat_source

LADDER = (1.0, 3.0, 9.0, 27.0)


class Problem(NamedTuple):
    posterior: Callable[[], iv.Posterior]
    temperatures: tuple[float, ...]
    mode: Callable[[Array], Array] | None  # whether theta (..., d) lies in it
    weight: Callable[[iv.Posterior], float] | None  # of the mode
    chains: int


def of_conductivity() -> iv.Posterior:
    """The 64x64 mesh over the 16x16 one."""
    posed = conductivity.posterior()
    return posed.with_forward({name: posed.forward[name] for name in ("coarse", "fine")})


def of_heat_modes() -> iv.Posterior:
    """The 64x64 mesh over the coarsest one."""
    posed = heat_modes.posterior()
    return posed.with_forward({name: posed.forward[name] for name in (posed.fidelities[0], posed.fidelities[-1])})


PROBLEMS = {
    "conductivity": Problem(of_conductivity, (1.0,), None, None, 16),
    "heat source": Problem(
        heat_source.two_modes,
        LADDER,
        heat_source.is_upper,
        lambda posed: heat_source.quadrature(posed).modes[1].weight,
        24,
    ),
    "heat modes": Problem(
        of_heat_modes,
        LADDER,
        heat_modes.on_the_right,
        lambda posed: heat_modes.quadrature(posed).right.weight,
        24,
    ),
}


def effective(run: iv.Run, problem: Problem) -> float:
    """Effective draws of what mixes worst."""
    if problem.mode is None:
        return float(run.summary()["ess_bulk"].min())
    return float(ess(problem.mode(run.theta).astype(float)))


def weight(run: iv.Run, problem: Problem) -> str:
    return "" if problem.mode is None else f"{problem.mode(run.theta).mean():.3f}"


def exchanged(problem: Problem, posed: iv.Posterior, draws: int, seed: int) -> tuple[iv.Run, int, str]:
    """The run, its fine solves, and what was learnt."""
    alone, chains = iv.ghmc() if problem.mode is None else iv.relangevin(LADDER, friction=0.1), problem.chains
    found = iv.correct(posed, sampler=alone, chains=chains, draws=250, seed=seed, progress=False)
    sampler = iv.surrogate_exchange(problem.temperatures, every=20)
    settings = {"draws": draws, "warmup": 400, "thin": 20, "chains": chains, "seed": seed, "progress": False}
    run = iv.sample(found.posterior, sampler, start=found.draws(chains, seed), **settings)
    fine = posed.fidelities[-1]
    return run, run.report["evaluations"][fine] + found.evaluations[fine], str(found.levels[0])


def beside(problem: Problem, posed: iv.Posterior, draws: int, seed: int) -> tuple[iv.Run, int]:
    """Today's best without a corrected model."""
    sampler = iv.ghmc() if problem.mode is None else iv.relangevin(LADDER, friction=0.1)
    run = iv.sample(posed, sampler, draws=draws, chains=problem.chains, seed=seed, progress=False)
    return run, run.report["evaluations"][posed.fidelities[-1]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--draws", type=int, default=125, help="of each chain")
    parser.add_argument(
        "--beside", type=int, default=300, metavar="DRAWS", help="of each chain, of what stands beside it"
    )
    parser.add_argument("--only", nargs="+", choices=list(PROBLEMS), default=list(PROBLEMS))
    given = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)
    print("| problem | sampler | seed | fine solves | ESS | per effective draw | weight (truth) | least swaps | s |")
    print("|---|---|---:|---:|---:|---:|---|---:|---:|")
    for name in given.only:
        problem = PROBLEMS[name]
        posed = problem.posterior()
        truth = "" if problem.weight is None else f" ({problem.weight(posed):.3f})"
        for seed in range(1, given.seeds + 1):
            began = time.perf_counter()
            run, fine, learnt = exchanged(problem, posed, given.draws, seed)
            count, least = effective(run, problem), min(run.report["swap_least_chances"][:1])
            took = time.perf_counter() - began
            told = f"{fine:,} | {count:,.0f} | {fine / count:.2f} | {weight(run, problem)}{truth} | {least:.2f}"
            print(f"| {name} | exchange | {seed} | {told} | {took:.0f} |", flush=True)
            print(f"<!-- {learnt} -->")
        run, fine = beside(problem, posed, given.beside, 1)
        count = effective(run, problem)
        told = f"{fine:,} | {count:,.0f} | {fine / count:.1f} | {weight(run, problem)}{truth} | "
        print(f"| {name} | beside it | 1 | {told} | |", flush=True)


if __name__ == "__main__":
    main()

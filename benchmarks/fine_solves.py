"""Fine solves per effective draw: moves on a corrected coarse model, accepted by the fine model.

    python benchmarks/fine_solves.py [--seeds N...] [--only NAME...] [--keep FOLDER] [--by beside|nutpie|tinyda]
                                     [--draws N] [--chains N] [--local N] [--workers N]
    python benchmarks/fine_solves.py --reference

One call of `iv.sample` for each problem and seed. Every fine solve is counted, those of pairs and of warm-up too, an
energy as much as an energy with its gradient. ESS is bulk ESS, the least over all unknowns. For problems with two modes
it is that of the mode's indicator, whose weight is compared with quadrature. With ``--keep`` each run writes its
figures to a file, and is not repeated.

``--by beside`` uses samplers without a correction: `iv.samplers.ghmc()`, or a ladder of both models. ``--by nutpie``
and ``--by tinyda`` use other toolkits with their best settings (`_fine_peers.py`), in environments of their own.
``--workers`` processes solve chains in parallel, with the same draws. ``--local N``: the fine rung makes a local move
after N exchanges, not after 20.

"accuracy" has the weight of a mode, with that of quadrature. Otherwise it has the largest error of a mean, and of an
sd, in standard errors. For hare and lynx these are relative to the published posterior. For the conductivity they are
relative to weighted draws of the corrected coarse model (`fine_references.json`, which ``--reference`` makes). Its
p-value is that of all means together, by a chi-squared statistic with the posterior's correlations.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from _fine_wrong import Elsewhere, Shifted, outside
from scipy.stats import chi2

import invsamp as iv
from invsamp.diagnostics import ess, rhat
from invsamp.ladder.corrected_exchange import CorrectedExchange
from invsamp.problems import conductivity, heat_modes, heat_source, lotka_volterra
from invsamp.protocols import Array

LADDER = (1.0, 3.0, 9.0, 27.0)
#: Temperatures for the heat modes, between which chains at 27 cross too rarely.
LONGER = (*LADDER, 81.0, 243.0)
REFERENCES = Path(__file__).with_name("fine_references.json")
#: Settings of the conductivity's reference.
DRAWS, THIN, SEED = 1000, 8, 2000


class Problem(NamedTuple):
    posterior: Callable[[], iv.Posterior]
    sampler: Callable[[], iv.ladder.Sampler | None]  # None: chosen
    chains: int
    draws: int
    mode: Callable[[Array], Array] | None = None  # whether theta (..., d) lies in it
    reference: str | None = None
    weight: Callable[[iv.Posterior], float] | None = None  # of the mode


def plate(
    coarse: Callable[[iv.extending.ForwardModel], iv.extending.ForwardModel] = lambda model: model,
) -> iv.Posterior:
    """The conductivity on the 64x64 mesh with the 16x16 one as coarse model, or with a modified one."""
    posed = conductivity.posterior({"coarse": 16, "fine": 64})
    return posed.with_forward({"coarse": coarse(posed.forward["coarse"]), "fine": posed.forward["fine"]})


def coarsest_and_finest(posed: iv.Posterior) -> iv.Posterior:
    """The posterior without the intermediate fidelities."""
    return posed.with_forward({name: posed.forward[name] for name in (posed.fidelities[0], posed.fidelities[-1])})


def exchange(ladder: Sequence[float] = LADDER, correct: Any = "auto") -> iv.ladder.Sampler:
    return iv.samplers.surrogate_exchange(ladder, correct=correct, exchange_interval=20)


def own_moves(name: str, problem: Problem, local: int) -> Problem:
    """The problem with so many exchanges between two local moves of the fine rung."""
    sampler = problem.sampler()
    if not isinstance(sampler, CorrectedExchange):
        raise SystemExit(f"--local must come with problems whose sampler is given, got {name!r}")
    return problem._replace(sampler=lambda: replace(sampler, local_move_interval=local))


def upper(posed: iv.Posterior) -> float:
    return float(heat_source.quadrature(posed).modes[1].weight)


def right(posed: iv.Posterior) -> float:
    return float(heat_modes.quadrature(posed).right.weight)


PROBLEMS = {
    "conductivity": Problem(plate, lambda: None, 8, 250, reference="conductivity"),
    "shifted": Problem(lambda: plate(Shifted), lambda: None, 8, 250, reference="conductivity"),
    "shifted, not corrected": Problem(
        lambda: plate(Shifted),
        lambda: exchange((1.0,), "none"),
        8,
        100,
        reference="conductivity",
    ),
    "wrong outside the sensors": Problem(lambda: plate(outside), lambda: None, 8, 250, reference="conductivity"),
    "wrong elsewhere": Problem(lambda: plate(Elsewhere), lambda: None, 8, 250, reference="conductivity"),
    "wrong elsewhere, not declined": Problem(
        lambda: plate(Elsewhere),
        lambda: exchange((1.0,)),
        8,
        250,
        reference="conductivity",
    ),
    "fine alone": Problem(lambda: plate().alone("fine"), lambda: None, 8, 250, reference="conductivity"),
    "hare-lynx": Problem(lotka_volterra.hare_lynx, lambda: None, 8, 500, reference="hare-lynx"),
    "heat source": Problem(heat_source.two_modes, exchange, 24, 125, heat_source.is_upper, weight=upper),
    "heat source, not corrected": Problem(
        heat_source.two_modes,
        lambda: exchange(correct="none"),
        24,
        125,
        heat_source.is_upper,
        weight=upper,
    ),
    "heat source, affine": Problem(
        heat_source.two_modes,
        lambda: exchange(correct="affine"),
        24,
        125,
        heat_source.is_upper,
        weight=upper,
    ),
    "heat modes": Problem(
        lambda: coarsest_and_finest(heat_modes.posterior()),
        lambda: exchange(LONGER),
        24,
        125,
        heat_modes.on_the_right,
        weight=right,
    ),
    "heat modes, nothing chosen": Problem(
        lambda: coarsest_and_finest(heat_modes.posterior()),
        lambda: None,
        24,
        125,
        heat_modes.on_the_right,
        weight=right,
    ),
}


def beside(name: str) -> iv.ladder.Sampler:
    """The sampler without a correction."""
    if name == "hare-lynx":
        return iv.samplers.parallel_tempering(iv.ladder.geometric(8.0, 5), friction=0.1)
    return iv.samplers.ghmc() if PROBLEMS[name].mode is None else iv.samplers.parallel_tempering(LADDER, friction=0.1)


def reference(name: str) -> dict[str, Array] | None:
    """Mean, sd and standard errors of the mean of each unknown."""
    if name == "hare-lynx":
        known = lotka_volterra.REFERENCE.values()
        sd = np.array([one.sd for one in known])
        return {"mean": np.array([one.mean for one in known]), "sd": sd, "error": 0.02 * sd}
    if not REFERENCES.exists():
        return None
    return {key: np.array(values) for key, values in json.loads(REFERENCES.read_text())[name].items()}


def make_reference() -> None:
    """Draws of the corrected coarse model, weighted to the fine posterior, without exchanges."""
    posed = iv.correct(plate(), draws=300, seed=SEED, progress=False).posterior
    run = iv.sample(posed.alone("coarse"), draws=DRAWS, chains=8, thin=THIN, seed=SEED, progress=False)
    position = posed.to_position(run.theta.reshape(-1, posed.dimension))
    energies = [posed.potential(name).energy(position) for name in ("coarse", "fine")]
    log_weight = (energies[0] - energies[1]).reshape(run.theta.shape[:2])
    sizes, weight = ess(run.theta, log_weight=log_weight), np.exp(log_weight - log_weight.max())
    mean = (weight[..., None] * run.theta).sum(axis=(0, 1)) / weight.sum()
    sd = np.sqrt((weight[..., None] * np.square(run.theta - mean)).sum(axis=(0, 1)) / weight.sum())
    efficiency = weight.sum() ** 2 / np.square(weight).sum() / weight.size
    worst = rhat(run.theta, log_weight=log_weight).max()
    print(
        f"{weight.size:,} draws, weights' efficiency {efficiency:.3f}, R-hat {worst:.3f}, least ESS {sizes.min():.0f}"
    )
    standard = (run.theta - mean) / sd
    correlation = np.einsum("cn,cni,cnj->ij", weight, standard, standard) / weight.sum()
    moments = {"mean": mean, "sd": sd, "error": sd / np.sqrt(sizes), "correlation": correlation}
    five_digits = np.vectorize(lambda value: float(f"{value:.5g}"))
    rounded = {key: five_digits(values).tolist() for key, values in moments.items()}
    REFERENCES.write_text(json.dumps({"conductivity": rounded}) + "\n")


def off(found: dict[str, Any], name: str | None) -> str:
    """Largest error of a mean, and of an sd, in standard errors of both, and p of all means; empty: none is known."""
    known = None if name is None else reference(name)
    if known is None:
        return ""
    mean, sd, sizes, squares = (np.array(found[key]) for key in ("mean", "standard_deviation", "sizes", "squares"))
    means = (mean - known["mean"]) / np.hypot(sd / np.sqrt(sizes), known["error"])
    errors = np.hypot(np.sqrt(0.5 / squares), known["error"] / known["sd"] / np.sqrt(2.0))
    largest = f"{np.abs(means).max():.1f}, {np.abs(np.log(sd / known['sd']) / errors).max():.1f}"
    if "correlation" not in known:
        return largest
    return f"{largest}, p {chi2.sf(means @ np.linalg.solve(known['correlation'], means), len(means)):.2f}"


def figures(name: str, problem: Problem, seed: int, by: str | None, workers: int) -> dict[str, Any]:
    """Figures of one run."""
    posed, sampler, draws = problem.posterior(), problem.sampler(), problem.draws
    began = time.process_time()
    if by in ("nutpie", "tinyda"):
        from _fine_peers import PEERS

        theta, *solves = PEERS[by](posed, seed)
        return efficiency_of(problem, theta, *solves) | {"seconds": time.process_time() - began}
    if by == "beside":
        sampler = beside(name)
    with ProcessPoolExecutor(workers) as pool:
        executor = pool if workers > 1 else None
        run = iv.sample(
            posed, sampler, draws=draws, chains=problem.chains, seed=seed, progress=False, executor=executor
        )
    seconds, report = time.process_time() - began, run.report
    fine, learned = report["evaluations"][posed.fidelities[-1]], report.get("correction")
    before, coarse = report["warmup_evaluations"][posed.fidelities[-1]], sum(report["evaluations"].values()) - fine
    return efficiency_of(problem, run.theta, fine, before, coarse) | {
        "truth": None if problem.weight is None else float(problem.weight(posed)),
        "every": None if learned is None else learned["every"],
        "sd": None if learned is None else learned["sd"],
        "least": None if learned is None else report["swap_least_chances"][0],
        "decisions": report["decisions"],
        "warnings": run.warnings(),
        "seconds": seconds,
    }


def efficiency_of(problem: Problem, theta: Array, fine: int, before: int, coarse: int) -> dict[str, Any]:
    """ESS of draws theta (chains, draws, d), and fine solves per effective draw."""
    count = float(ess(theta).min()) if problem.mode is None else float(ess(problem.mode(theta).astype(float)))
    return {
        "fine": fine,
        "before": before,
        "coarse": coarse,
        "ess": count,
        "each": fine / count,
        "rhat": float(rhat(theta).max()),
        "weight": None if problem.mode is None else float(problem.mode(theta).mean()),
        "mean": theta.mean(axis=(0, 1)).tolist(),
        "standard_deviation": theta.std(axis=(0, 1)).tolist(),
        "sizes": ess(theta).tolist(),
        "squares": ess(np.square(theta - theta.mean(axis=(0, 1)))).tolist(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3, 4, 5])
    parser.add_argument("--only", nargs="+", choices=list(PROBLEMS), default=list(PROBLEMS))
    parser.add_argument("--keep", type=Path, help="folder for a file of each run")
    parser.add_argument("--by", choices=["beside", "nutpie", "tinyda"], help="another sampler than the exchange")
    parser.add_argument("--draws", type=int, help="of each chain, in place of each problem's own")
    parser.add_argument("--chains", type=int, help="number of chains, in place of each problem's own")
    parser.add_argument("--local", type=int, help="exchanges between two local moves of the fine rung")
    parser.add_argument("--workers", type=int, default=1, help="processes that solve")
    parser.add_argument("--reference", action="store_true", help="make the reference of the conductivity")
    given = parser.parse_args()
    if given.reference:
        make_reference()
        return
    warnings.simplefilter("ignore", UserWarning)
    head = "problem | seed | fine solves (before draws) | ESS | each | seconds each | every | least swaps | accuracy"
    print(f"| {head} |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|---|")
    for name in given.only:
        whole = PROBLEMS[name]
        problem = whole._replace(draws=given.draws or whole.draws, chains=given.chains or whole.chains)
        length = "" if problem == whole else f"-{problem.chains}x{problem.draws}"
        if given.local is not None:
            problem, length = own_moves(name, problem, given.local), f"{length}-local{given.local}"
        for seed in given.seeds:
            label = f"{name.replace(' ', '-').replace(',', '')}{f'-{given.by}' if given.by else ''}{length}-{seed}.json"
            kept = None if given.keep is None else given.keep / label
            if kept is not None and kept.exists():
                found = json.loads(kept.read_text())
            else:
                found = figures(name, problem, seed, given.by, given.workers)
                if kept is not None:
                    kept.parent.mkdir(parents=True, exist_ok=True)
                    kept.write_text(json.dumps(found, indent=1))
            print(f"| {name} | {seed} | {_row(found, problem.reference)} |", flush=True)


def _row(found: dict[str, Any], name: str | None) -> str:
    """The row of a run, with its accuracy relative to a reference."""
    target = [f"{found['weight']:.3f} ({found['truth']:.3f})"] if found["weight"] is not None else []
    target += [off(found, name)]
    least = "" if found.get("least") is None else f"{found['least']:.2f}"
    solved = f"{found['fine']:,} ({found['before']:,}) | {found['ess']:,.0f} | {found['each']:.2f}"
    return (
        f"{solved} | {found['seconds'] / found['ess']:.3f} | {found.get('every') or ''} | {least} | {' '.join(target)}"
    )


if __name__ == "__main__":
    main()

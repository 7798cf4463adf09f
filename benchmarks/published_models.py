"""Two published models in invsamp and pyPESTO, which solves them with AMICI: modes, identifiability and sampling.

    PIP_ARGUMENTS="pypesto amici" .ci/environment .peers/amici petab
    PATH=$PWD/.peers/amici/bin:$PATH python benchmarks/published_models.py [--problems Boehm Fiedler] [--seeds 1 2]
        [--parts modes sampling] [--draws 1000] [--steps 20000] [--chains 4] [--profiles]
        [--from-fit [pypesto]] [--mams] [--peer-chains 4] [--reflect] [--out published.jsonl]

Boehm et al. (2014) and Fiedler et al. (2016) of the PEtab benchmark collection, as in `tests/data/petab`. Modes are the
maxima of sixteen optimizations from the prior, with their counts. Identifiability is the Fisher information at the best
mode, and, with --profiles, profile likelihoods. Samplers run in turns for each seed in one process:

- `iv.sample(posterior)` with default settings;
- pyPESTO: ten optimizations by AMICI's gradients, then adaptive parallel tempering (three temperatures) from the best;
- pyPESTO: adaptive Metropolis from the same optimum.

pyPESTO's burn-in is dropped by its Geweke test. --peer-chains runs several chains and drops the longest burn-in, so
that R-hat can show modes that one missed. With --from-fit all chains begin at the published fit, without optimization.
With --mams one kernel is chosen, without pilot runs. With --reflect invsamp reflects moves at the bounds instead of
sampling in logits.

Effective draws are the least of all parameters, on the log scale. Seconds are processor time from start to draws,
without compilation of models. AMICI is built from source in some minutes, and needs BLAS and HDF5. The environment's
`bin` must be on PATH, so that models are compiled by the swig that AMICI was built by.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before NumPy is imported
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import json
import logging
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import invsamp as iv
from invsamp.diagnostics import ess, rhat

FILES = Path(__file__).parents[1] / "tests" / "data" / "petab"
NAMES = {"Boehm": "Boehm_JProteomeRes2014", "Fiedler": "Fiedler_BMCSystBiol2016"}
PARTS = ("modes", "sampling")
STARTS, TEMPERATURES = 10, 3
#: Least distance of a start from its bounds, in decades.
INSET = 0.01


def identified(posterior: iv.Posterior, profiles: bool) -> dict[str, Any]:
    """Modes, and the identified directions at the best of them."""
    began = time.process_time()
    modes = iv.maximize(posterior, seed=1)
    seconds = time.process_time() - began
    print(modes)
    information = iv.information(posterior, modes, seed=1)
    print(information)
    if profiles:
        print(iv.profile(posterior, modes=modes, level=0.95, seed=1))
    best = posterior.log_likelihood(modes.theta[:1]).sum()
    return {"energies": modes.energies.tolist(), "counts": np.asarray(modes.counts).tolist(), "seconds": seconds,
            "log_likelihood": float(best), "told": information.informed, "of": posterior.dimension,
            "standard_deviations": information.standard_deviations()}  # fmt: skip


def ours(
    posterior: iv.Posterior,
    seed: int,
    plan: dict[str, int],
    start: dict[str, float] | None,
    sampler: iv.ladder.Sampler | None,
) -> dict[str, Any]:
    """A run with default settings, or with a kernel."""
    began = time.process_time()
    run = iv.sample(posterior, sampler, **plan, seed=seed, start=start, progress=False)
    seconds = time.process_time() - began
    print(run)
    return judged(np.log10(run.theta), seconds, sum(run.report["evaluations"].values())) | {"warnings": run.warnings()}


class Peer:
    """pyPESTO's problem from the PEtab files, solved by AMICI."""

    def __init__(self, name: str, labels: tuple[str, ...]) -> None:
        import petab.v1 as petab
        from pypesto.petab import PetabImporter

        logging.disable(logging.WARNING)
        files = petab.Problem.from_yaml(str(FILES / name / f"{name}.yaml"))
        petab.flatten_timepoint_specific_output_overrides(files)
        folder = Path(tempfile.gettempdir()) / "invsamp_published_models" / name
        importer = PetabImporter(files, output_folder=str(folder), model_name=name)
        self.problem = importer.create_problem(verbose=False)
        self.nominal = np.array(files.x_nominal_free_scaled)
        self.order = [[self.problem.x_names[k] for k in self.problem.x_free_indices].index(label) for label in labels]
        self.calls = 0
        called = self.problem.objective.call_unprocessed

        def counted(*given: Any, **named: Any) -> Any:
            self.calls += 1
            return called(*given, **named)

        self.problem.objective.call_unprocessed = counted

    def sampled(self, seed: int, steps: int, from_fit: bool, chains: int) -> Iterator[tuple[str, dict[str, Any]]]:
        """Each sampler's name and draws, with the seconds of the optimizations that both begin with."""
        from pypesto import optimize, sample

        np.random.seed(seed)  # noqa: NPY002
        began, self.calls = time.process_time(), 0
        result = None if from_fit else optimize.minimize(self.problem, n_starts=STARTS, progress_bar=False)
        optimized, calls = time.process_time() - began, self.calls
        values = [] if result is None else [float(each["fval"]) for each in result.optimize_result.list[:STARTS]]
        inside = np.clip(self.nominal, self.problem.lb + INSET, self.problem.ub - INSET)
        x0 = {"adaptive parallel tempering": [inside] * TEMPERATURES, "adaptive Metropolis": inside} if from_fit else {}
        for label, make in {
            "adaptive parallel tempering": lambda: sample.AdaptiveParallelTemperingSampler(
                sample.AdaptiveMetropolisSampler(), n_chains=TEMPERATURES, options={"show_progress": False}
            ),
            "adaptive Metropolis": lambda: sample.AdaptiveMetropolisSampler(options={"show_progress": False}),
        }.items():
            began, self.calls, parts, burned = time.process_time(), 0, [], []
            count = steps // (TEMPERATURES if "tempering" in label else 1) // chains
            for _ in range(chains):
                result = sample.sample(self.problem, count, make(), x0=x0.get(label), result=result)
                burned.append(int(sample.geweke_test(result)))
                parts.append(result.sample_result.trace_x[0][:, self.order])
            seconds = optimized + time.process_time() - began
            first = min(max(burned), count - 100)
            draws = np.stack([part[first:] for part in parts])
            yield label, judged(draws, seconds, calls + self.calls) | {"burn-in": burned, "optima": values}


def judged(decades: Any, seconds: float, solves: int) -> dict[str, Any]:
    """Figures of draws (chains, draws, d) in decades."""
    size = float(np.nanmin(ess(decades)))
    return {"ess": size, "rhat": float(np.nanmax(rhat(decades))),
            "seconds": seconds, "per_second": size / seconds, "solves": solves,
            "mean": decades.mean(axis=(0, 1)).tolist(), "sd": decades.std(axis=(0, 1)).tolist()}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", nargs="+", choices=list(NAMES), default=list(NAMES))
    parser.add_argument("--seeds", nargs="*", type=int, default=[1, 2])
    parser.add_argument("--draws", type=int, default=1000, help="draws of each chain")
    parser.add_argument("--chains", type=int, default=4)
    parser.add_argument("--steps", type=int, default=20_000, help="pyPESTO's steps, over all temperatures")
    parser.add_argument("--peer-chains", type=int, default=1, help="pyPESTO's chains, which share its steps")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--profiles", action="store_true")
    parser.add_argument("--from-fit", nargs="?", choices=("all", "pypesto"), const="all", help="default: all")
    parser.add_argument("--mams", action="store_true")
    parser.add_argument("--reflect", action="store_true")
    parser.add_argument("--out", type=Path, help="a line of JSON for each result")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    for name in given.problems:
        problem = iv.petab.load(FILES / NAMES[name] / f"{NAMES[name]}.yaml")
        posterior, peer = problem.posterior, Peer(NAMES[name], problem.posterior.labels)
        if given.reflect:
            posterior = posterior.with_bounds()
        posterior.potential().energy_and_gradient(posterior.sample_start(np.random.default_rng(0), 2))  # compiled
        theirs, fit = peer.problem.objective(peer.nominal), -posterior.log_likelihood(problem.nominal).sum()
        print(f"\n{name}: minus log likelihood at the published fit {fit:.4f}, AMICI's {theirs:.4f}", flush=True)
        if "modes" in given.parts:
            kept(given.out, name, "modes", 1, identified(posterior, given.profiles))
        for seed in given.seeds if "sampling" in given.parts else []:
            start = problem.start if given.from_fit == "all" else None
            plan = {"draws": given.draws, "chains": given.chains}
            mine = ours(posterior, seed, plan, start, iv.mams() if given.mams else None)
            theirs_too = peer.sampled(seed, given.steps, given.from_fit is not None, given.peer_chains)
            for label, each in [("invsamp", mine), *theirs_too]:
                kept(given.out, name, label, seed, each)
                off = np.abs(np.subtract(each["mean"], mine["mean"])) / mine["sd"]
                print(
                    f"{name} seed {seed} {label:28s} {each['ess']:7.0f} effective draws, R-hat {each['rhat']:.3f}, "
                    f"{each['seconds']:6.1f} s, "
                    f"{each['per_second']:6.2f} per second, {each['solves']} solves; means off invsamp's by up to "
                    f"{off.max():.2f} sd",
                    flush=True,
                )


def kept(path: Path | None, name: str, label: str, seed: int, found: dict[str, Any]) -> None:
    """Append a line."""
    if path is not None:
        with path.open("a") as file:
            file.write(json.dumps({"problem": name, "what": label, "seed": seed, **found}) + "\n")


if __name__ == "__main__":
    main()

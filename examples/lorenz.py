"""Lorenz: sigma, rho and beta from a trajectory, under constraints, by five samplers side by side.

1. Published (Zheng et al. 2024, r2SGLD, section 4.1 and A.1): exact derivatives at 10,001 times, 60,000 iterations,
   rates that decay. Their energy is a mean over the times, so a standard deviation of 100 per derivative. The
   constraints are far from this posterior; what counts is whether a sampler reaches it at all from the prior.
2. Cut: the first 0.2 units of time alone, derivatives known up to 40, where the constraints beta > 0 and
   sigma > 1 + beta cut the posterior. What counts is whether a sampler keeps to them, and what it makes of the bounds.
3. Shooting: states with 5% noise, no derivatives, by multiple shooting.
"""

from __future__ import annotations

from typing import Any

import _identification as common
import _identification_figures as figures
import numpy as np
from _common import options

import invsamp as iv
from invsamp.problems import lorenz as problem
from invsamp.problems.published import LORENZ
from invsamp.solvers.ode import OdeModel

PUBLISHED_SD, CUT_SD = 100.0, 40.0
CUT_TIMES = np.arange(21) / 100.0
BATCH, BATCHED_CHAINS = 4096, 2
#: Ten times the published rates, as batches of the published size cost a hundred times what sufficient statistics do.
BATCHED = iv.samplers.r2sgld(
    step_size=tuple(10.0 * rate for rate in LORENZ["rates"]),
    estimator=iv.estimators.minibatch(BATCH),
    # each batch shows its own variance: far from the posterior it is many times what it is within
    energy_variance=iv.variances.known(),
)
SHOOTING_TIMES = np.arange(401) / 20.0
DATA_SETS = 50
#: Far from the truth, for the fit to find its way.
FIRST_GUESS = {"sigma": 5.0, "rho": 15.0, "beta": 5.0}
MODEL = OdeModel(problem.rhs, problem.STATES, problem.PARAMETERS, rtol=1e-8, atol=1e-10, max_steps=100_000)
TRUE_VALUES = np.array([problem.TRUTH[name] for name in problem.PARAMETERS])


def main() -> dict[str, Any]:
    """All three parts, their figures and the summary."""
    given = options("lorenz", "Lorenz identified by five samplers, and by multiple shooting.", draws=4000)
    summary = {
        "seed": given.seed,
        "draws_per_chain": given.draws,
        "published": published(given),
        "cut": cut(given),
        "shooting": shooting(given),
    }
    given.save_summary(summary)
    return summary


def published(given: Any) -> dict[str, Any]:
    """The published setting; 16 chains stand for 16 runs from prior draws."""
    full = problem.gradient_matching(noise_sd=PUBLISHED_SD)
    where = common.setting(full, PUBLISHED_SD, problem.TRUTH, given.seed)
    iterations = given.draws * common.THIN * 3 // 2
    samplers = scaled(iterations)
    runs = common.run_all("published", where, samplers, given.draws, iterations // 3, common.CHAINS, given.seed)
    given.save("published_marginals", figures.draw_marginals(where, runs))

    times = np.arange(601) / 100.0
    paths = {
        label: common.resimulate(MODEL, run.theta, problem.INITIAL, times, 200, given.seed)
        for label, run in runs.items()
    }
    figure = figures.draw_resimulated(paths, times, simulate(times), problem.STATES, show=(0, 2))
    given.save("published_resimulated", figure)
    # from the posterior on: far from it a batch's energies are too noisy for the swaps, whose penalty forbids them
    batched = common.sample(
        full,
        BATCHED,
        draws=max(20, given.draws // 10),
        thin=common.THIN,
        warmup=0,
        chains=BATCHED_CHAINS,
        seed=given.seed,
        start=where.exact[:BATCHED_CHAINS],
    )
    share = common.batch_noise(full.forward["model"], where, PUBLISHED_SD, BATCH, LORENZ["rates"][0])
    return common.describe(where, runs) | {
        "batched_r2SGLD": common.compare(batched, where),
        "batch_noise_over_injected": share,
    }


def scaled(iterations: int) -> dict[str, iv.ladder.Sampler]:
    """The published samplers; fewer iterations take larger steps in the same proportion."""
    return common.published(LORENZ, iterations, faster=LORENZ["iterations"] / iterations)


def cut(given: Any) -> dict[str, Any]:
    """Little and uncertain data: the constraints cut the posterior."""
    full = problem.gradient_matching(problem.data(CUT_TIMES), noise_sd=CUT_SD)
    where = common.setting(full, CUT_SD, problem.TRUTH, given.seed, prior_sds=12.0)
    # from exact draws: what is compared is what the samplers keep, not how they get there
    steady, start = common.steady(0.02, 0.05), where.exact[:64]
    runs = common.run_all("cut", where, steady, given.draws // 2, 1000, 64, given.seed, start)
    given.save("cut_marginals", figures.draw_marginals(where, runs))
    given.save("cut_plane", figures.draw_plane(where, runs, "sigma", "beta", (0.0, 20.0, -9.0, 16.0)))
    return common.describe(where, runs)


def shooting(given: Any) -> dict[str, Any]:
    """Noisy states, no derivatives: segments of length 0.5 with unknown starts."""
    posterior, observed = noisy(0)
    run, fit = common.shoot(posterior, observed, FIRST_GUESS, max(100, given.draws // 2), 4, given.seed)
    truth = dict(problem.TRUTH)
    given.save("shooting_marginals", figures.draw_parameters(run, truth))

    times = np.arange(2001) / 100.0
    paths = common.from_first_start(run, MODEL, times, given.seed)
    given.save("shooting_resimulated", figures.draw_shooting(paths, times, observed, simulate, problem.STATES))
    z = common.calibration(noisy, truth, min(DATA_SETS, max(5, given.draws // 80)))
    return common.describe_shooting(run, fit, truth) | {"rms_z_over_data_sets": z}


def noisy(seed: int) -> tuple[iv.Posterior, Any]:
    """One data set and its posterior."""
    observed = problem.data(SHOOTING_TIMES, noise=0.05, seed=seed)
    return problem.multiple_shooting(observed), observed


def simulate(times: np.ndarray) -> np.ndarray:
    """True states (T, 3)."""
    return MODEL.solve(TRUE_VALUES[None], np.array(problem.INITIAL), times).states[0]


if __name__ == "__main__":
    main()

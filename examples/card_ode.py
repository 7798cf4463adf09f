"""Lorenz and Lotka-Volterra, the whole composition: two tolerances, noisy energies and gradients, constraints.

A few noisy states of one trajectory, whose start is known, say what the parameters of the system are. The cold replica
solves at a tolerance of 1e-6, the hot one at a tolerance of 0.1, by RK45 and once more by LSODA. Both are given
energies and gradients with noise, more at the loose tolerance. The data are few, so that the constraints cut the
posteriors: in Lorenz' chaotic regime parameters are positive and sigma > 1 + beta; rates of prey and predators are
positive.

The noise of Lorenz' gradients is the same at all states, where a running average is the right model of its variance.
That of Lotka-Volterra rises with the predators' gain delta, so that kernel ridge regression is the right one. The
exact posteriors come from importance sampling. Means and sds are resolved to about 1%; an unadjusted step of this
length makes sds too wide by up to 1.5%.

At the default length some runs warn that R-hat is 1.010 to 1.015, and the four chains by LSODA that they have fewer
than 400 effective draws: they are short. `--draws 6000` takes four times as long. `card_heat.py` does the same for a
partial differential equation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Literal

import _card as card
import _card_figures as figures
import numpy as np
from _common import options

import invsamp as iv
from invsamp.domains import Box
from invsamp.problems import lorenz, lotka_volterra
from invsamp.solvers.ode import OdeModel

Method = Literal["RK45", "LSODA"]

CHAINS, WARMUP, THIN = 16, 1000, 5
TEMPERATURES = (1.0, 2.0)
#: By LSODA, whose solves take fifteen times as long, there are fewer chains.
LSODA_CHAINS = 4
TOLERANCES = {"coarse": 0.1, "fine": 1e-6}
#: In units of the posterior's variance in every direction, which warm-up estimates. A step is unstable from 2 on.
STEP_SIZES = (0.06, 0.12)
REFERENCE_POINTS, ROUNDS = 40_000, 4

LORENZ_TIMES, LORENZ_SD, LORENZ_SEED = np.arange(1, 11) * 0.03, 2.5, 16
#: Populations in tens, so that all four rates are of order one.
TENS = {"alpha": 1.0, "beta": 1.0, "gamma": 1.5, "delta": 0.75}
PREY_TIMES, PREY_SD, PREY_SEED, PREY_START = np.arange(1, 11) * 0.1, 0.03, 1, (1.0, 0.5)


def lorenz_case(method: Method = "RK45") -> card.Case:
    """Lorenz' three parameters from states at ten times up to 0.3."""
    models = {
        name: OdeModel(lorenz.rhs, lorenz.STATES, lorenz.PARAMETERS, method=method, rtol=rtol, atol=rtol)
        for name, rtol in TOLERANCES.items()
    }
    forward = {name: model.observe(LORENZ_TIMES, lorenz.INITIAL, t0=0.0) for name, model in models.items()}
    prior = iv.Prior(**dict.fromkeys(lorenz.PARAMETERS, iv.Uniform(0.0, lorenz.LARGEST)))
    constant = {
        name: card.Noise(card.Rising(energy, energy, 2, 0.0, 1.0), card.Rising(gradient, gradient, 2, 0.0, 1.0))
        for name, energy, gradient in (("fine", 0.4, 1.1), ("coarse", 0.8, 1.25))
    }
    return _case(prior, forward, lorenz.TRUTH, LORENZ_SD, LORENZ_SEED, lorenz.CHAOTIC, constant)


def prey_case(method: Method = "RK45") -> card.Case:
    """The four rates of prey and predators from populations at ten times up to 1."""
    names = lotka_volterra.PARAMETERS
    models = {
        name: OdeModel(lotka_volterra.rhs, lotka_volterra.STATES, names, method=method, rtol=rtol, atol=rtol)
        for name, rtol in TOLERANCES.items()
    }
    forward = {name: model.observe(PREY_TIMES, PREY_START, t0=0.0) for name, model in models.items()}
    prior = iv.Prior(**dict.fromkeys(names, iv.Uniform(0.0, 10.0)))
    rising = {
        name: card.Noise(card.Rising(*energy, 3, 0.65, 0.1), card.Rising(*gradient, 3, 0.65, 0.1))
        for name, energy, gradient in (("fine", (0.2, 0.6), (1.2, 6.5)), ("coarse", (0.4, 1.2), (1.4, 7.0)))
    }
    return _case(prior, forward, TENS, PREY_SD, PREY_SEED, Box(0.0, np.inf), rising)


PROBLEMS = {"Lorenz": lorenz_case, "Lotka-Volterra": prey_case}


def _case(
    prior: iv.Prior,
    forward: Mapping[str, Any],
    truth: Mapping[str, float],
    sd: float,
    seed: int,
    domain: Any,
    noise: Mapping[str, card.Noise],
) -> card.Case:
    """Made-up data, the posterior, and the exact answer."""
    true = np.array([[truth[name] for name in prior.names]])
    clean = forward["fine"](true)[0]
    data = clean + sd * np.random.default_rng(seed).standard_normal(clean.shape)
    posterior = iv.Posterior(prior, forward, data, iv.GaussianNoise(sd), domain=domain)
    slopes = forward["fine"].jacobian(true)[1][0] / sd
    reference = importance_sampling(posterior, true[0], np.linalg.inv(slopes.T @ slopes))
    return card.Case(
        posterior=posterior,
        noise=noise,
        temperatures=TEMPERATURES,
        step_sizes=STEP_SIZES,
        preconditioner="dense",
        truth=truth,
        reference=reference,
        statistics=partial(statistics, posterior.names),
        start=reference.points[np.random.default_rng(0).choice(len(reference.points), CHAINS, p=reference.weights)],
    )


def importance_sampling(posterior: iv.Posterior, center: card.Array, covariance: card.Array) -> card.Reference:
    """Weighted points of the fine posterior: Student's t with 4 degrees of freedom, fitted anew in each round."""
    rng, dof, p = np.random.default_rng(1), 4.0, len(center)
    for _ in range(ROUNDS):
        root = np.linalg.cholesky(1.3 * covariance)
        z = rng.standard_normal((REFERENCE_POINTS, p)) / np.sqrt(rng.chisquare(dof, (REFERENCE_POINTS, 1)) / dof)
        points = center + z @ root.T
        log_proposal = -0.5 * (dof + p) * np.log1p(np.square(z).sum(axis=1) / dof)
        inside = posterior.domain.contains(points) & np.isfinite(posterior.log_prior(points))
        log_weights = np.full(REFERENCE_POINTS, -np.inf)
        likelihood = posterior.log_likelihood(points[inside], "fine").sum(axis=1)
        log_weights[inside] = likelihood + posterior.log_prior(points[inside]) - log_proposal[inside]
        log_weights[np.isnan(log_weights)] = -np.inf
        weights = np.exp(log_weights - log_weights.max())
        weights /= weights.sum()
        center = weights @ points
        covariance = (points - center).T @ (weights[:, None] * (points - center))
    kept = weights > 0.0
    return card.Reference(points[kept], weights[kept])


def statistics(names: Sequence[str], points: card.Array, weights: card.Array) -> dict[str, float]:
    """Means and sds."""
    mean, sd = card.moments(points, weights)
    found = {f"mean of {name}": value for name, value in zip(names, mean.tolist(), strict=True)}
    return found | {f"sd of {name}": value for name, value in zip(names, sd.tolist(), strict=True)}


def main() -> dict[str, Any]:
    """Both systems, all samplers by RK45 and the first one by LSODA: tables, the figure and the summary."""
    given = options("card_ode", "Lorenz and Lotka-Volterra by noisy solves at two tolerances.", draws=1200)
    summary: dict[str, Any] = {"seed": given.seed, "chains": CHAINS, "draws_per_chain": given.draws, "thin": THIN}
    shown = {}
    for title, build in PROBLEMS.items():
        posed = build()
        length: dict[str, Any] = {"chains": CHAINS, "thin": THIN, "warmup": WARMUP, "seed": given.seed}
        runs = card.run_all(posed, title, given.draws, **length)
        fewer = length | {"chains": LSODA_CHAINS}
        by_lsoda = card.run_all(build("LSODA"), f"{title}, LSODA", given.draws, **fewer, only=1)
        runs |= {f"{name}, LSODA": run for name, run in by_lsoda.items()}
        rows = {name: card.compare(posed, run) for name, run in runs.items()}
        estimates = card.variance_estimates(posed, next(iter(runs.values())), given.seed)
        given.show(card.table(title, rows, estimates))
        summary[title] = {"samplers": rows, "variance_estimates": estimates}
        shown[title] = (posed, runs, rows)
    given.save("card_ode", figures.draw_ode(shown))
    given.save_summary(summary, printed=False)
    return summary


if __name__ == "__main__":
    main()

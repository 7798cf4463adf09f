"""Heat, the whole composition: two meshes, noisy energies and gradients, f-reSGLD, m-reSGLD, and a constraint.

Two thermometers leave two answers to where the heat started (`invsamp.problems.heat_source`). A channel cuts one of
them off: the heat started on this side of it. The cold replica moves on the fine mesh, the hot one on the coarse mesh.
Both are given energies and gradients with noise, as Monte Carlo or unconverged solvers have it. The noise is larger on
the coarse mesh, and in the upper half of the plate.

f-reSGLD takes the gradients' noise out of the noise that a step injects, so it has to know its variance. A running
average is one number for all states; kernel ridge regression is a function of the state. For comparison, m-reSGLD
leaves the gradients' noise in, and swaps by both rungs' energies as if these differed by noise alone. The exact
posterior comes from quadrature on the plate.

With kernel ridge regression all quantities but one are right within a few standard errors. The sd of x next to the
channel is 1 to 4% too small, because the drift of a reflected step is reflected, too. At a quarter of the step size it
is right.
"""

from __future__ import annotations

from typing import Any

import _card as card
import _card_figures as figures
import numpy as np
from _common import options

import invsamp as iv
from invsamp.problems import heat_source as problem

CHAINS, WARMUP, THIN = 32, 1000, 5
TEMPERATURES = (1.0, 4.0)
#: Of the temperatures: modes with sds of 0.05, which a hot replica at temperature 4 connects.
NOISE_SD = 0.3
#: Of the quadrature, along each side of the plate.
POINTS = 400
#: The channel: a source lies to the left of it. Without it half of the upper mode would be on its other side.
CHANNEL = iv.constraint("x + 0.25 * y < 0.72")
#: 0.03 of a mode's variance on the cold rung, 0.1 on the hot one. A step is unstable from 2 on.
STEP_SIZES = (0.03 * 0.05**2, 0.1 * 0.05**2)
#: Energies off by some tenths, and gradients with up to 0.6 of the variance that a step injects: 2 T / step size.
NOISE = {
    "fine": card.Noise(card.Rising(0.2, 0.6, 1, 0.4, 0.03), card.Rising(30.0, 130.0, 1, 0.4, 0.03)),
    "coarse": card.Noise(card.Rising(0.4, 1.2, 1, 0.4, 0.03), card.Rising(35.0, 140.0, 1, 0.4, 0.03)),
}


def case() -> card.Case:
    """The posterior of the center, its noise, and the exact answer."""
    free = problem.two_modes(NOISE_SD)
    posterior = iv.Posterior(free.prior, free.forward, free.data, iv.GaussianNoise(NOISE_SD), domain=CHANNEL)
    grid = problem.quadrature(free, points=POINTS)
    points = np.stack(np.meshgrid(grid.points, grid.points, indexing="ij"), axis=-1).reshape(-1, 2)
    inside = posterior.domain.contains(points)
    weights = grid.density.ravel()[inside]
    return card.Case(
        posterior=posterior,
        noise=NOISE,
        temperatures=TEMPERATURES,
        step_sizes=STEP_SIZES,
        preconditioner=None,
        truth=dict(zip(posterior.names, problem.TRUE_CENTER, strict=True)),
        reference=card.Reference(points[inside], weights / weights.sum()),
        statistics=statistics,
    )


def statistics(points: card.Array, weights: card.Array) -> dict[str, float]:
    """Moments of all points, the upper mode's weight, and the sds within each mode."""
    upper = problem.is_upper(points)
    mean, sd = card.moments(points, weights)
    found = {"mean of x": mean[0], "mean of y": mean[1], "sd of x": sd[0], "sd of y": sd[1]}
    found["upper mode's weight"] = weights[upper].sum() / weights.sum()
    for name, side in (("upper", upper), ("lower", ~upper)):
        _, within = card.moments(points[side], weights[side])
        found |= {f"sd of x, {name} mode": within[0], f"sd of y, {name} mode": within[1]}
    return {name: float(value) for name, value in found.items()}


def main() -> dict[str, Any]:
    """All samplers beside quadrature: the table, the figure and the summary."""
    given = options("card_heat", "A heat source beside a channel, by noisy solves on two meshes.", draws=3000)
    posed = case()
    runs = card.run_all(posed, "heat source", given.draws, WARMUP, CHAINS, THIN, given.seed)
    rows = {name: card.compare(posed, run) for name, run in runs.items()}
    estimates = card.variance_estimates(posed, next(iter(runs.values())), given.seed)
    given.show(card.table("Heat source beside a channel", rows, estimates))
    given.save("card_heat", figures.draw_heat(posed, runs, rows))
    summary: dict[str, Any] = {"seed": given.seed, "chains": CHAINS, "draws_per_chain": given.draws, "thin": THIN}
    summary["samplers"] = rows
    summary["variance_estimates"] = estimates
    given.save_summary(summary, printed=False)
    return summary


if __name__ == "__main__":
    main()

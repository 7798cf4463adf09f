"""nutpie's NUTS on a potential of the package, counted as in the battery."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from invsamp.protocols import Array, Potential


class Nuts(NamedTuple):
    """Draws, and their cost."""

    positions: Array  # (chains, draws, d)
    energy: Array  # (chains, draws)
    warmup_gradients: int
    gradients: int  # after it
    divergences: int


def nuts(
    potential: Potential, draws: int, chains: int, seed: int, *, low_rank: bool = True, starts: Array | None = None
) -> Nuts:
    """Sample as nutpie does by default: 400 steps of warm-up, starts uniform in (-2, 2), its low-rank metric.

    Parameters
    ----------
    potential : Potential
        A potential without bounds.
    low_rank : bool
        False: nutpie's diagonal metric.
    starts : ndarray, shape (chains, d), optional
        Starting points instead.
    """
    import nutpie
    from nutpie.compiled_pyfunc import from_pyfunc

    d = potential.dimension

    def make_density() -> Callable[[Array], tuple[float, Array]]:
        def density(x: Array) -> tuple[float, Array]:
            energy, gradient = potential.energy_and_gradient(np.array(x, dtype=float)[None])
            return -float(energy[0]), -gradient[0]

        return density

    def make_expand(*seeds: int) -> Callable[[Array], dict[str, Array]]:
        return lambda x: {"x": np.array(x, dtype=float)}

    given = iter(np.array([]) if starts is None else starts)
    first = None if starts is None else lambda seed: np.array(next(given))
    kinds = [np.dtype("float64")], [(d,)], ["x"]
    model = from_pyfunc(d, make_density, make_expand, *kinds, make_initial_point_fn=first)
    settings: dict[str, Any] = {"draws": draws, "chains": chains, "cores": 1, "seed": seed, "progress_bar": False}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trace = nutpie.sample(model, **settings, low_rank_modified_mass_matrix=low_rank)
    stats, before = trace["sample_stats"], trace["warmup_sample_stats"]
    counts = int(before["n_steps"].sum()), int(stats["n_steps"].sum())
    return Nuts(trace["posterior"]["x"].values, -stats["logp"].values, *counts, int(stats["diverging"].sum()))

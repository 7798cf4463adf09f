"""Time per move that leaves the domain: invsamp's compiled specular path against the same path with Shapely.

    pip install "shapely>=2"
    python benchmarks/reflection.py [--repeats N]

Octagon (8 edges) and flower (400), one move and batches of 64 and 1,024, every one of which leaves the domain. Goal: at
least 5 times faster. Then one pair-iteration of r2SGLD on the flower with 64 chains; goal: below 4 microseconds per
chain. Medians of repeats, the two implementations in turns.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable

import numpy as np

import invsamp as iv
from invsamp.domains import Polygon
from invsamp.domains.contract import MAX_BOUNCES
from invsamp.engine.exchange.swap_scheduler import Exchange
from invsamp.engine.rungs.rung_chains import RungChains
from invsamp.evaluate.counted import CountedPotential
from invsamp.evaluate.requests import answered
from invsamp.problems import constrained_mixtures
from invsamp.protocols import Array
from invsamp.samplers import r2sgld

try:
    import shapely
except ImportError:
    shapely = None

FASTER, PAIR_ITERATION, CHAINS = 5.0, 4.0, 64  # goals: ratio; microseconds per chain
MOVE_SD = 0.17  # of the hot chain of r2SGLD: step size 1.5e-3 at temperature 10


class ShapelyReflection:
    """The specular path with Shapely's vectorized predicates: a tree of the edges finds those that the moves cross.

    Only the geometry is Shapely's; NumPy reflects, and every round treats all moves that have not ended.
    """

    def __init__(self, vertices: Array) -> None:
        following = np.roll(vertices, -1, axis=0)
        self._begin, self._along = vertices, following - vertices
        normals = np.column_stack([self._along[:, 1], -self._along[:, 0]])
        self._normals = normals / np.linalg.norm(normals, axis=1, keepdims=True)
        self._tree = shapely.STRtree(shapely.linestrings(np.stack([vertices, following], axis=1)))
        self._polygon = shapely.Polygon(vertices)
        shapely.prepare(self._polygon)

    def reflect(self, position: Array, move: Array) -> Array:
        """Ends (n, 2) of the specular paths."""
        at, left = position.copy(), move.copy()
        under_way, last = np.arange(len(at)), np.full(len(at), -1)
        for _ in range(MAX_BOUNCES):
            segments = shapely.linestrings(np.stack([at[under_way], at[under_way] + left[under_way]], axis=1))
            who, edge = self._tree.query(segments, predicate="intersects")
            row = under_way[who]
            # an edge is hit from inside, and not the one just left
            rate = (self._normals[edge] * left[row]).sum(axis=1)
            met = (rate > 0.0) & (edge != last[row])
            row, edge, rate = row[met], edge[met], rate[met]
            if not len(row):
                at[under_way] += left[under_way]
                break
            share = ((self._begin[edge] - at[row]) * self._normals[edge]).sum(axis=1) / rate
            first = np.lexsort((share, row))
            first = first[np.unique(row[first], return_index=True)[1]]
            row, edge, share, rate = row[first], edge[first], share[first, None], rate[first, None]
            done = np.setdiff1d(under_way, row, assume_unique=True)
            at[done] += left[done]
            at[row] += share * left[row]
            left[row] = (1.0 - share) * (left[row] - 2.0 * rate * self._normals[edge])
            last[row], under_way = edge, row
        failed = ~shapely.contains_xy(self._polygon, at[:, 0], at[:, 1])
        at[failed] = position[failed]
        return at


def leaving(domain: Polygon, n: int) -> tuple[Array, Array]:
    """Uniform starts in the domain and Gaussian moves that all leave it."""
    rng, starts, moves = np.random.default_rng(1), [], []
    while sum(map(len, starts)) < n:
        start, move = domain.sample_uniform(rng, 4 * n), MOVE_SD * rng.standard_normal((4 * n, 2))
        out = ~domain.contains(start + move)
        starts.append(start[out])
        moves.append(move[out])
    return np.concatenate(starts)[:n], np.concatenate(moves)[:n]


def in_turn(functions: list[Callable[[], object]], repeats: int, seconds: float) -> list[float]:
    """Median over repeats of the time of one call of each function in microseconds, the functions in turn."""
    calls = []
    for function in functions:
        function()
        begin = time.perf_counter()
        function()
        calls.append(max(1, int(seconds / (time.perf_counter() - begin))))
    times: list[list[float]] = [[] for _ in functions]
    for _ in range(repeats):
        for function, count, spent in zip(functions, calls, times, strict=True):
            begin = time.process_time()  # other work on the machine does not count
            for _ in range(count):
                function()
            spent.append((time.process_time() - begin) / count * 1e6)
    return [statistics.median(spent) for spent in times]


def pair(chains: int) -> Callable[[], None]:
    """One pair-iteration of r2SGLD on the flower, as the loop of `invsamp.sample` makes it."""
    target = constrained_mixtures.target("flower")
    sampler = r2sgld((1.0, 10.0), (5e-4, 1.5e-3), estimator=constrained_mixtures.noise())
    potential = CountedPotential(target.potential(), "target")
    swap_seed, *seeds = np.random.SeedSequence(1).spawn(3)
    rungs = [RungChains(rung, potential, target.domain, seed) for rung, seed in zip(sampler.rungs, seeds, strict=True)]
    for rung in rungs:
        rung.start(target.sample_start(np.random.default_rng(0), chains))
        rung.step_size = float(rung.settings.step_size)  # type: ignore[arg-type]
    exchange = Exchange(sampler.swap, rungs, swap_seed)

    def iterate() -> None:
        for rung in rungs:
            rung.step()
        if exchange.due():
            answered(exchange.meet(), potential.answer_all)

    return iterate


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=15)
    repeats = parser.parse_args().repeats
    if shapely is None or int(shapely.__version__.split(".")[0]) < 2:
        sys.exit('benchmarks/reflection.py compares with Shapely 2, which is not installed: pip install "shapely>=2"')
    print(f"invsamp {iv.__version__}, Shapely {shapely.__version__}; microseconds per move that leaves the domain")
    print(f"{'domain':10s} {'edges':>5s} {'moves':>6s} {'invsamp':>9s} {'Shapely':>9s} {'ratio':>7s}")
    for name in ("octagon", "flower"):
        domain, theirs = constrained_mixtures.domain(name), ShapelyReflection(constrained_mixtures.vertices(name))
        for n in (1, 64, 1024):
            # one move at a time: the mean over many, as their bounces differ
            start, move = leaving(domain, max(n, 64))
            batches = [slice(k, k + n) for k in range(0, len(start), n)]
            ours_end = np.concatenate([domain.reflect(start[b], move[b]).position for b in batches])
            ends = np.concatenate([theirs.reflect(start[b], move[b]) for b in batches])
            if not np.allclose(ends, ours_end, atol=1e-9):
                sys.exit(
                    f"the two paths differ on the {name} in {(~np.isclose(ends, ours_end)).any(axis=1).sum()} moves"
                )
            ours, other = in_turn(
                [
                    lambda d=domain, s=start, m=move, bs=batches: [d.reflect(s[b], m[b]) for b in bs],
                    lambda d=theirs, s=start, m=move, bs=batches: [d.reflect(s[b], m[b]) for b in bs],
                ],
                repeats,
                0.05,
            )
            ratio, kept = other / ours, "met" if other / ours >= FASTER else "missed"
            print(
                f"{name:10s} {len(constrained_mixtures.vertices(name)):5d} {n:6d} {ours / len(start):9.3f} "
                f"{other / len(start):9.3f} {ratio:6.1f}x  >= {FASTER:g}x: {kept}"
            )
    (spent,) = in_turn([pair(CHAINS)], repeats, 0.2)
    kept = "met" if spent / CHAINS < PAIR_ITERATION else "missed"
    print(
        f"r2SGLD on the flower, {CHAINS} chains: {spent / CHAINS:.2f} microseconds per chain and pair-iteration  "
        f"< {PAIR_ITERATION:g}: {kept}"
    )


if __name__ == "__main__":
    main()

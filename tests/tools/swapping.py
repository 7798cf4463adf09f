"""Rungs side by side, with every swap rule, for tests of what happens at a swap."""

from __future__ import annotations

import math

import numpy as np

from invsamp.domains import Unbounded
from invsamp.engine.evaluation import Evaluator
from invsamp.engine.replica import Replica
from invsamp.ladder import Rung, Swap
from invsamp.posing.potential import FunctionPotential
from invsamp.swap.exchange import Exchange
from invsamp.swap.rules import corrected, delayed_acceptance, fast, multi_variance, naive, product_target
from invsamp.swap.side import LocalSide
from invsamp.swap.walkers import Walkers

RULES = {
    "naive": naive(assume_unbiased=True),
    "corrected": corrected(assume_unbiased=True),
    "fast": fast(assume_unbiased=True),
    "multi_variance": multi_variance(0.5, assume_unbiased=True),
    "product_target": product_target(),
    "delayed_acceptance": delayed_acceptance(),
}


def fine(position):
    return 0.5 * (position**2).sum(axis=1), position.copy()


def coarse(position):
    away = position - 0.4
    return 0.7 * (away**2).sum(axis=1) + 0.3, 1.4 * away


def ladder(functions, temperatures=(1.0, 4.0), chains=64, rungs=None, rule=None, seed=0, **swap):
    """Replicas on the given functions, at normal positions, and their exchange; equal functions share an evaluator."""
    evaluators = {f: Evaluator(FunctionPotential(f, 2), f.__name__) for f in functions}
    root = np.random.SeedSequence(seed)
    swap_seed, *seeds = root.spawn(len(functions) + 1)
    replicas = []
    for k, (function, temperature) in enumerate(zip(functions, temperatures, strict=True)):
        settings = {"step_size": 0.1} | (rungs[k] if rungs else {})
        replica = Replica(Rung(temperature, **settings), evaluators[function], Unbounded(), seeds[k])
        replica.start(math.sqrt(temperature) * np.random.default_rng(k).standard_normal((chains, 2)))
        replica.step_size = 0.1
        replicas.append(replica)
    return replicas, Exchange(Swap(rule, **({"fraction": 1.0} | swap)), replicas, swap_seed)


def accept_seed(seed):
    """Of the acceptances of the first pair, from that of the exchange."""
    return seed.spawn(3)[2].spawn(2)[0]


def where(exchange):
    """Who is where (rungs, chains)."""
    return np.stack([walkers.replica for walkers in exchange.walkers.values()])


def sides(replicas):
    walkers = [Walkers.at(k, 2, len(replicas[0].position)) for k in range(2)]
    return [LocalSide(replica, walkers[k], k, 2) for k, replica in enumerate(replicas)]

"""Rungs side by side, with every swap rule, for tests of what happens at a swap."""

from __future__ import annotations

import math

import numpy as np

from invsamp.domains import Unbounded
from invsamp.engine.exchange.swap_acceptance import SwapAttempt
from invsamp.engine.exchange.swap_scheduler import Exchange
from invsamp.engine.rungs.rung_chains import RungChains
from invsamp.evaluate.counted import CountedPotential
from invsamp.evaluate.requests import answered
from invsamp.ladder import Rung, Swap
from invsamp.posing.posterior.function_potential import FunctionPotential
from invsamp.swaps.rules import (
    delayed_acceptance,
    metropolis,
    multi_variance,
    noise_penalty,
    product_target,
    state_dependent_penalty,
)

RULES = {
    "metropolis": metropolis(assume_unbiased=True),
    "noise_penalty": noise_penalty(assume_unbiased=True),
    "state_dependent_penalty": state_dependent_penalty(assume_unbiased=True),
    "multi_variance": multi_variance(0.5, assume_unbiased=True),
    "product_target": product_target(),
    "delayed_acceptance": delayed_acceptance(),
}


def fine(position):
    return 0.5 * (position**2).sum(axis=1), position.copy()


def coarse(position):
    away = position - 0.4
    return 0.7 * (away**2).sum(axis=1) + 0.3, 1.4 * away


def ladder(functions, temperatures=(1.0, 4.0), chains=64, settings=None, rule=None, seed=0, **swap):
    """Rungs on the given functions, at normal positions, and their exchange; equal functions share a potential."""
    potentials = potentials_of(functions)
    root = np.random.SeedSequence(seed)
    swap_seed, *seeds = root.spawn(len(functions) + 1)
    rungs = []
    for k, (function, temperature) in enumerate(zip(functions, temperatures, strict=True)):
        own = {"step_size": 0.1} | (settings[k] if settings else {})
        rung = RungChains(Rung(temperature, **own), potentials[function], Unbounded(), seeds[k])
        width = math.sqrt(temperature) if isinstance(temperature, float) else 1.0
        rung.start(width * np.random.default_rng(k).standard_normal((chains, 2)))
        rung.step_size = 0.1
        rungs.append(rung)
    return rungs, Exchange(Swap(rule, **({"fraction": 1.0} | swap)), rungs, swap_seed)


def accept_seed(seed):
    """Of the acceptances of the first pair, from that of the exchange."""
    return seed.spawn(3)[2].spawn(2)[0]


def where(exchange):
    """Who is where (rungs, chains)."""
    return exchange.replica_indices.replica


def potentials_of(functions):
    """One for each function, which know each other."""
    known, found = {}, {}
    for k, f in enumerate(dict.fromkeys(functions)):
        name = f"{f.__name__} {k}"
        found[f] = known[name] = CountedPotential(FunctionPotential(f, 2), name, known)
    return found


def swap(exchange):
    """A step of the exchange, all that it asks for answered at once."""
    if exchange.due():
        answered(exchange.attempt_swaps(), exchange._rungs[0].answer)


def log_ratio(rungs, rule, stage, **settings):
    """Log ratios of one stage of all chains, and the sum of their noise's sds."""
    asking = SwapAttempt(*rungs, rule, same=True, **settings).log_ratio(stage, np.arange(len(rungs[0].position)))
    return answered(asking, rungs[0].answer)

"""Estimators joined to potentials, whose requests are answered at once."""

from __future__ import annotations

from invsamp.estimators.contract import probe
from invsamp.evaluate.counted import CountedPotential
from invsamp.evaluate.requests import answered


class Asked:
    """A bound estimator without its generators; ``source`` is a potential, or a `CountedPotential` of several."""

    def __init__(self, estimator, source, structure="isotropic"):
        self.source = source if isinstance(source, CountedPotential) else CountedPotential(source, "model")
        self.bound, self.structure = estimator.bind(self.source, structure), structure

    def estimate(self, rng, position):
        return self._answered(self.bound.estimate(rng, position))

    def energy(self, rng, position):
        found = self._answered(self.bound.estimate(rng, position, gradient=False))
        return found.energy, found.energy_variance

    def probe(self, rng, position, repeats):
        return self._answered(probe(self.bound, rng, position, repeats, self.structure))

    def _answered(self, asking):
        return answered(asking, self.source.answer_all)

    def __getattr__(self, name):
        return getattr(self.bound, name)

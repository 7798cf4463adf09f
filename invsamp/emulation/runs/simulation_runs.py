"""The simulations of one emulation: what was run, what for, and what came of it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from invsamp.emulation.runs.inputs import Inputs, given, inputs_of
from invsamp.emulation.runs.journal import Journal
from invsamp.posing.expressions.variable_names import labels
from invsamp.posing.posterior.posterior import Posterior
from invsamp.protocols import Array
from invsamp.simulations.rows import FINITE, not_finite


class SpentError(Exception):
    """The budget does not allow for any more simulations."""


class Simulations:
    """Runs the simulator, and keeps all runs in order.

    Parameters
    ----------
    posterior : Posterior
        Of one fidelity.
    budget : int
        Simulations, at most.
    journal : Journal, optional
        Of what was asked for before a kill.
    earlier : tuple of ndarray, shapes (k, p) and (k, m), optional
        Natural values of the unknown inputs, and outputs, of simulations that were there before. One that is asked for
        counts as asked for, and no more as earlier.

    Attributes
    ----------
    coordinates : ndarray, shape (n, p)
        Of the inputs of all simulations so far, earlier ones first.
    outputs : ndarray, shape (n, m)
        In the same order; NaN where a simulation failed.
    purposes : list of str
        What each was for.
    held : ndarray of bool, shape (k,)
        Which of the last wave had been there before it.
    seconds : float
        Of all waves.
    failure : str or None
        Where the last simulation failed, and what it said.
    incomplete : int
        Simulations that failed because some of their outputs, not all, were not finite.
    trend : Trend, optional
        A cheap simulator, which runs wherever this one does; the difference is emulated.
    """

    trend: Any = None
    failure: str | None = None
    incomplete: int = 0

    def __init__(
        self,
        posterior: Posterior,
        budget: int,
        journal: Journal | None = None,
        earlier: tuple[Array, Array] | None = None,
    ) -> None:
        self.posterior, self.budget, self._journal = posterior, budget, journal
        self.inputs: Inputs = inputs_of(posterior)
        posed = posterior._posed[posterior.fidelities[-1]]  # noqa: SLF001
        self.model, self.noise = posed.model, posed.noise
        self.coordinates = np.empty((0, self.inputs.coordinates.dimension))
        self.outputs = np.empty((0, self.model.observations))
        self._natural = np.empty_like(self.coordinates)
        self.held = np.empty(0, dtype=bool)
        self.purposes: list[str] = []
        self.waves, self.seconds = 0, 0.0
        self._errors = np.geterr()  # the simulator's floating-point errors are reported as the caller wants
        #: Called after each wave.
        self.watch: Callable[[Simulations], None] = lambda simulations: None
        if earlier is not None:
            self._keep(*earlier, "earlier")

    def __len__(self) -> int:
        return len(self.purposes)

    @property
    def made(self) -> int:
        """How many this emulation has asked for."""
        return len(self.purposes) - self.purposes.count("earlier")

    @property
    def left(self) -> int:
        """How many more the budget allows for."""
        return self.budget - self.made

    @property
    def succeeded(self) -> npt.NDArray[np.bool_]:
        """Which simulations (n,) did not fail, nor gave what no data can come from."""
        return self.noise.possible(self.outputs)

    def coordinates_at(self, position: Array) -> Array:
        """Coordinates (n, p) of the inputs at positions (n, dimension)."""
        return self.inputs.encode(given(self.posterior, self.posterior.to_theta(position)))

    def run(self, position: Array, purpose: str) -> Array:
        """Outputs (n, m) at positions (n, dimension), NaN where a simulation fails.

        Raises
        ------
        SpentError
            If there are more than the budget allows for; nothing is run then.
        """
        if len(position) > self.left:
            raise SpentError
        natural = given(self.posterior, self.posterior.to_theta(position))
        if self._journal is not None:
            natural = self._journal.wave(natural)
        began = time.monotonic()
        with np.errstate(**self._errors):
            outputs = np.asarray(self.model(natural))
        self.seconds += time.monotonic() - began
        self.waves += 1
        self._look(natural, outputs)
        self._take_over(natural)
        self._keep(natural, outputs, purpose)
        if self.trend is not None:
            self.trend.learn(position)
        self.watch(self)
        return self.outputs[len(self.outputs) - len(position) :]

    def _take_over(self, natural: Array) -> None:
        """Leave out the earlier ones among simulations (k, p) that are asked for, so that none counts twice."""
        asked, there = ([row.tobytes() for row in rows] for rows in (natural, self._natural))
        before, now = set(there), set(asked)
        self.held = np.array([row in before for row in asked], dtype=bool)
        left = [k for k, row in enumerate(there) if self.purposes[k] != "earlier" or row not in now]
        self.coordinates, self.outputs = self.coordinates[left], self.outputs[left]
        self._natural, self.purposes = self._natural[left], [self.purposes[k] for k in left]

    def _look(self, natural: Array, outputs: Array) -> None:
        """Keep in words where the last of some simulations (n, p) has failed, and how."""
        said = getattr(self.model.model, "messages", None)  # of a model that keeps those of its last rows
        for k in np.flatnonzero(~np.isfinite(outputs).all(axis=1)):
            words = not_finite(outputs[k]) or ""
            if np.isnan(outputs[k]).all():
                words = (self.model.message if said is None else said[k]) or words
            self.incomplete += FINITE in words and not words.startswith(f"{outputs.shape[1]} of")
            where = ", ".join(
                f"{name} = {value:.6g}" for name, value in zip(input_labels(self), natural[k], strict=True)
            )
            self.failure = f"at {where}: {words}"

    def _keep(self, natural: Array, outputs: Array, purpose: str) -> None:
        outputs = np.where(np.isfinite(outputs).all(axis=1, keepdims=True), outputs, np.nan)
        self.coordinates = np.concatenate([self.coordinates, self.inputs.encode(natural)])
        self.outputs = np.concatenate([self.outputs, outputs])
        self._natural = np.concatenate([self._natural, natural])
        self.purposes += [purpose] * len(natural)


def input_labels(simulations: Simulations) -> list[str]:
    """Names of the columns of the inputs."""
    shapes = simulations.posterior.input_shapes()
    return list(labels({name: shapes[name] for name in simulations.inputs.names}))

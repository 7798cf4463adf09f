"""A run of an emulated posterior, with what made it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from invsamp.arguments import integer, optional
from invsamp.arguments import names as distinct_names
from invsamp.diagnostics import weights
from invsamp.emulation.certificate import Certificate, certificate
from invsamp.emulation.emulation import Emulated
from invsamp.emulation.emulator.emulated_posterior import EMULATOR, EmulatedModel, EmulatedPosterior
from invsamp.emulation.final_draws import run_of
from invsamp.emulation.runs.simulation_runs import Simulations, input_labels
from invsamp.emulation.search.search_points import energies
from invsamp.engine.ensemble.run_settings import Plan
from invsamp.posing.posterior.posterior import Posterior
from invsamp.protocols import Array
from invsamp.results.arrays import Source
from invsamp.results.run import Run
from invsamp.samplers.surrogate import surrogate_exchange

#: Steps in which the step size on the emulator is found.
WARMUP_STEPS = 200
_WHY = (
    "the outputs of the simulator are emulated, from {} simulations, of which {} failed, so no derivatives "
    "are needed. The draws are approximate; run.certify() checks them"
)

if TYPE_CHECKING:
    import pandas as pd


class EmulatedRun(Run):
    """Draws of a posterior whose simulator is emulated; made by `invsamp.emulate`.

    It is a `Run`. ``run.report["emulation"]`` has the simulations by purpose, and the rounds.

    Attributes
    ----------
    posterior : EmulatedPosterior
        What was sampled: its predictions are those of the emulator, for nothing.
    """

    def __init__(self, source: Source, simulations: Simulations, emulated: Emulated) -> None:
        super().__init__(source)
        self._simulations, self._emulated = simulations, emulated

    @property
    def posterior(self) -> EmulatedPosterior:
        """The emulated posterior that was sampled."""
        return self._emulated.fitted.posterior

    @property
    def levels(self) -> Posterior:
        """The posterior in two fidelities, the emulator and the simulator, for samplers of several fidelities."""
        of, emulator = self._simulations.posterior, self.posterior.emulator
        name = of.fidelities[-1]
        return of.with_forward({EMULATOR: EmulatedModel(emulator), name: of.forward[name]})

    @property
    def simulations(self) -> pd.DataFrame:
        """All simulations in their order: purpose, inputs by name, and whether they succeeded."""
        import pandas as pd

        runs = self._simulations
        natural = runs.inputs.coordinates.to_theta(runs.coordinates)
        table = pd.DataFrame(natural, columns=input_labels(runs))
        table.insert(0, "purpose", runs.purposes)
        table["succeeded"] = runs.succeeded
        return table

    def error_sd(self) -> Array:
        """Sd of the emulator's error in the misfit at each draw, shape (chains, draws)."""
        theta = self.theta
        position = self.posterior.to_position(theta.reshape(-1, theta.shape[2]))
        return self.posterior.misfit_errors(position).reshape(theta.shape[:2])

    def certify(self, simulations: int = 64) -> Certificate:
        """Check the emulated posterior by simulations at its draws.

        Parameters
        ----------
        simulations : int
            True runs, at draws that are evenly spaced; beyond the budget of `invsamp.emulate`.

        Returns
        -------
        Certificate
            Prints itself, with what it cannot see. Its ``run`` has the draws with weights, which are of the posterior
            of the simulator itself.

        Raises
        ------
        ValueError
            If ``simulations`` is less than 8, or more than there are draws.
        """
        theta = self.theta.reshape(-1, self.theta.shape[2])
        count = integer("simulations", simulations, least=8, most=len(theta))
        chosen = theta[weights.resampled(np.ones(len(theta)), count)]
        position = self.posterior.to_position(chosen)
        runs = self._simulations
        runs.budget += count
        outputs = runs.run(position, "certificate")
        truth = energies(runs.posterior, position, outputs)
        emulated = self.posterior.potential().energy(position)
        with np.errstate(invalid="ignore"):
            log_weight = np.where(np.isfinite(truth), emulated - truth, -np.inf)
        search = self._emulated.search
        return certificate(self, chosen, log_weight, search.once / len(search.weighty))

    def sample_exactly(self, draws: int = 100, chains: int = 4, exchange_interval: int = 40, seed: int = 0) -> Run:
        """Draws of the posterior of the simulator itself: chains move on the emulator, and the simulator decides.

        By `invsamp.samplers.surrogate_exchange`, begun at draws of this run. A draw of a chain takes one simulation,
        which the database keeps; some more are made at the start.

        Parameters
        ----------
        draws, chains : int
        exchange_interval : int
            Steps on the emulator for each simulation.
        seed : int

        Returns
        -------
        Run

        Raises
        ------
        ValueError
            If a number is less than 1.
        """
        every = integer("exchange_interval", exchange_interval, least=1)
        draws, chains = integer("draws", draws, least=1), integer("chains", chains, least=1)
        theta = self.theta.reshape(-1, self.theta.shape[2])
        rng = np.random.default_rng(integer("seed", seed, least=0))
        start = self.posterior.to_position(theta[rng.integers(len(theta), size=chains)])
        plan = Plan(draws, max(WARMUP_STEPS, 2 * every), every, chains, seed, check_gradient=False)
        return run_of(self.levels, surrogate_exchange(exchange_interval=every), plan, start)

    def plot_error_sd(self, names: Sequence[str] | None = None) -> Any:
        """The emulator's sd of the misfit over pairs of parameters, and where simulations were.

        Parameters
        ----------
        names : sequence of str, optional
            Columns of ``run.labels``, one to six of them; by default the first six.

        Returns
        -------
        matplotlib.figure.Figure

        Raises
        ------
        ValueError
            If a name is not a label of the run, or there are more than six.
        """
        from invsamp.plots.emulation import plot_error_sd

        return plot_error_sd(self, optional(distinct_names, "names", names))

    def plot_emulation(self) -> Any:
        """Simulations by purpose; errors and posterior by round; the emulator's sd over two parameters.

        Returns
        -------
        matplotlib.figure.Figure
        """
        from invsamp.plots.emulation import plot_emulation

        return plot_emulation(self)


def with_report(run: Run, facts: dict[str, object], messages: list[str]) -> Source:
    """The source of a run, with facts and warnings in its report."""
    source = run._source  # noqa: SLF001
    report = json.loads(source.attributes["report"])
    report["emulation"] = facts
    report["decisions"] = [_WHY.format(facts["simulations"], facts["failed"]), *report.get("decisions", [])]
    report["warnings"] = [*messages, *report.get("warnings", [])]
    source.attributes = dict(source.attributes) | {"report": json.dumps(report)}
    return source

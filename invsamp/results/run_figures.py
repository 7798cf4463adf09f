"""Figures of a run, as methods; `invsamp.plots`, where they are drawn, is imported when one is asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

import numpy.typing as npt

from invsamp.posing.posterior.posterior import Posterior
from invsamp.protocols import Facts
from invsamp.results.fields import Field, Mesh

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from invsamp.plots.figure import Run as Drawn
    from invsamp.plots.profiles import ProfiledAll


class Pictures:
    """Base of `Run`."""

    def plot_field(
        self: Drawn,
        field: Field,
        mesh: Mesh,
        *,
        sensors: npt.ArrayLike | None = None,
        truth: Mapping[str, npt.ArrayLike] | None = None,
        level: float | None = None,
        on: Literal["nodes", "cells"] = "nodes",
        label: str | None = None,
    ) -> Figure:
        """Mean and uncertainty of an unknown field; see `invsamp.plots.plot_field`."""
        from invsamp.plots import plot_field

        return plot_field(self, field, mesh, sensors=sensors, truth=truth, level=level, on=on, label=label)

    def plot_trace(self: Drawn, names: Sequence[str] | None = None) -> Figure:
        """Draws of every chain in order; see `invsamp.plots.plot_trace`."""
        from invsamp.plots import plot_trace

        return plot_trace(self, names)

    def plot_marginals(
        self: Drawn, truth: Facts | None = None, names: Sequence[str] | None = None, truth_label: str = "truth"
    ) -> Figure:
        """Density of every parameter; see `invsamp.plots.plot_marginals`."""
        from invsamp.plots import plot_marginals

        return plot_marginals(self, truth, names, truth_label=truth_label)

    def plot_pairs(self: Drawn, names: Sequence[str] | None = None, truth: Facts | None = None) -> Figure:
        """Density of every pair, with the domain's boundary; see `invsamp.plots.plot_pairs`."""
        from invsamp.plots import plot_pairs

        return plot_pairs(self, names, truth)

    def plot_swaps(self: Drawn) -> Figure:
        """Swap rates and the paths of the walkers; see `invsamp.plots.plot_swaps`."""
        from invsamp.plots import plot_swaps

        return plot_swaps(self)

    def plot_ladder(self: Drawn, name: str | None = None) -> Figure:
        """Energies and one parameter at every temperature; see `invsamp.plots.plot_ladder`."""
        from invsamp.plots import plot_ladder

        return plot_ladder(self, name)

    def plot_residuals(
        self: Drawn,
        posterior: Posterior | None = None,
        x: npt.ArrayLike | None = None,
        x_label: str | None = None,
        series: Sequence[str] | None = None,
    ) -> Figure:
        """What the model leaves of the data; see `invsamp.plots.plot_residuals`."""
        from invsamp.plots import plot_residuals

        return plot_residuals(self, posterior, x, x_label, series)

    def plot_predictive(
        self: Drawn,
        posterior: Posterior | None = None,
        x: npt.ArrayLike | None = None,
        x_label: str | None = None,
        series: Sequence[str] | None = None,
        curve: tuple[npt.ArrayLike, Posterior] | None = None,
    ) -> Figure:
        """Predicted data against the data; see `invsamp.plots.plot_predictive`."""
        from invsamp.plots import plot_predictive

        return plot_predictive(self, posterior, x, x_label, series, curve)

    def plot_phase(
        self: Drawn,
        posterior: Posterior | None = None,
        outputs: Sequence[int | str] | None = None,
        series: Sequence[str] | None = None,
        curve: Posterior | None = None,
    ) -> Figure:
        """Outputs against each other; see `invsamp.plots.plot_phase`."""
        from invsamp.plots import plot_phase

        return plot_phase(self, posterior, outputs, series, curve)

    def plot_identifiability(self: Drawn, names: Sequence[str] | None = None) -> Figure:
        """Stiff and sloppy directions of the parameters; see `invsamp.plots.plot_identifiability`."""
        from invsamp.plots import plot_identifiability

        return plot_identifiability(self, names)

    def plot_profiles(self: Drawn, profiles: ProfiledAll, names: Sequence[str] | None = None) -> Figure:
        """Profiles against the posterior; see `invsamp.plots.plot_profiles`."""
        from invsamp.plots import plot_profiles

        return plot_profiles(self, profiles, names)

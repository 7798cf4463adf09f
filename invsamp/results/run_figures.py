"""Figures of a run, as methods; `invsamp.plots`, where they are defined, is imported when one is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from invsamp import plots


class _Figure:
    """A method that is the function of its name in `invsamp.plots`."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, run: object, owner: type) -> Any:
        from invsamp import plots

        return getattr(plots, self._name).__get__(run, owner)


class Pictures:
    """Base of `Run`."""

    if TYPE_CHECKING:
        plot_field = plots.plot_field
        plot_trace = plots.plot_trace
        plot_marginals = plots.plot_marginals
        plot_pairs = plots.plot_pairs
        plot_swaps = plots.plot_swaps
        plot_ladder = plots.plot_ladder
        plot_residuals = plots.plot_residuals
        plot_predictive = plots.plot_predictive
        plot_phase = plots.plot_phase
        plot_identifiability = plots.plot_identifiability
        plot_profiles = plots.plot_profiles
        plot_informed_directions = plots.plot_informed_directions
    else:
        plot_field, plot_trace, plot_marginals, plot_pairs = _Figure(), _Figure(), _Figure(), _Figure()
        plot_swaps, plot_ladder, plot_residuals, plot_predictive = _Figure(), _Figure(), _Figure(), _Figure()
        plot_phase, plot_identifiability, plot_profiles = _Figure(), _Figure(), _Figure()
        plot_informed_directions = _Figure()

"""How predictions and data are laid out in figures: panels by series or member, over time where that is known."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from invsamp import arguments
from invsamp.arguments import array
from invsamp.plots.figure import Run, checked_run
from invsamp.posing.expressions.variable_names import check_predicts
from invsamp.posing.posterior.posterior import Posterior
from invsamp.protocols import Array, Plain


@dataclass(frozen=True)
class Layout:
    """Rows and columns of the data of a run.

    Attributes
    ----------
    shape : tuple of int
        Of the data as they were posed.
    members : int or None
        Of a population: its members are columns, rows are what was observed of one.
    times : ndarray, shape (rows,), or None
        Where the model knows them.
    sensors : bool
        Whether the model's outputs, at one time, are those of sensors.
    series : tuple of str or None
        Names of the entries of the last axis, where they are known.
    along : str
        What the times are, where the data say it.
    names_of_members : tuple of str or None
    """

    shape: tuple[int, ...]
    members: int | None = None
    times: Array | None = None
    sensors: bool = False
    series: tuple[str, ...] | None = None
    along: str = "time"
    names_of_members: tuple[str, ...] | None = None

    @property
    def count(self) -> int:
        """Number of columns."""
        return self.shape[0] * math.prod(self.shape[2:]) if self.members else math.prod(self.shape[1:])

    @property
    def rows(self) -> int:
        """Number of rows."""
        return math.prod(self.shape) // max(1, self.count)

    def arranged(self, values: Array) -> Array:
        """Values (draws, ...) of a whole number of rows, in the order of the data, as (draws, rows, columns)."""
        if not self.members:
            return values.reshape(len(values), -1, self.count)
        own = values.reshape(len(values), self.members, -1, self.count // self.members)
        return np.moveaxis(own, 1, 2).reshape(len(values), -1, self.count)

    def where(self, x: npt.ArrayLike | None, hint: str = "") -> Array | None:
        """``x``, or the times; None where neither is known.

        Raises
        ------
        ValueError
            If ``x`` is not as long as the data have rows; ``hint`` ends the message.
        """
        if x is None:
            return self.times
        given = array("x", x, ("n",))
        if len(given) != self.rows:
            axis = "second" if self.members else "first"
            raise ValueError(
                f"x must have an entry for each of the {self.rows} along the {axis} axis of the data, of shape "
                f"{self.shape}, got {len(given)}{hint}"
            )
        return given

    def label(self, x: npt.ArrayLike | None) -> str:
        """Label of the horizontal axis, where none is given."""
        if x is not None:
            return "x"
        return self.along if self.times is not None else "sensor" if self.sensors and self.count == 1 else "datum"

    def names(self, series: Sequence[str] | None) -> list[str] | None:
        """Names of the columns: these, those of what was posed, or their numbers; None of one without a name.

        Raises
        ------
        ValueError
            If ``series`` is given, and names neither each column nor each output of a member.
        """
        each = self.count // (self.members or 1)
        given = self.series if series is None else list(arguments.names("series", series))
        if series is not None and given is not None and len(given) not in (each, self.count):
            raise ValueError(f"series must name {self.count} columns of the data, got {len(given)}: {given}")
        if given is not None and len(given) == self.count and (series is not None or not self.members):
            return list(given)
        if self.members:
            outputs = [f": {name}" for name in given] if given is not None and each > 1 else [""] * each
            outputs = [f": output {k}" for k in range(each)] if given is None and each > 1 else outputs
            members = self.names_of_members or tuple(f"member {member}" for member in range(self.members))
            return [f"{member}{output}" for member in members for output in outputs]
        each_is = "sensor" if self.sensors else "output"
        return [f"{each_is} {k}" for k in range(self.count)] if self.count > 1 else None


def layout_of(run: Run) -> Layout:
    """The layout of the data of a run, as its posterior described them.

    Raises
    ------
    ValueError
        If the run holds no data.
    """
    if "observed_data" not in checked_run(run).data:
        raise ValueError("run must hold observed data to compare with, got the run of a density without data")
    shape = run.data.observed_data["data"].shape
    posed: Plain = run.report.get("posed") or {}
    series, axes = posed.get("series"), posed.get("axes") or {}
    found = Layout(
        tuple(map(int, shape)),
        axes.get("members") if len(shape) > 1 else None,
        sensors=bool(axes.get("sensors")),
        series=tuple(series) if isinstance(series, list) else None,
    )
    labels = list(((posed.get("labels") or {}).get("data") or {}).items())
    if found.members and labels and labels[0][0] != "member":
        found = replace(found, names_of_members=tuple(f"{labels[0][0]} {label}" for label in labels[0][1]))
    times, along = axes.get("times"), "time"
    for dim, values in labels[1 if found.members else 0 :][:1]:
        # of the rows, where they are numbers that increase
        numeric = all(isinstance(one, int | float) for one in values)
        counted = dim.startswith("data_dim_") or dim == "sensor"
        if numeric and not counted and len(values) > 1 and (np.diff(values) > 0.0).all():
            times, along = values, dim
    if times is None or len(times) != found.rows:
        return found
    return replace(found, times=np.asarray(times, dtype=float), along=along)


def predicted_and_observed(run: Run, posterior: Posterior | None) -> tuple[Layout, Array, Array]:
    """How the data are laid out, predictions with noise (draws, rows, columns), and the data (rows, columns).

    Raises
    ------
    ValueError
        If the run holds no data, or there is neither a prediction nor a posterior to make one.
    """
    layout = layout_of(run)
    if "posterior_predictive" not in run.data:
        if posterior is None:
            raise ValueError(
                "posterior must be given, or run.posterior_predictive(posterior) be called before (and "
                "before Run.save, for a run that is loaded), got None"
            )
        run.posterior_predictive(posterior)
    elif posterior is not None and "thinned" not in run.data:  # else they were compared as it predicted
        check_predicts(posterior, run.shapes)
    predicted = run.data.posterior_predictive["data"].to_numpy()
    observed = run.data.observed_data["data"].to_numpy()
    flat = predicted.reshape(-1, max(1, math.prod(layout.shape)))
    return layout, layout.arranged(flat), layout.arranged(observed.reshape(1, -1))[0]

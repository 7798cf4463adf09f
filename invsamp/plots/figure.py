"""The look that all figures share: colors, panels, and which parameters they show."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from invsamp import arguments
from invsamp.arguments import mapping, numbers, real, wrong
from invsamp.diagnostics.report import Report
from invsamp.diagnostics.weights import effective, quantiles
from invsamp.domains.contract import Domain
from invsamp.plots.canvas import new_figure as new_figure  # for those who draw their own figures in this look
from invsamp.posing.expressions.variable_names import LabelTable, labels
from invsamp.posing.posterior.posterior import Posterior
from invsamp.protocols import Array, InferenceData
from invsamp.storage.layout import labels_in_report

INK = "#22303f"
FAINT = "#8794a1"
GRID = "#e6eaee"
COLD = "#1f6fb2"
HOT = "#d1495b"
TRUTH = "#e07a1f"
#: Distinguished by people with any color vision: they differ in lightness too.
CYCLE = ("#1f6fb2", "#e07a1f", "#2a9d8f", "#8d5a97", "#c44536", "#6b8e23", "#5c6b7a", "#d4a017")
DENSITY = LinearSegmentedColormap.from_list("density", ["#ffffff", "#cfe3f2", "#7fb5dc", "#2f7fbf", "#12406e"])
TEMPERATURE = LinearSegmentedColormap.from_list("temperature", [COLD, "#7d5fa0", HOT])
#: Panels that are still readable in one figure.
MOST_PANELS = 8
#: Names that a message lists.
_LISTED = 50


class Run(Protocol):
    """An `invsamp.Run`, as far as figures need it. A run offers each of them as a method of its own."""

    @property
    def data(self) -> InferenceData:
        """The `arviz.InferenceData`."""

    @property
    def report(self) -> Report:
        """Counts and settings."""

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shape of every parameter, in the order of theta's columns."""

    @property
    def labels(self) -> list[str]:
        """Name of every column of theta."""

    @property
    def domain(self) -> Domain | None:
        """Where theta may lie, if the sampler said so."""

    @property
    def rungs(self) -> int:
        """Number of temperatures."""

    @property
    def theta(self) -> Array:
        """Draws of the cold rung, shape (chains, draws, d)."""

    @property
    def recorded(self) -> dict[str, tuple[int, ...]]:
        """Shape of every quantity beside the parameters."""

    def draws(self, name: str) -> Array:
        """Draws of one parameter or quantity, shape (chains, draws, *shape)."""

    def rung_theta(self, rung: int) -> Array:
        """Draws of one rung, 0 the cold one, shape (chains, draws, d)."""

    @property
    def weights(self) -> Array | None:
        """Weights of the cold rung's draws, shape (chains, draws), if they have some."""

    def rung_weights(self, rung: int) -> Array | None:
        """Weights of one rung's draws, shape (chains, draws), if they have some."""

    def field(self, field: Any, mesh: Any, *, on: Any, truth: Any = None, of: Any = "posterior") -> InferenceData:
        """Draws of an unknown field on a mesh."""

    def posterior_predictive(self, posterior: Posterior, draws: int | None = None) -> InferenceData:
        """Predict the data, and keep that in ``data``."""


def clean(axes: Axes, *, grid: bool = False, yticks: bool = True) -> Axes:
    """Take away what carries no information."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(FAINT)
    axes.spines["left"].set_visible(yticks)
    axes.tick_params(colors=INK, labelsize=8, length=3, color=FAINT)
    axes.xaxis.label.set(color=INK, fontsize=9)
    axes.yaxis.label.set(color=INK, fontsize=9)
    axes.set_axisbelow(True)
    if grid:
        axes.grid(color=GRID, linewidth=0.7)
    if not yticks:
        axes.set_yticks([])
    return axes


def title(axes: Axes, text: str) -> None:
    """A panel's title, flush left."""
    axes.set_title(text, loc="left", fontsize=10, color=INK)


def columns(
    run: Run, names: Sequence[str] | None, most: int = MOST_PANELS, argument: str = "names"
) -> list[tuple[int, str]]:
    """Columns of theta to show, with their labels.

    Parameters
    ----------
    run : Run
    names : sequence of str, optional
        Parameters (``k``) or entries (``k[0]``), in the order to show. By default the first ``most`` entries.
    most : int
        Largest number of entries.
    argument : str
        What the caller calls the names.

    Raises
    ------
    ValueError
        If a name is unknown, none is given, or there are more than ``most`` entries.
    """
    return _chosen(_labels(run, checked_run(run).shapes), names, most, argument)


class Entry(NamedTuple):
    """A scalar parameter, or of a quantity of the draws, to show."""

    label: str
    column: int | None  # of theta; None: it is of a quantity
    values: Array  # (chains, draws)


def entries(run: Run, names: Sequence[str] | None, most: int = MOST_PANELS) -> list[Entry]:
    """Parameters and quantities to show: the first ``most`` entries, or those that are named.

    Raises
    ------
    ValueError
        If a name is unknown, none is given, or there are more than ``most`` entries.
    """
    shapes = checked_run(run).shapes | run.recorded
    table = _labels(run, shapes)
    chosen = _chosen(table, names, most, "names")
    placed = [table.block(column) for column, _ in chosen]
    draws = {name: run.draws(name) for name in dict.fromkeys(block.name for block, _ in placed)}
    columns = sum(math.prod(shape) for shape in run.shapes.values())
    return [
        Entry(label, i if i < columns else None, values.reshape(*values.shape[:2], -1)[..., k])
        for (i, label), (block, k) in zip(chosen, placed, strict=True)
        for values in [draws[block.name]]
    ]


def _labels(run: Run, shapes: Mapping[str, tuple[int, ...]]) -> LabelTable:
    """Names of entries, as in the run's tables."""
    return LabelTable(shapes, labels_in_report(run.report))


def _chosen(table: LabelTable, names: Sequence[str] | None, most: int, argument: str) -> list[tuple[int, str]]:
    """Numbers and labels of those that are named, the first ``most`` by default."""
    if names is None:
        return [(k, table[k]) for k in range(min(most, len(table)))]
    if isinstance(names, str):
        raise ValueError(f"names must be a sequence of names, got the string {names!r}; write [{names!r}]")
    chosen: list[int] = []
    for name in arguments.names(argument, names):
        found = table.find(name)
        if not found:
            known = [table[k] for k in range(min(_LISTED, len(table)))] + ["..."] * (len(table) > _LISTED)
            raise ValueError(f"{argument} must be among {', '.join(known)}, got {name!r}")
        chosen += found
    if not 0 < len(chosen) <= most:
        raise ValueError(f"{argument} must stand for 1 to {most} entries, got {len(chosen)}")
    return [(k, table[k]) for k in chosen]


def checked_run(run: Any) -> Run:
    """The run that is to be shown; `ValueError` if it is none."""
    # of the class: of an object that would read all its draws
    if isinstance(run, type) or not all(hasattr(type(run), name) for name in ("theta", "rung_theta", "report")):
        raise wrong("run", "a Run", run)
    checked: Run = run
    return checked


def truth_of(run: Run, truth: Mapping[str, object] | None) -> dict[str, float]:
    """The true value of every label that ``truth`` has one for.

    Raises
    ------
    ValueError
        If a name is unknown or a value has the wrong shape.
    """
    if truth is None:
        return {}
    shapes, values = run.shapes | run.recorded, mapping("truth", truth)
    known, found = _labels(run, shapes), dict[str, float]()
    for name, value in values.items():
        if name not in shapes and [known[k] for k in known.find(name)] == [name]:
            found[name] = real(f"truth[{name!r}]", value, finite=False)
            continue
        if name not in shapes:
            raise ValueError(f"truth must name parameters among {', '.join(shapes)}, got {name!r}")
        if np.shape(value) != shapes[name]:
            raise ValueError(f"truth[{name!r}] must have shape {shapes[name]}, got {np.shape(value)}")
        own = labels({name: shapes[name]}, labels_in_report(run.report))
        found.update(zip(own, np.ravel(numbers(f"truth[{name!r}]", value)).tolist(), strict=True))
    return found


def finite(values: np.ndarray, weight: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray | None]:
    """The finite values of some weight, as one row, and their weights; two zeros where there are none, to draw a panel.

    A weight of NaN counts as none.
    """
    values = np.ravel(values)
    if weight is None:
        kept = values[np.isfinite(values)]
        return (kept if len(kept) else np.zeros(2)), None
    shown = np.isfinite(values) & (np.ravel(weight) > 0.0)
    return (values[shown], np.ravel(weight)[shown]) if shown.any() else (np.zeros(2), None)


def view_of(values: np.ndarray, pad: float = 0.06) -> tuple[float, float]:
    """Limits that show all values with a margin, also where they are all equal."""
    low, high = float(values.min()), float(values.max())
    scale = max(abs(low), abs(high))
    if high - low <= 1e-12 * scale or high == low:
        return low - 0.05 * (scale or 1.0), high + 0.05 * (scale or 1.0)
    return low - pad * (high - low), high + pad * (high - low)


def bins_of(
    values: np.ndarray, weight: np.ndarray | None = None, fineness: float = 1.0, pad: float = 0.0
) -> np.ndarray:
    """Edges of equal bins over all the values, of a width that suits their central 90%.

    The width goes with the cube root of the number of values, or with the ESS of weighted ones; heavy
    tails do not make the bins wider, up to 200 bins. ``fineness`` divides the width.
    """
    low, high = view_of(values, pad)
    span = float(np.subtract(*quantiles(values[None], weight, (0.95, 0.05))[:, 0])) or high - low
    count = len(values) if weight is None else effective(weight)
    across = fineness * np.clip(1.2 * count ** (1 / 3), 8, 45)
    return np.linspace(low, high, int(np.clip(across * (high - low) / span, 5, 200)) + 1)


def histogram(
    axes: Axes, values: np.ndarray, weight: np.ndarray | None, color: str, label: str | None = None, fill: float = 0.22
) -> None:
    """Density of the values, by their weights where they have some, as a filled outline."""
    kept, shares = finite(values, weight)
    edges = bins_of(kept, shares)
    heights, _ = np.histogram(kept, edges, density=True, weights=shares)
    axes.stairs(heights, edges, fill=True, color=color, alpha=fill, linewidth=0)
    axes.stairs(heights, edges, color=color, linewidth=1.3, label=label)


def truth_legend(on: Figure | Axes, place: str, label: str = "truth", **style: Any) -> None:
    """Say what the marks of the truth are, once per figure, or in the only panel."""
    handle: Any = Line2D([], [], color=TRUTH, label=label, **style)
    settings: dict[str, Any] = {"loc": place, "frameon": False, "fontsize": 9, "labelcolor": INK}
    on.legend(handles=[handle], **settings)


def say_first(figure: Figure, shown: int, total: int, of: str = "unknowns", more: str = "; choose by names=") -> None:
    """Say below the panels that they show the first of more."""
    if shown < total:
        figure.supxlabel(f"the first {shown} of {total} {of}{more}", fontsize=9, color=INK)


def entry_count(run: Run) -> int:
    """Number of all entries of the parameters and quantities of a run."""
    return sum(math.prod(shape) for shape in (run.shapes | run.recorded).values())

"""Figures and their panels: pyplot's where pyplot is in use, and shown once by a notebook."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import ModuleType
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from invsamp.arguments import instance

#: Packages that bind pyplot for their own purposes: a program that imports them need not use it.
_LIBRARIES = ("matplotlib", "mpl_toolkits", "arviz", "arviz_base", "arviz_plots", "arviz_stats")
_DETACHED: ContextVar[bool] = ContextVar("detached", default=False)


class ShownOnce(Figure):
    """A figure that a notebook shows as a picture, once, whether or not it is the last value of a cell."""

    def _ipython_display_(self) -> None:
        """Take the figure off pyplot's list, all of which a cell shows at its end; then IPython shows it as usual."""
        pyplot = sys.modules.get("matplotlib.pyplot")
        if pyplot is not None and "inline" in str(matplotlib.get_backend()).lower():
            pyplot.close(self)
        raise NotImplementedError("IPython formats the figure itself")

    def _repr_png_(self) -> bytes:
        buffer = io.BytesIO()
        self.savefig(buffer, format="png", dpi=110)
        return buffer.getvalue()


@contextmanager
def detached() -> Iterator[None]:
    """Within, new figures are kept from pyplot: they are drawn to be written, not to be shown."""
    token = _DETACHED.set(True)
    try:
        yield
    finally:
        _DETACHED.reset(token)


def new_figure(width: float, height: float) -> Figure:
    """An empty figure, in inches.

    Where pyplot is in use, it is ``plt.gcf()`` and ``plt.show()`` shows it. Elsewhere it belongs to its owner alone, so
    that pyplot does not keep it.
    """
    layout = ConstrainedLayoutEngine(w_pad=0.06, h_pad=0.06, wspace=0.03, hspace=0.03)
    settings: dict[str, Any] = {"figsize": (width, height), "layout": layout, "facecolor": "white"}
    if (pyplot := _pyplot()) is not None:
        managed: Figure = pyplot.figure(FigureClass=ShownOnce, **settings)
        return managed
    figure = ShownOnce(**settings)
    FigureCanvasAgg(figure)
    return figure


def grid(
    count: int,
    width: float,
    height: float,
    margins: tuple[float, float],
    most_across: int = 4,
    ax: Axes | None = None,
    **shared: bool,
) -> tuple[Figure, list[Axes]]:
    """A figure of so many panels in rows, each of a width and height in inches, and the panels.

    ``ax``, where it is given, is the only panel.
    """
    if ax is not None:
        return given_panel(ax, count)
    across = min(most_across, count)
    down = -(-count // across)
    figure = new_figure(width * across + margins[0], height * down + margins[1])
    panels = figure.subplots(down, across, squeeze=False, **shared).ravel()  # type: ignore[call-overload]
    for axes in panels[count:]:
        axes.set_visible(False)
    for axes in panels[count - across : count]:  # above a missing panel, too
        axes.tick_params(labelbottom=True)
    return figure, list(panels[:count])


def given_panel(ax: Axes, count: int) -> tuple[Figure, list[Axes]]:
    """The figure of ``ax``, and ``ax`` as its only panel.

    Raises
    ------
    ValueError
        If it is no Axes, or ``count`` panels are to be drawn, more than one.
    """
    instance("ax", ax, Axes, "a matplotlib Axes")
    if count != 1:
        raise ValueError(
            f"ax must be left out where the figure has more than one panel, got an Axes for {count} panels"
        )
    figure: Any = ax.figure
    return figure, [ax]


def _pyplot() -> ModuleType | None:
    """Pyplot, if the program uses it.

    It does where pyplot has a figure, or a module other than ArviZ has imported it: `Run.data` loads ArviZ, which
    imports pyplot for itself. So does IPython, whose cells show its figures.
    """
    if _DETACHED.get():
        return None
    ipython, pyplot = sys.modules.get("IPython"), sys.modules.get("matplotlib.pyplot")
    if ipython is not None and ipython.get_ipython() is not None:
        import matplotlib.pyplot as imported

        return imported
    if pyplot is None:
        return None
    return pyplot if "arviz" not in sys.modules or pyplot.get_fignums() or _bound(pyplot) else None


def _bound(pyplot: ModuleType) -> bool:
    """Whether a module that is not a library's has imported pyplot under one of its usual names."""
    return any(
        names.get("plt") is pyplot or names.get("pyplot") is pyplot
        for name, module in list(sys.modules.items())
        if name.split(".")[0] not in _LIBRARIES and (names := getattr(module, "__dict__", None)) is not None
    )

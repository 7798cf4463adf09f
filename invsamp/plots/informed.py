"""How many directions the data inform, where a kernel moves about the Gaussian of a mode."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from invsamp.plots.canvas import given_panel, new_figure
from invsamp.plots.figure import COLD, FAINT, INK, Run, checked_run, clean, title


def plot_informed_directions(run: Run, *, ax: Axes | None = None) -> Figure:
    r"""Eigenvalues of the misfit's Hessian around the mode, in coordinates in which the prior is standard normal.

    Along a direction with the eigenvalue :math:`\lambda` the posterior's variance is :math:`1 / (1 + \lambda)` of the
    prior's, by the Gaussian that the kernel moves about. What `invsamp.sample` chooses has averages around the mode,
    and a reference of `invsamp.maximize` those at the mode. The data inform a direction more than the prior does where
    :math:`\lambda` is above 1. The number of such directions does not depend on how fine a mesh is.

    Parameters
    ----------
    run : Run
        Of a kernel about the Gaussian of a mode, as `invsamp.sample` chooses for a Gaussian field.
    ax : Axes, optional
        Where to draw.

    Returns
    -------
    Figure

    Raises
    ------
    ValueError
        If the run has no such kernel.

    References
    ----------
    Bui-Thanh, Ghattas, Martin and Stadler (2013), SIAM J. Sci. Comput. 35, section 5.
    """
    values = (checked_run(run).report.get("reference_eigenvalues") or [None])[0]
    if not values:
        raise ValueError(
            "run must be that of a kernel with the Gaussian of a mode as its reference, as for a Gaussian "
            "field, got one without"
        )
    if ax is None:
        figure = new_figure(6.4, 3.6)
        axes = clean(figure.subplots())
    else:
        figure, (axes,) = given_panel(ax, 1)
    at, informed = np.arange(1, len(values) + 1), int(np.count_nonzero(np.asarray(values) > 1.0))
    color = [COLD if value > 1.0 else FAINT for value in values]
    axes.scatter(at, np.maximum(values, np.finfo(float).tiny), s=14, color=color)
    axes.axhline(1.0, color=INK, lw=0.9, ls=(0, (4, 2)))
    axes.set_yscale("log")
    axes.set_xlabel("direction", color=INK, fontsize=9)
    axes.set_ylabel("eigenvalue", color=INK, fontsize=9)
    title(axes, f"{informed} directions that the data inform more than the prior does")
    return figure

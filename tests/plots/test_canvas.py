"""Figures in pyplot's list where pyplot is in use, in a notebook, and in an Axes of the caller's."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.figure import Figure

from invsamp.plots.canvas import detached, new_figure
from invsamp.results.run import Run

POSE = """
import numpy as np, invsamp as iv
run = iv.Run.from_arrays(None, {"x": (3,)}, np.random.default_rng(0).normal(size=(1, 4, 50, 3)), {}, {})
"""
ONE = "names=['x[0]']"


def pose(shapes: dict[str, tuple[int, ...]] | None = None, rungs: int = 1) -> Run:
    shapes = {"x": ()} if shapes is None else shapes
    d = sum(int(np.prod(shape)) for shape in shapes.values())
    report = {"swap_attempts": [10] * (rungs - 1), "swap_accepts": [4] * (rungs - 1)} if rungs > 1 else {}
    return Run.from_arrays(None, shapes, np.random.default_rng(0).normal(size=(rungs, 4, 50, d)), {}, report)


def test_a_figure_is_the_current_one_of_pyplot() -> None:
    run = pose()
    first, second = run.plot_trace(), run.plot_marginals()
    assert plt.gcf() is second and plt.get_fignums() == [first.number, second.number]
    with detached():
        new_figure(2.0, 2.0)
    assert plt.gcf() is second


@pytest.mark.parametrize("name", ["trace", "marginals", "pairs", "ladder", "swaps"])
def test_a_single_panel_is_drawn_where_the_caller_says(name: str) -> None:
    run = pose(rungs=2)
    figure, (left, right) = plt.subplots(1, 2)
    assert getattr(run, f"plot_{name}")(ax=left) is figure
    assert left.has_data() and not right.has_data()
    assert plt.get_fignums() == [figure.number] and len(figure.axes) == 2
    with pytest.raises(ValueError, match="ax must be a matplotlib Axes"):
        getattr(run, f"plot_{name}")(ax=figure)


def test_several_panels_are_not() -> None:
    run, (_, ax) = pose({"x": (3,)}), plt.subplots()
    for name, panels in (("trace", 3), ("marginals", 3), ("pairs", 3)):
        with pytest.raises(ValueError, match=f"ax must be left out .* got an Axes for {panels} panels"):
            getattr(run, f"plot_{name}")(ax=ax)
    run.plot_pairs(["x[0]", "x[2]"], truth={"x": [0.0, 0.0, 0.0]}, ax=ax)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("x[0]", "x[2]") and ax.get_legend() is not None


def test_a_script_without_pyplot_may_draw_any_number_of_figures() -> None:
    # arviz, which run.data needs, imports pyplot for itself
    script = f"""{POSE}
run.data
for _ in range(25): run.plot_marginals({ONE})
import sys
print(len(sys.modules["matplotlib.pyplot"].get_fignums()))
import matplotlib.pyplot as plt
figure = run.plot_marginals({ONE})
print(plt.gcf() is figure)
"""
    done = subprocess.run(
        [sys.executable, "-W", "error::RuntimeWarning", "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["0", "True"]


def test_a_notebook_shows_every_figure_once(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ipykernel")
    manager = pytest.importorskip("jupyter_client.manager")
    monkeypatch.delenv("MPLBACKEND", raising=False)
    kernel, client = manager.start_new_kernel(kernel_name="python3")
    try:

        def pictures(cell: str) -> int:
            messages: list[dict[str, Any]] = []
            reply = client.execute_interactive(cell, output_hook=messages.append, timeout=120)
            assert reply["content"]["status"] == "ok", reply["content"]
            return sum("image/png" in message["content"].get("data", {}) for message in messages)

        assert pictures(POSE) == 0
        for cell, count in (
            ("run.plot_trace();", 1),
            ("run.plot_trace()", 1),
            ("kept = run.plot_trace(); run.plot_pairs()", 2),
            ("kept", 1),
            ("import matplotlib.pyplot as plt\nrun.plot_trace()\nplt.show()", 1),
            (f"assert run.plot_marginals({ONE}) is plt.gcf()", 1),
            (f"_, ax = plt.subplots(); run.plot_marginals({ONE}, ax=ax);", 1),
        ):
            assert pictures(cell) == count, cell
    finally:
        client.stop_channels()
        kernel.shutdown_kernel(now=True)


def test_a_figure_is_a_matplotlib_figure() -> None:
    assert isinstance(pose().plot_trace(), Figure)

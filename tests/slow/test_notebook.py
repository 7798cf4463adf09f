"""A notebook: tables and figures show as such, a bar goes on, and a kernel that is interrupted keeps its draws."""

from __future__ import annotations

from typing import Any

import pytest

CELLS = (
    """
import os, signal, warnings
import numpy as np
import invsamp as iv

warnings.simplefilter("ignore", UserWarning)  # so few draws
calls = 0

def rows(theta):
    global calls
    calls += 1
    if calls == stop_at:
        os.kill(os.getpid(), signal.SIGINT)  # what the square button sends
    return theta

prior = iv.Prior(x=iv.Normal(0, 1), y=iv.Normal(0, 1))
model = iv.with_jacobian(rows, lambda theta: np.tile(np.eye(2), (len(theta), 1, 1)))
posterior = iv.Posterior(prior, model, data=[0.5, 1.0], noise=iv.GaussianNoise(1.0))
stop_at = 0
run = iv.sample(posterior, iv.mala(), draws=100, warmup=100, seed=1)
run
""",
    "run.plot_pairs()",
    """
calls, stop_at = 0, 500
kept = iv.sample(posterior, iv.mala(), draws=100_000, warmup=100, seed=1)
print(kept.report["interrupted"], 10 < kept.theta.shape[1] < 10_000)
""",
)


@pytest.mark.slow
def test_a_notebook() -> None:
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in CELLS])
    nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
    table, figure, stopped = (shown(cell) for cell in notebook.cells)
    assert "<table" in table["text/html"] and "r_hat" in table["text/html"]
    assert figure["image/png"] and "plot_pairs" not in figure.get("text/plain", "")
    assert "True True" in stopped["stream"]
    # the bar: a widget where there are some, else a line of text, never an error
    assert all(output["output_type"] != "error" for cell in notebook.cells for output in cell.outputs)


def shown(cell: Any) -> dict[str, str]:
    """What a cell shows, by kind."""
    found: dict[str, str] = {}
    for output in cell.outputs:
        found |= output.get("data", {})
        if output["output_type"] == "stream":
            found["stream"] = found.get("stream", "") + output["text"]
    return found

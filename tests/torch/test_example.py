"""The example of networks runs, with whichever pictures there are."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch", reason="torch is not installed")

from invsamp.torch import categorical, module_posterior

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_a_convolutional_network():
    """All chains at once: each has the gradient that it has by itself, and the right one."""
    network = runpy.run_path(str(EXAMPLES / "networks.py"))["network"]
    rng = np.random.default_rng(0)
    data = rng.random((12, 1, 8, 8)), rng.integers(10, size=12)
    posterior = module_posterior(network(8, True).double(), data, categorical())
    assert posterior.check_gradient().passed
    potential, theta = posterior.potential(), posterior.sample_start(rng, 3)
    together = potential.energy_and_gradient(theta)
    alone = [potential.energy_and_gradient(row[None]) for row in theta]
    for k, part in enumerate(together):
        np.testing.assert_allclose(part, np.concatenate([one[k] for one in alone]), rtol=1e-10, atol=1e-12)


@pytest.mark.slow
def test_networks(monkeypatch, tmp_path, capsys):
    names = runpy.run_path(str(EXAMPLES / "networks.py"))
    arguments = ["networks", "--steps", "100", "--out", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", arguments)
    rng = np.random.default_rng(0)
    labels = rng.integers(2, size=200)
    x = rng.random((200, 1, 8, 8)) * 0.2 + labels[:, None, None, None] * np.eye(8)  # a class is a diagonal
    held = names["Pictures"]("diagonals", x[:150], labels[:150], x[150:], labels[150:], rng.random((50, 1, 8, 8)))
    known, trial, main = names["samplers"], names["trial"], names["main"]
    chosen = "deep ensemble", "VR-reSGHMC", "r2SGHMC with bounds"
    tried = []

    def counted(name, *settings):
        tried.append(name)
        return trial(name, *settings)

    settings = {"pictures": lambda n: held, "samplers": lambda n, steps: {k: known(n, steps)[k] for k in chosen}}
    main.__globals__.update(settings | {"trial": counted})
    main()
    lines = capsys.readouterr().out.splitlines()[-3:]
    assert [line[:26].strip() for line in lines] == list(chosen) == tried
    assert all(float(line[26:35]) > 0.9 for line in lines)
    assert (tmp_path / "networks.png").stat().st_size > 10_000
    main()  # what was found is kept
    assert capsys.readouterr().out.splitlines()[-3:] == lines and len(tried) == 3

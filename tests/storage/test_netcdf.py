"""What `Run.save` and `Run.load` do with files is in test_run.py; this is about the libraries underneath."""

from __future__ import annotations

import subprocess
import sys

import pytest


def run_python(code):
    return subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, timeout=300)


def test_importing_invsamp_brings_h5py_but_not_what_takes_seconds():
    slow = ("arviz", "matplotlib", "pandas", "skfem", "sympy", "torch", "xarray")
    scipys = ("scipy.interpolate", "scipy.ndimage", "scipy.optimize", "scipy.stats")
    code = f"import sys, invsamp; print(*[name for name in ('h5py', *{slow + scipys}) if name in sys.modules])"
    assert run_python(code).stdout.split() == ["h5py"]


SAVE = """
import numpy as np
from invsamp.results.run import Run
run = Run.from_arrays(None, {"x": ()}, np.zeros((1, 4, 9, 1)), {}, {})
run.save("PATH")
print(len(Run.load("PATH").summary()))
"""


@pytest.mark.dolfinx
def test_invsamp_before_dolfinx_can_save(tmp_path):
    pytest.importorskip("dolfinx")
    done = run_python("import invsamp, dolfinx" + SAVE.replace("PATH", str(tmp_path / "run.nc")))
    assert done.stdout.strip() == "1", done.stderr


@pytest.mark.dolfinx
def test_dolfinx_before_invsamp_either_saves_or_says_what_to_do(tmp_path):
    pytest.importorskip("dolfinx")
    done = run_python("import dolfinx, invsamp" + SAVE.replace("PATH", str(tmp_path / "run.nc")))
    assert done.stdout.strip() == "1" or "Write `import invsamp` above `import dolfinx`" in done.stderr, done.stderr

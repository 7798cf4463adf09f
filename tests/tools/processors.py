#!/usr/bin/env python3
"""Run the tests as they would run on other processors, as far as numba, numpy and OpenBLAS can be configured.

    python tests/tools/processors.py [--settings 'oldest,AVX2'] [pytest's arguments: files, -n 2, -m "not slow" ...]

Each setting is a run of its own with a fresh cache of machine code; those that this processor cannot run are left out.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path

try:
    from numpy._core import _multiarray_umath as umath
except ImportError:  # numpy 1
    from numpy.core import _multiarray_umath as umath

ROOT = Path(__file__).parents[2]


def settings() -> dict[str, dict[str, str]]:
    """Environment variables by the name of what they stand for."""
    has = umath.__cpu_features__
    off = {"NPY_DISABLE_CPU_FEATURES": " ".join(name for name in umath.__cpu_dispatch__ if has[name])}
    generic = {"NUMBA_CPU_NAME": "generic"}
    if platform.machine() != "x86_64":
        return {"oldest": generic | off}
    found = {"oldest": generic | off | {"OPENBLAS_CORETYPE": "Prescott"}}
    if has["AVX2"]:
        found["AVX2"] = {"NUMBA_CPU_NAME": "haswell", "OPENBLAS_CORETYPE": "Haswell"}
    if has["AVX512_SKX"]:
        found["AVX512"] = {"NUMBA_CPU_NAME": "skylake-avx512", "OPENBLAS_CORETYPE": "SkylakeX"}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--settings", help="names, with commas between them; all that this processor can run")
    given, arguments = parser.parse_known_args()
    possible = settings()
    chosen = given.settings.split(",") if given.settings else list(possible)
    if unknown := set(chosen) - set(possible):
        parser.error(f"settings must be of {list(possible)}, got {sorted(unknown)}")
    statuses = {}
    for name in chosen:
        print(f"\n{name}: {possible[name]}", flush=True)
        with tempfile.TemporaryDirectory() as cache:
            environment = os.environ | possible[name] | {"NUMBA_CACHE_DIR": cache}
            command = [sys.executable, "-P", "-m", "pytest", *arguments]
            statuses[name] = subprocess.run(command, cwd=ROOT, env=environment).returncode
    print(*(f"{name}: {'passed' if status == 0 else 'FAILED'}" for name, status in statuses.items()), sep="\n")
    sys.exit(max(statuses.values()))


if __name__ == "__main__":
    main()

"""Equal strings for functions that compute the same, different ones for those that do not."""

from __future__ import annotations

import functools
import math
import os
import subprocess
import sys
import types

import numpy as np
from numba import njit

from invsamp.solvers.ode.codegen.function_hash import fingerprint

FACTOR = 2.0
TABLE = np.arange(5.0)


def helper(x):
    return FACTOR * x


def with_helper(t, x, p):
    return helper(x[0]), math.sin(t)


def with_table(t, x, p):
    return np.interp(t, TABLE, TABLE)


def closure(value):
    return lambda t, x, p: value * x[0]


@njit
def compiled(t, x, p):
    return helper(x[0])


def test_what_a_function_refers_to_counts(monkeypatch):
    before = fingerprint(with_helper)
    assert before == fingerprint(with_helper)
    monkeypatch.setitem(globals(), "FACTOR", 3.0)
    assert fingerprint(with_helper) != before


def test_the_content_of_arrays_counts(monkeypatch):
    before = fingerprint(with_table)
    monkeypatch.setitem(globals(), "TABLE", np.arange(5.0))
    assert fingerprint(with_table) == before
    monkeypatch.setitem(globals(), "TABLE", np.arange(5.0) + 1e-9)
    assert fingerprint(with_table) != before


def test_captured_values_count():
    assert fingerprint(closure(1.5)) == fingerprint(closure(1.5))
    assert len({fingerprint(closure(value)) for value in (1, 1.0, True, (1, 2), [1, 2], np.float64(1), None, "1")}) == 8
    assert fingerprint(functools.partial(with_helper, p=1)) != fingerprint(functools.partial(with_helper, p=2))
    assert len({fingerprint(entry) for entry in (compiled, compiled.py_func)}) == 2


def test_modules_of_ones_own_count_by_what_is_read():
    module = types.ModuleType("mine")
    module.rate, module.other = 1.0, 2.0
    scope = {"mine": module}
    exec("def rhs(t, x, p):\n    return mine.rate * x[0]\n", scope)
    before = fingerprint(scope["rhs"])
    module.other = 3.0
    assert fingerprint(scope["rhs"]) == before
    module.rate = 1.5
    assert fingerprint(scope["rhs"]) != before


def test_objects_without_a_content_have_no_fingerprint():
    class Own:
        pass

    assert fingerprint(closure(Own())) is None
    assert fingerprint(closure(np.array([Own()]))) is None
    assert fingerprint(Own()) is None


def test_a_function_that_calls_itself():
    def factorial(n):
        return 1 if n < 1 else n * factorial(n - 1)

    assert fingerprint(factorial) is not None


def test_the_same_in_another_process():
    source = "import math\ndef rhs(t, x, p):\n    return (x[0] if t in {1, 2, 'a', 'b'} else math.exp(x[0]),)\n"
    program = f"from invsamp.solvers.ode.codegen.function_hash import fingerprint\n{source}print(fingerprint(rhs))"
    scope = {}
    exec(source, scope)
    environment = {**os.environ, "PYTHONHASHSEED": "1"}
    answer = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, check=True).stdout
    assert answer.decode().strip() == fingerprint(scope["rhs"])

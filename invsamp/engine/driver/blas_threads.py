"""Linear algebra in one thread: what several make of a large product differs in its last digits, and so would draws."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

from threadpoolctl import ThreadpoolController


@contextmanager
def one_thread() -> Iterator[None]:
    """Within, BLAS and LAPACK (of NumPy, SciPy and whatever else is loaded by now) use one thread.

    Other threads, those of compiled loops for example, stay as they are. A forward model that gains by several in BLAS
    can have them in processes of its own (`invsamp.parallel.isolated`).
    """
    with _libraries(len(sys.modules)).limit(limits=1, user_api="blas"):
        yield


@lru_cache(maxsize=1)
def _libraries(modules: int) -> ThreadpoolController:
    """Those that are loaded: looked for again, which takes milliseconds, when there are more modules."""
    return ThreadpoolController()

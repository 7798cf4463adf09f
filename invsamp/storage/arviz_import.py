"""ArviZ, which is slow to import and wants a folder that it can write to."""

from __future__ import annotations

import contextlib
import os
import tempfile
import warnings
from collections.abc import Iterator
from types import ModuleType


def load_arviz() -> ModuleType:
    """ArviZ, imported on first use: it takes seconds, several times the rest of invsamp together."""
    with warnings.catch_warnings():
        # ArviZ announces its own refactoring once a day; that is no business of a person who runs a sampler
        warnings.filterwarnings("ignore", message=r"\s*ArviZ is undergoing", category=FutureWarning)
        try:
            import arviz
        except OSError:  # it writes down the day in the user's cache folder, and fails where there can be none
            with tempfile.TemporaryDirectory() as home, _environment(HOME=home, XDG_CACHE_HOME=home):
                import arviz
    return arviz


@contextlib.contextmanager
def _environment(**values: str) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.update(values)
    try:
        yield
    finally:
        for name in values:
            if name in before:
                os.environ[name] = before[name]
            else:
                del os.environ[name]

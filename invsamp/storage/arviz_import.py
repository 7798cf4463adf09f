"""ArviZ, which is slow to import and wants a folder that it can write to."""

from __future__ import annotations

import os
import tempfile
import warnings
from types import ModuleType
from unittest import mock


def load_arviz() -> ModuleType:
    """ArviZ, imported on first use: it takes seconds, several times the rest of invsamp together."""
    with warnings.catch_warnings():
        # ArviZ announces its own refactoring once a day; that is no business of a person who runs a sampler
        warnings.filterwarnings("ignore", message=r"\s*ArviZ is undergoing", category=FutureWarning)
        try:
            import arviz
        except OSError:  # it writes down the day in the user's cache folder, and fails where there can be none
            with tempfile.TemporaryDirectory() as home, mock.patch.dict(os.environ, HOME=home, XDG_CACHE_HOME=home):
                import arviz
    return arviz

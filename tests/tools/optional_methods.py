"""Integrators that an extra installs: their tests are skipped by name elsewhere."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

has_cvode = pytest.mark.skipif(find_spec("sksundae") is None, reason="scikit-sundae is not installed")
CVODE = pytest.param("CVODE", marks=has_cvode)

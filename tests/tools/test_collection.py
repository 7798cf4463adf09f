"""What finding the tests costs, every process pays, in every environment."""

from __future__ import annotations

from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]


def test_no_module_compiles_when_it_is_imported(compiled_at_import):
    """In a fresh checkout a kernel takes seconds to compile, the march of ODEs twenty: that belongs into fixtures."""
    assert [name for name in compiled_at_import if name.startswith("invsamp.")] == []


def test_what_needs_ranks_or_dolfinx_is_not_slow(request: pytest.FixtureRequest):
    """One environment leaves out what is slow, and the other one what needs them: it would run nowhere."""
    marks = ({mark.name for mark in item.iter_markers()} for item in request.session.items)
    assert not [found for found in marks if "slow" in found and found & {"mpi", "dolfinx"}]


def test_files_and_folders_of_the_tables_exist(request: pytest.FixtureRequest):
    tables = request.config.pluginmanager.get_plugin(str(TESTS / "conftest.py"))
    assert all((TESTS / path).exists() for path in (*tables.SEE_NUMPY, *tables.BLIND, *tables.MARCH))

"""What finding the tests costs, every process pays, in every environment."""

from __future__ import annotations


def test_no_module_compiles_anything_when_it_is_imported(compiled_at_import):
    """Models and domains that are made in a module, not in a fixture, take up to half a minute in a fresh checkout."""
    assert compiled_at_import == []

"""What finding the tests costs, every process pays, in every environment."""

from __future__ import annotations


def test_no_module_compiles_when_it_is_imported(compiled_at_import):
    """In a fresh checkout a kernel takes seconds to compile, the march of ODEs twenty: that belongs into fixtures."""
    assert [name for name in compiled_at_import if name.startswith("invsamp.")] == []

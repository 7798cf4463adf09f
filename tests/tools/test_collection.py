"""What finding the tests costs, every process pays, in every environment."""

from __future__ import annotations


def test_no_module_solves_ordinary_differential_equations_when_it_is_imported(compiled_at_import):
    """In a fresh checkout the march takes half a minute to compile: models are solved in fixtures, not in modules."""
    assert [name for name in compiled_at_import if name.startswith("invsamp.solvers.ode.march")] == []

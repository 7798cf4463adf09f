"""Linear finite elements on triangles, behind one interface for scikit-fem and dolfinx."""

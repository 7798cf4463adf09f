"""Linear finite elements on triangles, bilinear ones on squares, behind one interface for scikit-fem and dolfinx."""

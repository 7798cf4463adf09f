"""Models in SBML files. May import `symbolic`, `model` and below."""

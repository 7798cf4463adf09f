"""Functions and symbols of SymPy that formulas use. May import `model` and below."""

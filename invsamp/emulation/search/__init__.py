"""The search for modes by local optimizations on shared simulations."""

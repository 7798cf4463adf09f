"""Loops over steps of kernels as compiled functions, and the parts of steps that Python calls too."""

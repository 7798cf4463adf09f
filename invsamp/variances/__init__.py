"""Models of the variance of noisy energies and gradients."""

from invsamp.variances.models import kernel_ridge, known, running_average

__all__ = ["kernel_ridge", "known", "running_average"]

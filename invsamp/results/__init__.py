"""Results of a sampler: runs, reports, predictions, warnings; for classifiers, scores of their predictions."""

from invsamp.results.classes import auroc, predicted_classes
from invsamp.results.iterate_averages import swag

__all__ = ["auroc", "predicted_classes", "swag"]

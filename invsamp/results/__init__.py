"""What a sampler hands back: runs, reports, predictions, warnings."""

"""Ready inverse problems: a forward model, a prior, data and, where it is known, the truth."""

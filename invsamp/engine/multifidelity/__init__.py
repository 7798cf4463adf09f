"""The phase of a run that trains a correction of a coarse model. May import `automatic` and below."""

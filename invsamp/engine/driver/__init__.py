"""The loop of a run: draws, checkpoints, signals, report. May import `automatic` and below."""

"""The run: its phases in one loop, draws, checkpoints, signals, report. May import all of the engine."""

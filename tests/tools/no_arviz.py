"""Imported by scripts of processes that make a run and look at its draws alone: no run waits for ArviZ's import.

That takes longer than all else that such a script does. What asks for a run's `data` imports it all the same.
"""

from __future__ import annotations

import invsamp.sampling

invsamp.sampling.load_arviz = lambda: None

"""Failed rows of a model that runs elsewhere, counted by kind."""

from __future__ import annotations

import math
import threading

#: Kinds: the model said so; NaN or infinity came back; no answer in time; its process or connection was lost.
KINDS = ("raised", "not_finite", "timed_out", "died")


class Failures:
    """Counts by kind, the last words, and the mean time of a row; may be updated by several threads."""

    def __init__(self) -> None:
        self.counts = dict.fromkeys(KINDS, 0)
        self.message: str | None = None
        self._seconds, self._rows = 0.0, 0
        self._lock = threading.Lock()

    def note(self, kind: str, message: str) -> None:
        """One more failed row."""
        with self._lock:
            self.counts[kind] += 1
            self.message = message

    def timed(self, seconds: float, rows: int) -> None:
        """A batch of rows that took so long."""
        with self._lock:
            self._seconds += seconds
            self._rows += rows

    @property
    def cost(self) -> float:
        """Mean seconds per row so far; NaN before the first."""
        return self._seconds / self._rows if self._rows else math.nan

    def __reduce__(self) -> tuple[object, ...]:
        """A copy begins to count anew."""
        return Failures, ()


class CountsFailures:
    """A forward model that reports its failed rows."""

    _failures: Failures

    @property
    def failures(self) -> dict[str, int]:
        """Failed rows so far, by kind: "raised", "not_finite" (NaN or infinity came back), "timed_out", "died"."""
        return self._failures.counts

    @property
    def message(self) -> str | None:
        """Message of the last failure."""
        return self._failures.message

    @property
    def cost(self) -> float:
        """Mean seconds per row of the batches evaluated so far; NaN before the first."""
        return self._failures.cost

"""Ctrl-C, SIGTERM and SIGHUP, heard now and obeyed at the end of a step."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import traceback
from types import FrameType, TracebackType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupts:
    """While it is entered, the first signal is kept in `received` instead of ending the process.

    The next one does what it did before: a step that takes too long, or hangs, can still be left, back to the last
    checkpoint. But not by SIGHUP: of a terminal that is closed the system and the shell send one each, often a SIGTERM.
    A signal that is ignored stays so: `nohup` does that with SIGHUP. Python lets the main thread alone hear signals; in
    another one nothing is heard here.

    Parameters
    ----------
    notice : str, optional
        Said on the standard error when a signal is heard: a step may take long.
    """

    def __init__(self, notice: str = "") -> None:
        self.received: int | None = None
        self._notice, self._process = notice, os.getpid()
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            # a handler that is not Python's own (None) could not be put back
            self._before = {s: h for s in SIGNALS if (h := signal.getsignal(s)) not in (None, signal.SIG_IGN)}
            for number in self._before:
                signal.signal(number, self._hear)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._restore()

    def _hear(self, number: int, frame: FrameType | None) -> None:
        self.received = self.received or number
        if number == signal.SIGHUP:  # no one is there to read
            return
        self._restore(but=signal.SIGHUP)
        if self._notice and os.getpid() == self._process:  # not in a fork, such as a worker of a pool that is ended
            with contextlib.suppress(OSError):
                # not by sys.stderr, which may be in the middle of a line
                os.write(2, f"\n{signal.Signals(number).name}: {self._notice}\n".encode())

    def _restore(self, but: int | None = None) -> None:
        for number, handler in self._before.items():
            if number != but:
                signal.signal(number, handler)


def leave(number: int, message: str) -> None:
    """End as the signal would have, with a message.

    Raises
    ------
    KeyboardInterrupt
        For Ctrl-C: a notebook or a prompt goes on.
    SystemExit
        For SIGTERM and SIGHUP, with the status that a shell shows for it, 128 + 15 or 1; the message is on the standard
        error.
    """
    if number == signal.SIGINT:
        raise KeyboardInterrupt(message)
    if message:
        with contextlib.suppress(OSError):  # the terminal may be gone: that is what SIGHUP says
            print(message, file=sys.stderr, flush=True)
    raise SystemExit(128 + number)


def reason(error: BaseException) -> str:
    """The cause of a run's end: the message of an exception, and where it arose."""
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    notes, place = getattr(error, "__notes__", []), traceback.extract_tb(error.__traceback__)[-1]
    said = "; ".join([f"{type(error).__name__}: {error}".removesuffix(": "), *notes])
    return f"{said} ({place.filename}, line {place.lineno})"

"""Ctrl-C, SIGTERM and SIGHUP during an emulation: it ends at once, and says how to go on."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from invsamp.engine.driver.signals import leave

#: Signals that end a process without Python's having a say.
_ENDING = (signal.SIGTERM, signal.SIGHUP)


@contextmanager
def stopped(message: Callable[[], str]) -> Iterator[None]:
    """While it is entered, these signals end what is running, and a message says how to go on.

    A wave of simulations may take hours, so its end is not waited for. A user's own handlers stay. Python lets the main
    thread alone hear signals.

    Raises
    ------
    KeyboardInterrupt, SystemExit
        As of `invsamp.engine.driver.signals.leave`.
    """
    heard: list[int] = []
    main = threading.current_thread() is threading.main_thread()
    ours = [number for number in _ENDING if main and signal.getsignal(number) == signal.SIG_DFL]

    def hear(number: int, frame: FrameType | None) -> None:
        heard.append(number)
        for other in ours:
            signal.signal(other, signal.SIG_DFL)  # the next one ends a simulator that does not end
        raise KeyboardInterrupt

    for number in ours:
        signal.signal(number, hear)
    try:
        yield
        return
    except KeyboardInterrupt:
        pass  # its traceback is that of the simulation that was running
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)
    try:
        leave(heard[0] if heard else signal.SIGINT, message())
    except KeyboardInterrupt as error:
        raise error from None

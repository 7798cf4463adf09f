"""Runs in a directory that end after a checkpoint, as if they were killed there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from invsamp.storage.directory import RunDirectory


class Stop(Exception):
    """What ends a run."""


@contextmanager
def stopping(when: Callable[[RunDirectory, int], bool]) -> Iterator[None]:
    """The run that is made within ends after the first checkpoint for which that holds, of its directory and step."""
    real = RunDirectory.checkpoint

    def checkpoint(self, done, *args, **kwargs):
        real(self, done, *args, **kwargs)
        if when(self, done):
            raise Stop

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RunDirectory, "checkpoint", checkpoint)
        patch.setattr(RunDirectory, "note", lambda self, stopped: None)  # a process that is killed says nothing
        with pytest.raises(Stop):
            yield

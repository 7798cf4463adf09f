"""Whether all processes of a run were given the same: one that has other data would spoil it silently."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict

from invsamp.engine.driver.engine import Engine
from invsamp.parallel.messages import Communicator, Patience
from invsamp.protocols import Array, Plain, Potential
from invsamp.storage.manifest import compare_energies, describe, differences, energies_at

#: Seconds after which a process that waits for the others to begin reports it.
NOTICE = 30.0


def check_equal(comm: Communicator, settings: Mapping[str, object]) -> None:
    """Refuse settings, nested numbers and text, that are not the same on all processes.

    Every process of ``comm`` has to call this.

    Raises
    ------
    ValueError
        On every process, with what differs, and where.
    """
    _wait_for_all(comm)
    wanted = comm.bcast(settings)
    if (error := _unequal(comm, "arguments", differences(wanted, settings))) is not None:
        raise error


def run_settings(engine: Engine) -> Plain:
    """Settings that identify a run, without its seed and the repr of its forward models, which may hold addresses."""
    settings = describe(engine.problem, engine.sampler) | asdict(engine.plan) | engine.record.settings()
    if "data" in settings:  # a digest in words
        settings["data"] = f"of shape {tuple(settings['data']['shape'])} and digest {settings['data']['sha256'][:12]}"
    settings["start"] = None if engine.given is None else engine.given.tolist()
    return {name: value for name, value in settings.items() if name not in ("seed", "schedule_steps", "forward")}


def unequal_energies(comm: Communicator, potentials: Mapping[str, Potential], position: Array) -> ValueError | None:
    """Error for every process of ``comm`` where forward models differ between processes; None if equal. One solve each.

    ``potentials`` are in the same order on all processes, as some may need all of them for a solve at ``position``
    (d,), which is the same on all.
    """
    found = energies_at(potentials, position)
    Patience().until(comm.Ibarrier().Test)
    wanted = comm.bcast(found)
    # a solve that fails now and then is none of this
    common = {name: energy for name, energy in wanted.items() if math.isfinite(energy - found[name])}
    return _unequal(comm, "forward models", compare_energies(common, found))


def _unequal(comm: Communicator, what: str, found: list[str]) -> ValueError | None:
    for rank, lines in enumerate(comm.allgather(found)):
        if lines:
            return ValueError(
                f"{what} must be the same on all processes; from rank 0 to rank {rank}: {'; '.join(lines)}. "
                "Random quantities need a fixed seed, or have to be drawn by one process and broadcast"
            )
    return None


def _wait_for_all(comm: Communicator) -> None:
    """Wait until all processes have arrived; a script in which some never do would hang silently."""
    begin, noticed, here = time.monotonic(), False, comm.Ibarrier()

    def look() -> bool:
        nonlocal noticed
        if not noticed and time.monotonic() - begin > NOTICE:
            noticed = True
            sys.stderr.write(
                f"rank {comm.rank} of {comm.size} waits for the others: all of them have to sample together. "
                "For a run of one process alone give comm=MPI.COMM_SELF\\n"
            )
            sys.stderr.flush()
        return bool(here.Test())

    Patience().until(look)

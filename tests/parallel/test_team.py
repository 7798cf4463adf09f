"""What ranks agree on: where to stop, what each holds, and that one which fails ends all."""

from __future__ import annotations

import itertools
import re
import sys
import time

import launch
import numpy as np
import pytest
import threads

from invsamp import parallel
from invsamp.parallel import world
from invsamp.parallel.channel import Channel, Patience
from invsamp.parallel.layout import Group
from invsamp.parallel.team import Team

GROUPS = (Group(range(2), range(1)), Group(range(2, 3), range(1, 3)))


class TestStop:
    @pytest.mark.parametrize("told", [0, 1])
    def test_all_end_at_the_same_step(self, told):
        """Whichever is told, and whoever is faster."""

        def work(comm):
            team = Team(comm, [Group(range(k, k + 1), range(k, k + 1)) for k in range(3)], {})
            for step in range(10_000):
                time.sleep(0.001 * comm.rank)
                if team.stop(15 if comm.rank == told and step >= 20 else None, last=False) is not None:
                    return step
            return None

        steps = threads.run(3, work)
        assert len(set(steps)) == 1
        assert 20 <= steps[0] < 10_000

    def test_nobody_stops_unless_told(self):
        def work(comm):
            team = Team(comm, (*GROUPS[:1], Group(range(2, 3), range(1, 2))), {})
            heard = [team.stop(None, last=step == 299) for step in range(300)]
            team.close()
            return heard

        assert threads.run(2, work) == [[None] * 300] * 2

    @pytest.mark.parametrize("told", [0, 1])
    def test_a_signal_after_the_last_look_is_heard_after_the_last_step(self, told, monkeypatch):
        """However long it is between two looks."""
        monkeypatch.setattr(parallel.team, "BETWEEN_LOOKS", 1e6)

        def work(comm):
            team = Team(comm, (*GROUPS[:1], Group(range(2, 3), range(1, 2))), {})
            # looks after steps 1, 3, 7, ... 255: the next one would be after 511
            heard = [
                team.stop(15 if comm.rank == told and step >= 280 else None, last=step == 299) for step in range(300)
            ]
            team.close()
            return heard

        assert threads.run(2, work) == [[None] * 299 + [15]] * 2

    def test_a_process_that_has_nothing_to_do_passes_a_signal_on(self):
        """Once; it may come between two looks."""

        def work(comm):
            team = Team(comm, (*GROUPS[:1], Group(range(2, 3), range(1, 2))), {})
            if not team.leads:
                over = team.barrier()
                return team.stand_by(over.Test, lambda: 15)
            heard = next(number for _ in itertools.count() if (number := team.stop(None, last=False)))
            team.close()
            team.patience.until(team.barrier().Test)
            return heard, team.ending

        assert threads.run(3, work) == [(15, True), (15, True), None]


def test_what_the_root_fails_at_is_raised_everywhere():
    def work(comm):
        team = Team(comm, (*GROUPS[:1], Group(range(2, 3), range(1, 2))), {})
        found = team.on_root(lambda: comm.rank), team.ending
        with pytest.raises(OSError, match="the disk is full"):
            team.on_root(lambda: write(comm.rank))
        return found, team.ending

    def write(rank):
        assert rank == 0
        raise OSError(28, "the disk is full")

    assert threads.run(2, work) == [((0, False), True), ((None, False), True)]


def test_what_a_team_knows():
    def work(comm):
        team = Team(comm, GROUPS, {})
        if not team.leads:
            return team.root, team.group, team.rungs
        gathered, everywhere = team.gather(comm.rank), team.everywhere([comm.rank])
        return team.root, team.group, team.rungs, gathered, everywhere, team.bcast(comm.rank)

    first, second, helper, spare = threads.run(4, work)
    assert first == (True, GROUPS[0], range(2), [0, 1], [[0], [1]], 0)
    assert second == (False, GROUPS[1], range(2, 3), None, [[0], [1]], 0)
    assert helper == (False, GROUPS[1], range(0))
    assert spare == (False, None, range(0))


def test_messages_keep_their_order_and_their_channel():
    def work(comm):
        channels = [Channel(comm, 1 - comm.rank, tag, Patience()) for tag in (3, 4)]
        for number in range(3):
            for channel in channels[:: 1 - 2 * comm.rank]:
                channel.send((comm.rank, number, np.full(3, number)))
        found = [[channel.receive() for _ in range(3)] for channel in channels]
        return [[(rank, number, array.tolist()) for rank, number, array in part] for part in found]

    for rank, found in enumerate(threads.run(2, work)):
        assert found == [[(1 - rank, number, [number] * 3) for number in range(3)]] * 2


def test_waiting_is_measured():
    patience, answers = Patience(), iter([None] * 10 + ["there"])

    def look():
        time.sleep(0.01)
        return next(answers)

    began = time.perf_counter()
    assert patience.until(look) == "there"
    assert 0.1 <= patience.seconds <= time.perf_counter() - began
    at_once = Patience()
    assert at_once.until(lambda: "there") == "there"
    assert at_once.seconds == 0.0


class TestAlone:
    def test_rank_and_size(self, monkeypatch):
        for name in world._SIZES:
            monkeypatch.delenv(name, raising=False)
        monkeypatch.delitem(sys.modules, "mpi4py", raising=False)
        assert (parallel.rank(), parallel.size()) == (0, 1)

    def test_launcher_without_mpi4py(self, monkeypatch):
        """Two processes that do not know each other would each make the whole run."""
        monkeypatch.setenv("PMI_SIZE", "2")
        monkeypatch.setitem(sys.modules, "mpi4py", None)
        world._world.cache_clear()
        with pytest.raises(RuntimeError, match=r"one of 2 .* mpi4py is not there .*pip install invsamp\[mpi\]"):
            parallel.size()


@pytest.mark.mpi
class TestLaunched:
    def test_rank_and_size(self):
        code = """
            from invsamp import parallel
            print(f"rank {parallel.rank()} of {parallel.size()}")
        """
        found = launch.mpi(code, 2).stdout
        assert sorted(found.split("\n")[:2]) == ["rank 0 of 2", "rank 1 of 2"]

    def test_a_launcher_of_another_library_is_told(self):
        if (reason := launch.no_mpi()) is not None:
            pytest.skip(reason)
        code = """
            import os
            os.environ["PMI_SIZE"] = "2"
            from invsamp import parallel
            parallel.size()
        """
        found = launch.python(code, check=False)
        assert found.returncode != 0
        assert re.search(r"RuntimeError: the launcher started 2 processes, but each of them is alone", found.stderr)

    def test_a_launcher_that_tells_nothing(self):
        """Some set no variable that is known here; `python -m mpi4py` is enough of a sign."""
        code = """
            import os
            for name in [name for name in os.environ if name.endswith("_SIZE")]:
                if not name.startswith("OMPI_UNIVERSE"):
                    del os.environ[name]
            from invsamp import parallel
            print(f"rank {parallel.rank()} of {parallel.size()}")
        """
        assert "rank 1 of 2" in launch.mpi(code, 2).stdout

    #: Rank 1 fails, in a run or after it; rank 0 would wait for it for ever.
    FAILING = """
        import sys, time
        import numpy as np
        import invsamp as iv
        from invsamp import parallel

        rank = parallel.rank()

        class Model:
            calls = 0

            def __call__(self, theta):
                return self.linearize(theta)[0]

            def linearize(self, theta):
                self.calls += 1
                if sys.argv[1] == "in a run" and rank == 1 and self.calls > 30:
                    raise iv.ModelError("cooling water is out")
                return theta, lambda cotangent: cotangent

        posterior = iv.Posterior(
            iv.Prior(x=iv.Normal(0, 1)), noise=iv.GaussianNoise(0.1), data=np.zeros(1),
            forward={"coarse": Model(), "fine": Model()},
        )
        sampler = iv.relangevin((1.0, 4.0), 0.1, preconditioner=None)
        print("began", flush=True)
        iv.sample(posterior, sampler, draws=50, warmup=0, seed=1, progress=False)
        if rank == 1:
            raise ValueError("cooling water is out")
        time.sleep(3600)
    """

    @pytest.mark.parametrize(
        ("when", "abort"),
        [
            ("in a run", False),
            pytest.param("after it", False, marks=pytest.mark.slow),
            pytest.param("in a run", True, marks=pytest.mark.slow),
        ],
    )
    def test_a_rank_that_raises_ends_all(self, when, abort):
        found = launch.mpi(self.FAILING, 2, when, check=False, abort=abort)
        assert found.returncode != 0
        assert "began" in found.stdout
        assert "rank 1 of 2 failed" in found.stderr
        assert "Error: cooling water is out" in found.stderr
        assert "Traceback (most recent call last)" in found.stderr

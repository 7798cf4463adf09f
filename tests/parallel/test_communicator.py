"""Which process this is of how many, and that one which fails ends all."""

from __future__ import annotations

import re
import sys

import launch
import pytest

from invsamp import parallel
from invsamp.parallel import communicator


class TestAlone:
    def test_rank_and_size(self, monkeypatch):
        for name in communicator._SIZES:
            monkeypatch.delenv(name, raising=False)
        monkeypatch.delitem(sys.modules, "mpi4py", raising=False)
        assert (parallel.rank(), parallel.size()) == (0, 1)

    def test_launcher_without_mpi4py(self, monkeypatch):
        """Two processes that do not know each other would each make the whole run."""
        monkeypatch.setenv("PMI_SIZE", "2")
        monkeypatch.setitem(sys.modules, "mpi4py", None)
        communicator._world.cache_clear()
        with pytest.raises(RuntimeError, match=r"one of 2 .* mpi4py cannot be imported.*pip install invsamp\[mpi\]"):
            parallel.size()


@pytest.mark.mpi
class TestLaunched:
    def test_a_launcher_of_another_library_is_reported(self):
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
        assert re.search(r"RuntimeError: the launcher started 2 processes, but they cannot communicate", found.stderr)

    def test_a_launcher_without_information(self):
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
        import no_arviz
        import numpy as np
        import invsamp as iv
        from invsamp import parallel
        from invsamp.parallel import load_balancing

        load_balancing.MESSAGES = -1.0  # cheap as the model is, it is solved by all
        rank = parallel.rank()

        class Model:
            calls = 0

            def __call__(self, theta):
                return self.linearize(theta)[0]

            def linearize(self, theta):
                self.calls += 1
                if sys.argv[1] == "in a run" and rank == 1 and self.calls > 30:
                    raise SystemExit("cooling water is out")
                return theta, lambda cotangent: cotangent

        posterior = iv.Posterior(
            iv.Prior(x=iv.Normal(0, 1)), noise=iv.GaussianNoise(0.1), data=np.zeros(1),
            forward={"coarse": Model(), "fine": Model()},
        )
        sampler = iv.samplers.parallel_tempering((1.0, 4.0), 0.1, preconditioner=None)
        print("began", flush=True)
        iv.sample(posterior, sampler, draws=50, warmup=0, seed=1, progress=False)
        if rank == 1:
            raise ValueError("cooling water is out")
        time.sleep(3600)
    """

    @pytest.mark.parametrize(("when", "through"), [("in a run", None), ("after it", None), ("in a run", "mpi4py")])
    def test_a_rank_that_raises_ends_all(self, when, through):
        found = launch.mpi(self.FAILING, 2, when, check=False, through=through)
        assert found.returncode != 0
        assert "began" in found.stdout
        assert "rank 1 of 2 failed" in found.stderr
        assert re.search("(Error|SystemExit): cooling water is out", found.stderr)
        assert "Traceback (most recent call last)" in found.stderr

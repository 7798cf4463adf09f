"""Who runs simulations: executors of `concurrent.futures`, Dask, submitit, and what has nothing but ``map``."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from invsamp.errors import ModelError
from invsamp.simulations import stored
from invsamp.simulations.running import finished_runs

THETA = np.array([[1.0], [2.0], [-1.0], [3.0]])


def root(theta: np.ndarray) -> np.ndarray:
    """Fails below 0."""
    if (theta < 0.0).any():
        raise ValueError("no root")
    return np.sqrt(theta)


class Mapping:
    """A pool with ``map`` alone."""

    def map(self, function, rows):
        return [function(row) for row in rows]


class Job:
    """A job of a cluster: it is no future, and does not say when it is done. The third is ended by its time limit."""

    def __init__(self, number, result):
        self.number, self._result, self.looks = number, result, 0

    def done(self):
        self.looks += 1
        return self.looks > self.number

    def result(self):
        if self.number == 0:
            raise TimeoutError("the job was ended by its time limit")
        return self._result


class Cluster:
    """The last job is done first."""

    def __init__(self):
        self.left = 4

    def submit(self, function, *arguments):
        self.left -= 1
        return Job(self.left, function(*arguments))


def outputs(executor):
    found = {run.row: run for run in finished_runs(root, THETA, executor)}
    assert sorted(found) == [0, 1, 2, 3]
    assert "no root" in found[2].failure
    assert [found[row].outputs.item() for row in (0, 1)] == [1.0, np.sqrt(2.0)]
    return found


def test_what_has_submit_or_map_runs_simulations():
    with ThreadPoolExecutor(2) as pool:
        for executor in (None, pool, Mapping()):
            assert outputs(executor)[3].outputs.item() == np.sqrt(3.0)


def test_a_job_that_is_ended_is_a_failed_simulation():
    found = outputs(Cluster())
    assert found[3].outputs is None
    assert "TimeoutError: the job was ended by its time limit" in found[3].failure
    order = [run.row for run in finished_runs(root, THETA, Cluster())]
    assert order == [3, 2, 1, 0]  # as they are done


def test_a_mistake_in_the_model_is_no_failure():
    with pytest.raises(ModelError, match="must have shape"):
        list(finished_runs(lambda theta: np.zeros(3), THETA, Mapping()))


@pytest.mark.parametrize("executor", [4, "slurm", object()])
def test_what_cannot_run_simulations_is_an_error(tmp_path: Path, executor):
    with pytest.raises(ValueError, match="executor must be None, or have a method submit or map"):
        stored(root, tmp_path / "runs", names=["a"], executor=executor)


@pytest.mark.slow
def test_jobs_of_submitit(tmp_path: Path):
    submitit = pytest.importorskip("submitit")
    executor = submitit.AutoExecutor(folder=tmp_path / "jobs", cluster="local")
    executor.update_parameters(timeout_min=2)
    model = stored(root, tmp_path / "runs", names=["a"], executor=executor)
    assert np.array_equal(model(THETA), [[1.0], [np.sqrt(2.0)], [np.nan], [np.sqrt(3.0)]], equal_nan=True)
    assert model.database.table().failed.sum() == 1


@pytest.mark.slow
def test_a_client_of_dask(tmp_path: Path):
    distributed = pytest.importorskip("distributed")
    cluster = distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None)
    with cluster, distributed.Client(cluster) as client:
        outputs(client)
        model = stored(root, tmp_path / "runs", names=["a"], executor=client)
        assert np.array_equal(model(THETA), [[1.0], [np.sqrt(2.0)], [np.nan], [np.sqrt(3.0)]], equal_nan=True)

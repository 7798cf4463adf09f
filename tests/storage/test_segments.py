from __future__ import annotations

import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from invsamp.storage import segments
from invsamp.storage.contents import groups_of
from invsamp.storage.segments import Draws

SHAPES = {"x": (), "k": (3,), "m": (2, 2)}


def made(draws, rungs=2, chains=4, seed=0):
    rng = np.random.default_rng(seed)
    theta = rng.standard_normal((rungs, chains, draws, 8))
    stats = {
        "energy": rng.standard_normal((rungs, chains, draws)),
        "replica": rng.integers(0, rungs, (rungs, chains, draws)),
    }
    return theta, stats


def written(folder, counts, rungs=2):
    theta, stats = made(sum(counts), rungs)
    entries, first = [], 0
    for number, count in enumerate(counts):
        part = slice(first, first + count)
        groups = groups_of(theta[:, :, part], SHAPES, {n: v[:, :, part] for n, v in stats.items()})
        entries.append(segments.write_segment(folder, number, first, groups))
        first += count
    return theta, stats, entries


def test_segments_are_read_as_one_array(tmp_path):
    theta, stats, entries = written(tmp_path, [3, 1, 5])
    assert [(e.name, e.first, e.count) for e in entries] == [
        ("segment-000000.nc", 0, 3),
        ("segment-000001.nc", 3, 1),
        ("segment-000002.nc", 4, 5),
    ]
    draws = Draws(tmp_path, entries)
    assert draws.count == 9
    np.testing.assert_array_equal(draws.read("posterior", "x"), theta[0, ..., 0])
    np.testing.assert_array_equal(draws.read("posterior", "m"), theta[0, ..., 4:].reshape(4, 9, 2, 2))
    np.testing.assert_array_equal(draws.read("hot", "k"), np.moveaxis(theta[1:, ..., 1:4], 0, 2))
    np.testing.assert_array_equal(draws.read("sample_stats", "energy"), stats["energy"][0])
    replica = draws.read("hot_stats", "replica")
    np.testing.assert_array_equal(replica[:, :, 0], stats["replica"][1])
    assert replica.dtype == stats["replica"].dtype
    # one entry of what follows the draw, and no more is read
    np.testing.assert_array_equal(draws.read("posterior", "m", rest=(1, 0)), theta[0, ..., 6])


def test_one_rung_has_no_hot_groups(tmp_path):
    _, _, entries = written(tmp_path, [2], rungs=1)
    assert set(Draws(tmp_path, entries).variables) == {"posterior", "sample_stats"}


@pytest.fixture(scope="module")
def nine(tmp_path_factory):
    folder = tmp_path_factory.mktemp("nine")
    theta, _, entries = written(folder, [3, 1, 5])
    return theta, Draws(folder, entries)


@given(st.integers(0, 10), st.integers(0, 10), st.integers(1, 7))
def test_any_slice_is_that_of_the_whole(nine, start, stop, step):
    theta, draws = nine
    found = draws.read("posterior", "k", slice(start, stop, step))
    np.testing.assert_array_equal(found, theta[0, ..., 1:4][:, start:stop:step])


def test_a_segment_is_a_netcdf_file_that_others_read(tmp_path):
    import arviz

    theta, _, _ = written(tmp_path, [3])
    data = arviz.from_netcdf(tmp_path / "segment-000000.nc", engine="h5netcdf")
    assert data.posterior["k"].dims == ("chain", "draw", "k_dim_0")
    np.testing.assert_array_equal(data.posterior["x"], theta[0, ..., 0])
    data.posterior.close()


def test_joined_draws_are_those_of_both(tmp_path):
    theta, stats, entries = written(tmp_path, [3, 4])
    part = groups_of(theta[:, :, 3:], SHAPES, {n: v[:, :, 3:] for n, v in stats.items()})
    both = segments.joined(tmp_path, entries[0], part)
    whole = groups_of(theta, SHAPES, stats)
    for group, variables in whole.items():
        for name, values in variables.items():
            np.testing.assert_array_equal(both[group][name], values)
            assert both[group][name].dtype == values.dtype


def test_faults_are_distinguished_and_named(tmp_path):
    _, _, entries = written(tmp_path, [3, 4])
    path = tmp_path / entries[1].name
    content = path.read_bytes()
    assert segments.fault(tmp_path, entries[1]) is None
    path.write_bytes(content[:-1])
    assert "segment-000001.nc (draws 3 to 6) is truncated" in segments.fault(tmp_path, entries[1])
    path.write_bytes(content[:500] + bytes([content[500] ^ 1]) + content[501:])
    assert "segment-000001.nc (draws 3 to 6) is damaged: its checksum" in segments.fault(tmp_path, entries[1])
    path.unlink()
    assert "segment-000001.nc (draws 3 to 6) is missing" in segments.fault(tmp_path, entries[1])
    path.mkdir()
    assert "segment-000001.nc (draws 3 to 6)" in segments.fault(tmp_path, entries[1])


def test_without_a_state_whole_segments_are_found(tmp_path):
    theta, stats, entries = written(tmp_path, [3, 1, 5])
    # what a kill between the longer segment and the removal of the one that it replaces leaves over
    part = groups_of(theta[:, :, 3:], SHAPES, {n: v[:, :, 3:] for n, v in stats.items()})
    longer = segments.write_segment(tmp_path, 3, 3, part)
    found, faults = segments.found(tmp_path)
    assert [e.name for e in found] == [entries[0].name, longer.name]
    assert faults == []
    draws = Draws(tmp_path, found)
    np.testing.assert_array_equal(draws.read("posterior", "x"), theta[0, ..., 0])
    assert list(draws.shapes.items()) == list(SHAPES.items())  # in the order of the columns of theta
    with open(tmp_path / entries[0].name, "r+b") as file:
        file.truncate(os.path.getsize(file.name) // 2)
    found, faults = segments.found(tmp_path)
    assert [e.name for e in found] == [longer.name]
    assert len(faults) == 1 and "segment-000000.nc is truncated or damaged" in faults[0]
    np.testing.assert_array_equal(Draws(tmp_path, found).numbers, np.arange(3, 9))


def test_wrong_draws_in_a_segment_are_found_without_a_state(tmp_path):
    import h5py

    _, _, entries = written(tmp_path, [50])
    path = tmp_path / entries[0].name
    with h5py.File(path) as file:
        where = file["posterior/k"].id.get_chunk_info(0).byte_offset
    content = bytearray(path.read_bytes())
    content[where : where + 8] = b"\0" * 8
    path.write_bytes(content)
    assert segments.found(tmp_path) == ([], [f"{path} is truncated or damaged"])


def test_a_segment_that_was_replaced_while_the_run_goes_on(tmp_path):
    theta, stats, entries = written(tmp_path, [3, 2])
    now = []
    draws = Draws(tmp_path, entries, lambda: now)
    more, more_stats = made(10, seed=0)
    more[:, :, :5], later = theta, {n: np.concatenate([stats[n], v[:, :, 5:]], axis=2) for n, v in more_stats.items()}
    now.append(segments.write_segment(tmp_path, 2, 0, groups_of(more, SHAPES, later)))
    for entry in entries:
        (tmp_path / entry.name).unlink()
    np.testing.assert_array_equal(draws.read("posterior", "x"), theta[0, ..., 0])
    np.testing.assert_array_equal(draws.read("posterior", "x", slice(1, None, 2)), theta[0, :, 1::2, 0])


def test_constants_come_back(tmp_path):
    groups = {"observed_data": {"data": np.arange(6.0).reshape(3, 2)}, "prior": {"x": np.ones((1, 10))}}
    file = segments.write_constants(tmp_path / "problem.nc", groups)
    assert segments.fault(tmp_path, file) is None
    found = segments.read_constants(tmp_path / "problem.nc")
    np.testing.assert_array_equal(found["observed_data"]["data"], groups["observed_data"]["data"])
    np.testing.assert_array_equal(found["prior"]["x"], groups["prior"]["x"])

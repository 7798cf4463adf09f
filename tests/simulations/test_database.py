"""A database of simulations: nothing that was recorded is lost, and nothing torn or damaged is taken for a result."""

from __future__ import annotations

import itertools
import json
import os
import pickle
import signal

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from forks import forked
from hypothesis import given, settings
from hypothesis import strategies as st

from invsamp.errors import WrongShapeError
from invsamp.simulations import SimulationDatabase
from invsamp.simulations.record_file import as_line, from_line

NAMES = ["a", "b"]


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "runs"


@pytest.fixture
def database(folder):
    return SimulationDatabase.open(folder, NAMES)


def files(folder):
    return sorted(folder.glob("*.jsonl"))


class TestRecord:
    def test_a_new_process_finds_what_was_recorded_to_the_bit(self, folder, database):
        rng = np.random.default_rng(0)
        theta, y = rng.normal(size=(20, 2)) * 10.0 ** rng.integers(-300, 300, (20, 2)), rng.normal(size=(20, 3))
        for point, outputs in zip(theta, y, strict=True):
            database.record(point, outputs, seconds=1.5)
        found = SimulationDatabase.open(folder).lookup(theta)
        assert found.known.all()
        np.testing.assert_array_equal(found.outputs, y)
        assert not SimulationDatabase.open(folder).lookup(np.nextafter(theta, np.inf)).known.any()

    def test_a_failure_is_known_and_has_its_words(self, database):
        database.record([1.0, 2.0], failure="exit status 3")
        database.record([1.0, 3.0], [1.0])
        found = database.lookup([[1.0, 2.0], [1.0, 3.0], [0.0, 0.0]])
        assert found.known.tolist() == [True, True, False]
        assert found.messages == ("exit status 3", None, None)
        np.testing.assert_array_equal(found.outputs, [[np.nan], [1.0], [np.nan]])

    def test_outputs_that_are_not_finite_are_a_failure_that_says_which(self, database):
        database.record([0.0, 0.0], [1.0, np.nan, -np.inf])
        assert database.lookup([[0.0, 0.0]]).messages == (
            "2 of 3 outputs are not finite: output 1 is nan, output 2 is -inf",
        )

    def test_a_success_counts_more_than_a_failure_in_any_order(self, database):
        for first, second in (({"outputs": [1.0]}, {"failure": "no"}), ({"failure": "no"}, {"outputs": [1.0]})):
            theta = [0.0, float("outputs" in first)]
            database.record(theta, **first), database.record(theta, **second)
            assert database.lookup([theta]).outputs == 1.0

    def test_minus_zero_is_zero(self, database):
        database.record([0.0, -0.0], [1.0])
        assert database.lookup([[-0.0, 0.0]]).known.all()

    def test_a_changing_number_of_outputs_is_refused(self, database):
        database.record([0.0, 0.0], [1.0, 2.0])
        with pytest.raises(WrongShapeError, match=r"as many outputs as those before in .*, 2, got 3 at theta \[1.0, "):
            database.record([1.0, 0.0], [1.0, 2.0, 3.0])

    def test_versions_do_not_see_each_other(self, folder, database):
        database.record([0.0, 0.0], [1.0, 2.0])
        other = SimulationDatabase.open(folder, NAMES, version="2")
        assert not other.lookup([[0.0, 0.0]]).known.any()
        other.record([0.0, 0.0], [1.0])
        assert database.versions() == {"": 1, "2": 1}
        assert database.lookup([[0.0, 0.0]]).outputs.shape == (1, 2)

    def test_failures_can_be_forgotten(self, folder, database):
        database.record([0.0, 0.0], failure="the disk is full")
        database.record([1.0, 0.0], [1.0])
        database.forget_failures()
        for one in (database, SimulationDatabase.open(folder)):
            assert one.lookup([[0.0, 0.0], [1.0, 0.0]]).known.tolist() == [False, True]
        database.record([0.0, 0.0], failure="again")
        assert SimulationDatabase.open(folder).lookup([[0.0, 0.0]]).messages == ("again",)

    def test_a_pickled_database_reads_the_folder_again(self, database):
        other = pickle.loads(pickle.dumps(database))
        database.record([0.0, 0.0], [1.0])
        assert other.lookup([[0.0, 0.0]]).known.all()


class TestCrashes:
    def test_kill_9_in_the_middle_loses_nothing_that_was_recorded(self, folder):
        for at in (30, 37):  # killed, begun anew, and killed again
            done = killed_while_recording(folder, at)
            found = SimulationDatabase.open(folder).lookup(np.arange(done + 1.0)[:, None])
            assert done >= at and found.known.all()
            np.testing.assert_array_equal(found.outputs[:, 0], np.arange(done + 1) / 3.0)

    @settings(max_examples=30, deadline=None)
    @given(cut=st.integers(1, 140), then=st.booleans())
    def test_a_torn_end_is_dropped_and_nothing_else(self, tmp_path_factory, cut, then):
        folder = tmp_path_factory.mktemp("torn")
        database = SimulationDatabase.open(folder, NAMES)
        for k in range(3):
            database.record([float(k), 0.0], [k / 3.0])
        (file,) = files(folder)
        content = file.read_bytes()
        last = len(content) - content[:-1].rindex(b"\n") - 1
        file.write_bytes(content[: -min(cut, last)])
        reopened = SimulationDatabase.open(folder)
        assert reopened.lookup([[0.0, 0.0], [1.0, 0.0], [2.0, 0.0]]).known.tolist() == [True, True, False]
        if then:
            reopened.record([2.0, 0.0], [9.0])
            assert SimulationDatabase.open(folder).lookup([[2.0, 0.0]]).outputs == 9.0

    def test_a_damaged_record_is_left_out_with_a_warning(self, folder, database):
        for k in range(3):
            database.record([float(k), 0.0], [k + 0.25])
        (file,) = files(folder)
        file.write_bytes(file.read_bytes().replace(b"1.25", b"1.75"))
        with pytest.warns(UserWarning, match="is damaged before byte .*: one simulation there is left out"):
            reopened = SimulationDatabase.open(folder)
        assert reopened.lookup([[0.0, 0.0], [1.0, 0.0], [2.0, 0.0]]).known.tolist() == [True, False, True]

    def test_a_line_is_json_and_its_checksum_sees_every_changed_byte(self):
        line = as_line({"theta": [0.1], "outputs": None})
        assert json.loads(line)["theta"] == [0.1]
        assert from_line(line) == {"theta": [0.1], "outputs": None}
        for k in range(len(line) - 1):
            assert from_line(line[:k] + bytes([line[k] ^ 1]) + line[k + 1 :]) is None

    def test_a_full_disk_is_an_error_and_the_next_record_is_whole(self, folder, database, monkeypatch):
        database.record([0.0, 0.0], [1.0])
        write = os.write

        def half(descriptor, data):
            if len(data) > 40:
                return write(descriptor, data[:40])
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patched, pytest.raises(OSError, match="No space"):
            patched.setattr(os, "write", half)
            database.record([1.0, 0.0], [1.0])
        database.record([2.0, 0.0], [3.0])
        assert SimulationDatabase.open(folder).lookup([[0.0, 0.0], [1.0, 0.0], [2.0, 0.0]]).known.tolist() == [
            *(True, False, True)
        ]


class TestTables:
    def test_a_table_holds_all_in_their_order(self, database):
        database.record([0.0, 1.0], [1.0, 2.0], seconds=3.0)
        database.record([1.0, 1.0], failure="exit status 1")
        database.record([0.0, 1.0], [1.5, 2.0])  # a noisy simulator, run twice
        table = database.table()
        np.testing.assert_array_equal(table.theta, [[0.0, 1.0], [1.0, 1.0], [0.0, 1.0]])
        np.testing.assert_array_equal(table.outputs, [[1.0, 2.0], [np.nan, np.nan], [1.5, 2.0]])
        assert table.failed.tolist() == [False, True, False]
        np.testing.assert_array_equal(table.seconds, [3.0, np.nan, np.nan])
        frame = table.to_dataframe()
        assert list(frame) == ["a", "b", "y[0]", "y[1]", "failed", "message", "seconds", "version"]
        assert frame["message"][1] == "exit status 1"

    def test_a_dataset_survives_netcdf(self, tmp_path, database):
        database.record([0.0, 1.0], [1.0, 2.0])
        database.table().to_xarray().to_netcdf(tmp_path / "runs.nc", engine="h5netcdf")
        with xr.open_dataset(tmp_path / "runs.nc", engine="h5netcdf") as read:
            assert read["theta"].sel(parameter="b").item() == 1.0
            np.testing.assert_array_equal(read["outputs"], [[1.0, 2.0]])

    @pytest.mark.filterwarnings("ignore:The 'float_precision' argument")  # pandas 2 needs it, and pandas 4 does not
    def test_an_exported_table_can_be_imported(self, tmp_path, database):
        rng = np.random.default_rng(0)
        for row in rng.normal(size=(5, 2)):
            database.record(row, row**2, seconds=1.0)
        database.record([9.0, 9.0], failure="no")
        frame = database.table().to_dataframe()
        frame.to_csv(tmp_path / "runs.csv", index=False)
        other = SimulationDatabase.open(tmp_path / "other", NAMES)
        again = pd.read_csv(tmp_path / "runs.csv", float_precision="round_trip")
        assert other.import_dataframe(again, ["y[0]", "y[1]"], "seconds") == 6
        assert other.import_dataframe(again, ["y[0]", "y[1]"]) == 0
        found = other.lookup(database.table().theta)
        np.testing.assert_array_equal(found.outputs, database.table().outputs)
        assert found.messages[-1] == "2 of 2 outputs are not finite: output 0 is nan, output 1 is nan"

    @pytest.mark.parametrize(
        "frame, outputs, words",
        [
            ({"a": [1.0], "y": [1.0]}, ["y"], r"frame must have the columns \['a', 'b', 'y'\], got none for \['b'\]"),
            ({"a": [1.0], "b": ["x"], "y": [1.0]}, ["y"], "frame must hold numbers"),
            ({"a": [1.0], "b": [np.nan], "y": [1.0]}, ["y"], "finite parameters, got .* in row 0"),
        ],
    )
    def test_a_frame_that_does_not_fit_is_refused(self, database, frame, outputs, words):
        with pytest.raises(ValueError, match=words):
            database.import_dataframe(pd.DataFrame(frame), outputs)


class TestOpen:
    def test_other_names_are_refused(self, folder, database):
        with pytest.raises(
            ValueError, match=r"names must be those of the simulations in .*, \['a', 'b'\], got \['a'\]"
        ):
            SimulationDatabase.open(folder, ["a"])

    def test_a_folder_of_something_else_is_refused(self, tmp_path):
        (tmp_path / "thesis.tex").write_text("")
        with pytest.raises(ValueError, match=r"folder must be new, or one of simulations, got .*holds thesis.tex"):
            SimulationDatabase.open(tmp_path, NAMES)
        with pytest.raises(ValueError, match="folder must hold simulations, as names are not given"):
            SimulationDatabase.open(tmp_path)

    def test_a_version_that_is_no_text_is_refused(self, folder):
        with pytest.raises(ValueError, match="version must be a string, got 2"):
            SimulationDatabase.open(folder, NAMES, version=2)


def killed_while_recording(folder, at):
    """Kill a process that records simulations as soon as it says that it has recorded number ``at``; the last it said.

    A number is said when `SimulationDatabase.record` has returned.
    """
    reader, writer = os.pipe()

    def work():
        database = SimulationDatabase.open(folder, ["a"])
        for number in itertools.count():
            database.record([float(number)], [number / 3.0] * 200)
            os.write(writer, b"%d\n" % number)

    with forked(work) as child, open(reader) as heard:
        os.close(writer)
        last = next(int(line) for line in heard if int(line) >= at)
        os.kill(child, signal.SIGKILL)
        return max([last, *map(int, heard)])

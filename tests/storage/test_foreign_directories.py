"""The directory of another user's run: no file outside it is read, written or removed."""

from __future__ import annotations

import os
import pickle
import re
import shutil
from dataclasses import replace
from zlib import crc32

import h5py
import pytest
from functions import squares, squares_slope

import invsamp as iv
from invsamp.engine.driver import serialization as states
from invsamp.results.run import Run
from invsamp.resuming import resume
from invsamp.storage.lock import Lock
from invsamp.storage.state import read_state, write_state

SETTINGS = {"draws": 4, "warmup": 4, "chains": 2, "seed": 5, "progress": False, "segment": 2}
SAMPLER = iv.samplers.sgld(step_size=0.01, preconditioner=None)
SECRET = b"another user's\n"


def posed():
    prior = iv.Prior(b=iv.Normal(0, 1), a=iv.Normal(0, 1))
    return iv.Posterior(prior, iv.with_jacobian(squares, squares_slope), [1.0, 2.0], iv.GaussianNoise(0.5))


@pytest.fixture(autouse=True)
def quiet(monkeypatch):
    monkeypatch.setattr(Run, "warnings", lambda self: [])


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A whole run."""
    folder = tmp_path_factory.mktemp("made") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Run, "warnings", lambda self: [])
        iv.sample(posed(), SAMPLER, **SETTINGS, directory=folder)
    return folder


@pytest.fixture
def folder(made, tmp_path):
    """A copy of it, beside a file of the reader's own."""
    (tmp_path / "own").write_bytes(SECRET)
    return shutil.copytree(made, tmp_path / "run")


@pytest.fixture
def untouched(tmp_path):
    yield
    assert (tmp_path / "own").read_bytes() == SECRET


ATTEMPTS = {
    "load": iv.load,
    "resume": lambda folder: resume(folder, posed(), progress=False),
    "more": lambda folder: resume(folder, posed(), draws=6, progress=False),
}


def put(path, kind):
    """In place of a file, something that leads elsewhere or never ends."""
    path.unlink(missing_ok=True)
    if kind == "link":
        path.symlink_to(path.parent.parent / "own")
    elif kind == "hard link":
        os.link(path.parent.parent / "own", path)
    elif kind == "endless":
        path.symlink_to("/dev/zero")
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.mkdir()


@pytest.mark.usefixtures("untouched")
class TestWhatIsNoPlainFile:
    @pytest.mark.parametrize("attempt", [lambda f: ATTEMPTS["more"](f), Lock], ids=["more", "lock"])
    @pytest.mark.parametrize("kind", ["link", "hard link", "endless", "pipe", "folder"])
    def test_as_lock_is_refused(self, folder, kind, attempt):
        """What a link leads to was truncated."""
        put(folder / "lock", kind)
        with pytest.raises(ValueError, match=rf"lock is (a link|a {kind}|a pipe)"):
            attempt(folder)

    @pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
    def test_as_lock_of_an_empty_folder_is_refused(self, tmp_path, folder, kind):
        (tmp_path / "empty").mkdir()
        put(tmp_path / "empty" / "lock", kind)
        with pytest.raises(ValueError, match=r"lock is a"):
            iv.sample(posed(), SAMPLER, **SETTINGS, directory=tmp_path / "empty")

    @pytest.mark.parametrize("attempt", ATTEMPTS)
    @pytest.mark.parametrize("kind", ["link", "endless", "pipe", "folder"])
    def test_as_a_segment_is_named_and_not_opened(self, folder, kind, attempt):
        put(folder / "segment-000001.nc", kind)
        if attempt == "load":
            run = iv.load(folder)
            assert run.report["draws"] == 2
            assert re.search(r"segment-000001\.nc .* cannot be read: .* is a ", run.report["warnings"][0])
        else:
            with pytest.raises(ValueError, match=r"segment-000001\.nc .* cannot be read: .* is a "):
                ATTEMPTS[attempt](folder)

    @pytest.mark.parametrize("attempt", ["resume", "more"])
    @pytest.mark.parametrize("kind", ["link", "endless", "pipe", "folder"])
    def test_as_state_is_refused(self, folder, kind, attempt):
        put(folder / "state.bin", kind)
        with pytest.raises(ValueError, match=r"state\.bin is a "):
            ATTEMPTS[attempt](folder)

    @pytest.mark.parametrize("kind", ["link", "endless", "pipe", "folder"])
    def test_as_state_is_a_lost_one_for_a_reader(self, folder, kind):
        put(folder / "state.bin", kind)
        run = iv.load(folder)
        assert run.report["draws"] == 4 and list(run.shapes) == ["b", "a"]
        assert "state.bin is a " in run.report["warnings"][0]

    @pytest.mark.parametrize("state", ["whole", "lost"])
    @pytest.mark.parametrize("kind", ["link", "endless", "pipe", "folder"])
    def test_as_constants_is_named(self, folder, kind, state):
        put(folder / "problem.nc", kind)
        if state == "lost":
            (folder / "state.bin").unlink()
        run = iv.load(folder)
        assert run.report["draws"] == 4
        assert any("problem.nc" in line for line in run.report["warnings"])
        assert set(run.data) == {"posterior", "sample_stats"}

    @pytest.mark.parametrize("kind", ["link", "endless", "pipe", "folder"])
    def test_as_pickle_is_not_opened(self, folder, kind):
        (folder / "posterior.pickle").unlink()
        put(folder / "posterior.pickle", kind)
        with pytest.raises(ValueError, match=r"posterior must be given .* is a "):
            resume(folder, progress=False)

    def test_of_other_names_is_left_alone(self, folder):
        """What is removed are segments that no checkpoint names, and files half written: not what they lead to."""
        for name, kind in (("segment-000009.nc", "link"), (".x.part", "link"), ("segment-000008.nc", "folder")):
            put(folder / name, kind)
        put(folder / ".y.part", "folder")
        assert ATTEMPTS["more"](folder).report["draws"] == 6
        left = sorted(os.listdir(folder))
        assert "segment-000008.nc" in left and ".y.part" in left
        assert "segment-000009.nc" not in left and ".x.part" not in left


@pytest.mark.usefixtures("untouched")
class TestForged:
    @pytest.mark.parametrize("attempt", ATTEMPTS)
    @pytest.mark.parametrize("name", ["../own", "../x.nc", "segment-000001.nc/../../x.nc", "problem.nc"])
    def test_names_of_segments_are_refused(self, tmp_path, folder, name, attempt):
        """One in another folder was read, joined with the next draws, and removed."""
        shutil.copy(folder / "segment-000001.nc", tmp_path / "x.nc")
        header, payload = read_state(folder)
        last = replace(header.segments[1], name=name)
        write_state(folder, replace(header, segments=(header.segments[0], last)), payload)
        if attempt == "load":
            run = iv.load(folder)  # as if the state were lost
            assert "it calls a segment" in run.report["warnings"][0]
            assert run.report["draws"] == 4
        else:
            with pytest.raises(ValueError, match=r"state\.bin is damaged: it calls a segment"):
                ATTEMPTS[attempt](folder)
        assert (tmp_path / "x.nc").exists()

    @staticmethod
    def resealed(folder, name="segment-000000.nc"):
        """The state knows the segment as it is now."""
        header, payload = read_state(folder)
        content = (folder / name).read_bytes()
        changed = [replace(e, size=len(content), crc=crc32(content)) if e.name == name else e for e in header.segments]
        write_state(folder, replace(header, segments=tuple(changed)), payload)

    @staticmethod
    def refused(folder):
        """Read neither with the state nor without it."""
        with pytest.raises(ValueError, match=r"segment-000000\.nc (holds no|does not hold)"):
            iv.load(folder).draws("a")
        (folder / "state.bin").unlink()
        run = iv.load(folder)
        assert run.report["draws"] == 2
        assert "segment-000000.nc is truncated or damaged" in run.report["warnings"][1]

    @pytest.mark.parametrize("where", ["/", "posterior"])
    @pytest.mark.parametrize("kind", ["external", "soft"])
    def test_a_segment_that_leads_to_another_file(self, tmp_path, folder, where, kind):
        name = "posterior" if where == "/" else "a"
        shutil.copy(folder / "segment-000001.nc", tmp_path / "x.nc")
        target = f"/{name}" if where == "/" else "/posterior/a"
        external = h5py.ExternalLink(str(tmp_path / "x.nc"), target)
        with h5py.File(folder / "segment-000000.nc", "r+") as file:
            del file[where][name]
            file[where][name] = external if kind == "external" else h5py.SoftLink("/posterior/b")
        self.resealed(folder)
        self.refused(folder)

    def test_a_segment_whose_numbers_are_those_of_another_file(self, tmp_path, folder):
        with h5py.File(folder / "segment-000000.nc", "r+") as file:
            del file["posterior"]["a"]
            file["posterior"].create_dataset("a", (2, 1), "u1", external=[(str(tmp_path / "own"), 0, 2)])
        with h5py.File(folder / "segment-000000.nc") as file:  # control: it can be read this way
            assert bytes(file["posterior/a"][()].ravel()) == SECRET[:2]
        self.resealed(folder)
        self.refused(folder)

    @pytest.mark.parametrize("where", ["posterior", "posterior/a"])
    @pytest.mark.parametrize("kind", ["group", "number", "text"])
    def test_a_segment_with_something_else_in_place(self, folder, where, kind):
        with h5py.File(folder / "segment-000000.nc", "r+") as file:
            del file[where]
            if kind == "group":
                file.create_group(where)
            else:
                file[where] = 3.0 if kind == "number" else "text"
        self.resealed(folder)
        with pytest.raises((ValueError, KeyError, IndexError)):
            iv.load(folder).draws("a")
        (folder / "state.bin").unlink()
        assert iv.load(folder).report["draws"] == 2

    def test_a_segment_that_claims_more_than_it_holds(self, folder):
        with h5py.File(folder / "segment-000000.nc", "r+") as file:
            del file["posterior"]["a"]
            file["posterior"].create_dataset("a", (2, 2, 10**13), "f8", chunks=(2, 2, 1024))
        self.resealed(folder)
        self.refused(folder)

    def test_a_pickle_that_the_state_does_not_know_is_not_read(self, folder, monkeypatch):
        monkeypatch.chdir(folder)
        header, payload = read_state(folder)
        (folder / "posterior.pickle").write_bytes(pickle.dumps(Bomb()))
        with pytest.raises(ValueError, match=r"posterior must be given .*its checksum is wrong"):
            resume(folder, progress=False)
        kept = tuple(file for file in header.files if file.name != "posterior.pickle")
        write_state(folder, replace(header, files=kept), payload)
        with pytest.raises(ValueError, match=r"posterior must be given .*and is missing"):
            resume(folder, progress=False)
        assert not (folder / "exploded").exists()


class Bomb:
    """A pickle that does something."""

    def __reduce__(self):
        return (os.mkdir, ("exploded",))


def test_where_the_posterior_is_given_no_pickle_is_read_for_the_sampler(folder, monkeypatch):
    """A state without a sampler made `resume` unpickle one, whatever was given."""
    monkeypatch.chdir(folder)
    header, payload = read_state(folder)
    content = pickle.dumps((None, Bomb()))
    (folder / "posterior.pickle").write_bytes(content)
    files = tuple(
        replace(f, size=len(content), crc=crc32(content)) if f.name == "posterior.pickle" else f for f in header.files
    )
    write_state(folder, replace(header, files=files), states.encode(states.decode(payload) | {"sampler": None}))
    with pytest.raises(ValueError, match=r"sampler must be given .*\(directory, posterior, sampler=sampler\)"):
        resume(folder, posed(), progress=False)
    assert not (folder / "exploded").exists()
    with pytest.raises(ValueError):  # control: without the posterior, it is
        resume(folder, progress=False)
    assert (folder / "exploded").exists()


def test_a_directory_that_is_a_link_is_what_it_leads_to(folder, tmp_path):
    """Which file system is the large one is the user's own business."""
    (tmp_path / "link").symlink_to(folder)
    assert iv.load(tmp_path / "link").report["draws"] == 4
    assert resume(tmp_path / "link", draws=6, progress=False).report["draws"] == 6
    (tmp_path / "nowhere").symlink_to(tmp_path / "gone")
    with pytest.raises(OSError, match="nowhere"):
        iv.sample(posed(), SAMPLER, **SETTINGS, directory=tmp_path / "nowhere")


def test_a_folder_with_a_manifest_of_something_else_is_left_alone(tmp_path):
    (tmp_path / "manifest.json").write_text("{}")
    with pytest.raises(ValueError, match=r"which holds manifest\.json"):
        iv.sample(posed(), SAMPLER, **SETTINGS, directory=tmp_path)
    assert (tmp_path / "manifest.json").read_text() == "{}"

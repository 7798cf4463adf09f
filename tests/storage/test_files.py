from __future__ import annotations

import errno
import os
import stat
import zlib

import pytest

from invsamp.storage import files


def test_a_file_appears_whole_with_its_checksum(tmp_path):
    path = tmp_path / "a.bin"
    crc = files.write_whole(path, [b"one ", memoryview(b"two")])
    assert path.read_bytes() == b"one two"
    assert crc == zlib.crc32(b"one two")
    assert files.checksum(path) == (7, crc)
    assert os.listdir(tmp_path) == ["a.bin"]


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.ENOSPC, "the disk is full"),
        (errno.EDQUOT, "the disk quota is used up"),
        (errno.EROFS, "the file system is read-only"),
        (errno.EACCES, "there is no permission"),
        (errno.EIO, "input/output error"),
        (errno.EFBIG, "file too large"),
    ],
)
@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_every_failure_says_its_cause_and_leaves_the_old_file(tmp_path, monkeypatch, number, words, call):
    path = tmp_path / "a.bin"
    files.write_whole(path, [b"old"])

    def fail(*args):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, call, fail)
    with pytest.raises(OSError, match=f"cannot write .*a.bin: .*{words}") as caught:
        files.write_whole(path, [b"new"])
    assert caught.value.errno == number
    assert type(caught.value) is (PermissionError if number == errno.EACCES else OSError)
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a.bin"]


def test_a_full_disk_for_real(tmp_path):
    """/dev/full takes no byte: the system's own error, through the same words."""
    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full")
    with (
        pytest.raises(OSError, match="cannot write run: the disk is full"),
        files.explained("run"),
        open("/dev/full", "wb") as f,
    ):
        f.write(b"x" * 100_000)


def test_a_folder_that_is_gone(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no such folder"):
        files.write_whole(tmp_path / "no" / "a.bin", [b""])


def test_a_folder_that_cannot_be_flushed_is_no_error_but_one_that_fails_is(tmp_path, monkeypatch):
    real = os.fsync

    def failing(number):
        def fsync(descriptor):
            if stat.S_ISDIR(os.fstat(descriptor).st_mode):
                raise OSError(number, os.strerror(number))
            real(descriptor)

        return fsync

    monkeypatch.setattr(os, "fsync", failing(errno.EINVAL))  # as some network file systems answer
    files.write_whole(tmp_path / "a.bin", [b"one"])
    monkeypatch.setattr(os, "fsync", failing(errno.EIO))
    with pytest.raises(OSError, match=r"cannot write .*a\.bin: the disk reports an input/output error"):
        files.write_whole(tmp_path / "a.bin", [b"two"])
    assert os.listdir(tmp_path) == ["a.bin"]


def test_a_file_and_a_new_folder_are_flushed_before_their_names(tmp_path, monkeypatch):
    done = []
    real_fsync, real_replace = os.fsync, os.replace

    def fsync(descriptor):
        done.append(("flush", os.path.relpath(os.readlink(f"/proc/self/fd/{descriptor}"), tmp_path)))
        real_fsync(descriptor)

    def replace(old, new):
        done.append(("rename", os.path.relpath(new, tmp_path)))
        real_replace(old, new)

    if not os.path.exists("/proc/self/fd"):
        pytest.skip("no /proc")
    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "replace", replace)
    files.new_folder(tmp_path / "a" / "b")
    assert done == [("flush", "a"), ("flush", ".")]
    files.new_folder(tmp_path / "a" / "b")
    assert len(done) == 2
    done.clear()
    files.write_whole(tmp_path / "a" / "b" / "c.bin", [b"one"])
    (first, aside), *rest = done
    assert first == "flush" and aside.startswith("a/b/.c.bin.") and aside.endswith(".part")
    assert rest == [("rename", "a/b/c.bin"), ("flush", "a/b")]


def test_parts_left_over_are_removed_and_nothing_else(tmp_path):
    for name in (".a.bin.0123456789ab.part", "a.bin", "other.part"):
        (tmp_path / name).touch()
    files.remove_parts(tmp_path)
    assert sorted(os.listdir(tmp_path)) == ["a.bin", "other.part"]

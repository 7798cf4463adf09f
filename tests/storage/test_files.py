from __future__ import annotations

import errno
import os
import zlib

import pytest

from invsamp.storage import files


def test_a_file_appears_whole_with_its_checksum(tmp_path):
    path = tmp_path / "a.bin"
    crc = files.write_whole(path, [b"one ", memoryview(b"two")])
    assert path.read_bytes() == b"one two"
    assert crc == zlib.crc32(b"one two") == files.checksum(path)
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
    with pytest.raises(FileNotFoundError, match="the folder is gone"):
        files.write_whole(tmp_path / "no" / "a.bin", [b""])


def test_parts_left_over_are_removed_and_nothing_else(tmp_path):
    for name in (".a.bin.0123456789ab.part", "a.bin", "other.part"):
        (tmp_path / name).touch()
    files.remove_parts(tmp_path)
    assert sorted(os.listdir(tmp_path)) == ["a.bin", "other.part"]

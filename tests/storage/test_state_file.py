from __future__ import annotations

import os

import pytest

from invsamp.storage.state import NAME, Entry, Header, read_state, write_state

HEADER = Header(
    step=7,
    segments=(Entry("segment-000000.nc", 0, 3, 100, 12345), Entry("segment-000001.nc", 3, 2, 80, 2**32 - 1)),
    report={"draws": 5, "rate": 0.1, "bad": float("nan"), "text": "µ"},
    fingerprint={"position": [0.1, 1 / 3], "energies": {"fine": 1e300, "coarse": float("inf")}},
    written=2,
)


def test_what_is_written_is_read(tmp_path):
    write_state(tmp_path, HEADER, b"payload\x00")
    header, payload = read_state(tmp_path)
    assert repr(header) == repr(HEADER)  # NaN is not equal to itself
    assert payload == b"payload\x00"
    assert header.draws == 5
    assert os.listdir(tmp_path) == [NAME]


def test_a_missing_file_is_told_apart(tmp_path):
    with pytest.raises(ValueError, match=r"state\.bin is missing"):
        read_state(tmp_path)


def test_every_truncation_and_every_flipped_byte_is_found(tmp_path):
    write_state(tmp_path, HEADER, b"payload" * 10)
    path = tmp_path / NAME
    content = path.read_bytes()
    for length in range(len(content)):
        path.write_bytes(content[:length])
        with pytest.raises(ValueError, match=r"state\.bin is truncated"):
            read_state(tmp_path)
    for place in range(len(content)):
        broken = bytearray(content)
        broken[place] ^= 0x20
        path.write_bytes(broken)
        with pytest.raises(ValueError, match=r"state\.bin (is damaged|is truncated|was written by a newer)"):
            read_state(tmp_path)
    path.write_bytes(content + b"more")
    with pytest.raises(ValueError, match="is damaged"):
        read_state(tmp_path)

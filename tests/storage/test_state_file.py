from __future__ import annotations

import os
from dataclasses import replace

import pytest

from invsamp.storage.state import MAGIC, NAME, Entry, File, Header, OtherFormatError, read_state, write_state

HEADER = Header(
    about={"plan": {"seed": 2**127}},
    files=(File("problem.nc", 70, 1),),
    step=7,
    segments=(Entry("segment-000000.nc", 100, 12345, 0, 3), Entry("segment-000001.nc", 80, 2**32 - 1, 3, 2)),
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


def test_a_missing_file_is_distinguished(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no run at .*: the folder does not exist"):
        read_state(tmp_path / "no")
    (tmp_path / "file").touch()
    with pytest.raises(FileNotFoundError, match="it is no folder"):
        read_state(tmp_path / "file")
    with pytest.raises(FileNotFoundError, match=r"no run at .*: it has no state\.bin"):
        read_state(tmp_path)
    (tmp_path / "segment-000000.nc").touch()
    with pytest.raises(ValueError, match=r"state\.bin is missing"):
        read_state(tmp_path)


@pytest.mark.parametrize("version", [1, 3, 12])
def test_another_format_is_refused_in_words(tmp_path, version):
    """Format 1 kept the plan in the manifest, without a checksum."""
    write_state(tmp_path, HEADER, b"payload")
    content = (tmp_path / NAME).read_bytes()
    (tmp_path / NAME).write_bytes(content.replace(MAGIC, MAGIC.replace(b"2", b"%d" % version)))
    with pytest.raises(OtherFormatError, match=f"another version of invsamp, in format {version}; this one .* 2"):
        read_state(tmp_path)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        *[({"name": name}, "it calls a segment") for name in ("../x.nc", "/etc/x.nc", "segment-0/../x.nc", "x.nc", 3)],
        ({"name": "segment-000000.nc\n"}, "it calls a segment"),
        ({"name": f"segment-{chr(0x660) * 6}.nc"}, "it calls a segment"),  # digits, in Arabic
        ({"count": 10**15}, "it claims 1000000000000000 draws in the 100 bytes"),
        ({"count": 0}, "it claims 0 draws"),
        ({"count": True}, "it claims True draws"),
        ({"count": -3}, "it claims -3 draws"),
        ({"size": "many"}, "it claims 3 draws in the 'many' bytes"),
        ({"first": 10**30}, ".*not from 0 on"),
    ],
)
def test_what_a_state_says_of_segments_is_checked(tmp_path, changed, words):
    """Its checksum is valid: it was written like this."""
    write_state(tmp_path, replace(HEADER, segments=(replace(HEADER.segments[0], **changed),)), b"payload")
    with pytest.raises(ValueError, match=rf"state\.bin is damaged: {words}"):
        read_state(tmp_path)


@pytest.mark.parametrize("text", ["[]", "{}", "[" * 100_000, '{"about": 3}', "3" * 5000, "nonsense"])
def test_a_header_that_is_none_is_named(tmp_path, text):
    class Raw:
        def encode(self):
            return text.encode()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("invsamp.storage.layout.to_json", lambda value: Raw())
        write_state(tmp_path, HEADER, b"payload")
    with pytest.raises(ValueError, match=r"state\.bin is damaged"):
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
        with pytest.raises(ValueError, match=r"state\.bin is (damaged|truncated)|in format \d; this one"):
            read_state(tmp_path)
    path.write_bytes(content + b"more")
    with pytest.raises(ValueError, match="is damaged"):
        read_state(tmp_path)

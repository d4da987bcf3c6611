"""What is made to harm ends as unknown or incomplete, quickly, and nothing in it runs."""

import contextlib
import io
import os
import pickle
import resource
import struct
import time
import zipfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.pod.checkpoints import dcp, deep, inert
from tasks.pod.checkpoints.faults import TornError, UnclearError
from tasks.pod.checkpoints.find import find
from tasks.pod.checkpoints.judge import judge
from tasks.pod.checkpoints.verdict import Verdict
from tests.tasks.pod.checkpoints.synthetic import dcp_files, hf_single
from tests.tasks.pod.checkpoints.writers import write_tiny


class Runs:
    def __init__(self, command: str) -> None:
        self.command = command

    def __reduce__(self) -> object:
        return os.system, (self.command,)


def write(step: Path, files: list[tuple[str, bytes]]) -> Path:
    for name, content in files:
        (step / name).parent.mkdir(parents=True, exist_ok=True)
        (step / name).write_bytes(content)
    return step


BOMBS = {
    "huge memo index": b"\x80\x04N" + b"r" + struct.pack("<I", 2**32 - 1) + b".",
    "huge byte array": b"\x80\x05\x96" + struct.pack("<Q", 2**60) + b".",
    "huge text": b"\x80\x04\x8d" + struct.pack("<Q", 2**60) + b".",
    "many dicts": b"\x80\x04" + b"}" * 9_000_000 + b".",
    "many dicts in the memo": b"\x80\x04" + b"}\x940" * 3_200_000 + b"N.",
    "many marks": b"\x80\x04" + b"(" * 9_000_000 + b".",
    "deep nesting": b"\x80\x04" + b"]" * 2_000_000 + b"a" * 1_999_999 + b".",
    "a key whose hash takes for ever": b"\x80\x04}(N"
    + b"".join(b"\x94h" + bytes([n]) + b"\x86" for n in range(200))
    + b"K\x01u.",
    "unknown opcode": b"\x80\x04\xff.",
    "nothing": b"",
    "only a stop": b".",
}


@pytest.mark.parametrize("bomb", BOMBS.values(), ids=BOMBS.keys())
def test_a_pickle_bomb_is_not_complete_and_costs_little(bomb: bytes, tmp_path: Path) -> None:
    step = write(tmp_path / "step_7", dcp_files(1))
    (step / ".metadata").write_bytes(bomb)
    start = time.process_time()
    found = judge(step)
    assert not found.complete
    assert time.process_time() - start < 60  # of a CPU: a bomb would take all there is
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < 2 << 20  # KiB


@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4, 5])
def test_no_command_in_a_pickle_runs(protocol: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    hostile = pickle.dumps(Runs("echo x > PWNED"), protocol)
    step = write(tmp_path / "step_7", dcp_files(1))
    (step / ".metadata").write_bytes(hostile)
    trainer = write(tmp_path / "checkpoint-7", hf_single(1))
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as out:
        out.writestr("a/data.pkl", hostile)
    (trainer / "training_args.bin").write_bytes(archive.getvalue())
    for depth in (False, True):
        assert not judge(step, deep=depth).complete
        judge(trainer, deep=depth)
    assert not list(tmp_path.rglob("PWNED"))


def test_a_name_outside_the_known_set_is_unknown(tmp_path: Path) -> None:
    found = judge(write(tmp_path / "step_7", dcp_files(1, mystery=True)))
    assert (found.verdict, "trainer_ext.Mystery" in found.why) == (Verdict.UNKNOWN, True)


def test_the_known_set_has_pairs_and_no_prefixes() -> None:
    for module, name in (
        ("torch", "load"),
        ("torch.serialization", "load"),
        ("collections", "namedtuple"),
        ("os", "system"),
    ):
        assert (module, name) not in dcp.ALLOWED


def test_a_metadata_that_names_files_elsewhere_reads_none(tmp_path: Path) -> None:
    files = dict(dcp_files(1))
    (tmp_path / "__0_0.distcp").write_bytes(files["__0_0.distcp"])
    step = write(tmp_path / "step_7", list(files.items()))
    (step / ".metadata").write_bytes(files[".metadata"].replace(b"__0_0.distcp", b"../_0.distcp"))
    assert judge(step).verdict is Verdict.INCOMPLETE


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_no_damage_makes_the_reader_fail_otherwise(data: st.DataObject) -> None:
    whole = bytearray(dict(dcp_files(1))[".metadata"])
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(TornError, UnclearError):
        inert.read(bytes(whole), ".metadata", dcp.ALLOWED)


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=400))
def test_no_bytes_make_the_reader_fail_otherwise(raw: bytes) -> None:
    with contextlib.suppress(TornError, UnclearError):
        inert.read(raw, "x")


def test_every_cut_of_a_pickle_is_found() -> None:
    whole = dict(dcp_files(1, ranks=3))[".metadata"]
    for length in range(len(whole)):
        with pytest.raises((TornError, UnclearError)):
            inert.read(whole[:length], ".metadata", dcp.ALLOWED)


HEADERS = {
    "endless": struct.pack("<Q", 2**63) + b"{}",
    "nested": struct.pack("<Q", 200_000) + b"[" * 200_000,
    "no object": struct.pack("<Q", 2) + b"[]",
    "huge number": struct.pack("<Q", 100_000) + b'{"a":' + b"9" * 99_994 + b"}",
    "odd shapes": struct.pack("<Q", 66)
    + b'{"a":{"dtype":"F32","shape":[-1,-4],"data_offsets":[0,16]}}'.ljust(66)
    + bytes(16),
    "shape of text": struct.pack("<Q", 66)
    + b'{"a":{"dtype":"F32","shape":"4","data_offsets":[0,16]}}'.ljust(66)
    + bytes(16),
    "overlap": struct.pack("<Q", 130)
    + (
        b'{"a":{"dtype":"U8","shape":[8],"data_offsets":[0,8]},"b":{"dtype":"U8","shape":[8],"data_offsets":[0,8]}}'
    ).ljust(130)
    + bytes(8),
    "hole": struct.pack("<Q", 66) + b'{"a":{"dtype":"U8","shape":[8],"data_offsets":[8,16]}}'.ljust(66) + bytes(16),
}


@pytest.mark.parametrize("content", HEADERS.values(), ids=HEADERS.keys())
def test_a_hostile_safetensors_header_is_not_complete(content: bytes, tmp_path: Path) -> None:
    step = write(tmp_path / "checkpoint-7", hf_single(1))
    (step / "model.safetensors").write_bytes(content)
    os.utime(step / "model.safetensors", ns=(1, 1))
    assert not judge(step).complete


def test_compressed_records_are_not_unpacked(tmp_path: Path) -> None:
    step = write(tmp_path / "checkpoint-7", hf_single(1))
    with zipfile.ZipFile(step / "optimizer.pt", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("optimizer/data.pkl", bytes(50 << 20))
    os.utime(step / "optimizer.pt", ns=(1, 1))
    assert judge(step).verdict is Verdict.UNKNOWN


def test_json_that_is_nested_or_huge_is_not_complete(tmp_path: Path) -> None:
    step = write(tmp_path / "checkpoint-7", hf_single(1))
    for content in (
        b"[" * 1_000_000,
        b'{"a":' * 100_000,
        b'{"global_step": ' + b"9" * 100_000 + b"}",
        b"\xff\xfe",
        b"null",
    ):
        (step / "trainer_state.json").write_bytes(content)
        assert not judge(step).complete


def test_a_pipe_in_a_step_does_not_block(tmp_path: Path) -> None:
    step = write(tmp_path / "checkpoint-7", hf_single(1))
    (step / "optimizer.pt").unlink()
    os.mkfifo(step / "optimizer.pt")
    assert judge(step).verdict is Verdict.UNKNOWN
    assert len(find(tmp_path).checkpoints) == 1


def test_a_loop_of_links_does_not_hang(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "again").symlink_to(tmp_path)
    (tmp_path / "step_7").symlink_to("step_7")
    assert find(tmp_path).checkpoints == ()


def test_a_deep_look_imports_nothing_from_where_it_is_called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    step = write_tiny(tmp_path / "step_7", 7)
    for place in (tmp_path, step):
        for name in ("json.py", "hashlib.py", "tasks.py"):
            (place / name).write_text("open('PWNED', 'w')")
        monkeypatch.chdir(place)
        assert judge(step, deep=True).complete
    assert not list(tmp_path.rglob("PWNED"))


def test_a_deep_look_that_takes_too_long_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    step = write_tiny(tmp_path / "step_7", 7)
    monkeypatch.setattr(deep, "LEAST_SECONDS", 0.01)
    found = judge(step, deep=True)
    assert found.verdict is Verdict.UNKNOWN
    assert found.why.startswith(deep.LIMITED)


def test_a_deep_look_that_takes_too_much_memory_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    step = write_tiny(tmp_path / "step_7", 7)
    monkeypatch.setenv("SLIPWAY_DEEP_MEMORY", str(1 << 20))
    found = judge(step, deep=True)
    assert found.verdict is Verdict.UNKNOWN
    assert found.why.startswith(deep.LIMITED)


def test_lost_blocks_of_weights_are_found_by_a_deep_look(tmp_path: Path) -> None:
    step = write(tmp_path / "checkpoint-7", hf_single(1))
    raw = bytes(i % 250 + 1 for i in range(40_000))
    header = b'{"w":{"dtype":"U8","shape":[40000],"data_offsets":[0,40000]}}'
    content = struct.pack("<Q", len(header)) + header + raw
    for start, end, whole in ((8192, 16384, False), (36864, len(content), False), (8200, 16000, True), (0, 0, True)):
        (step / "model.safetensors").write_bytes(content[:start] + bytes(end - start) + content[end:])
        os.utime(step / "model.safetensors", ns=(1, 1))
        assert judge(step).complete
        assert judge(step, deep=True).complete is whole

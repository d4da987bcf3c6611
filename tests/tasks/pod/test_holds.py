"""A hold keeps a fork's source alive, costs no bytes, and says when the bytes under it changed."""

import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tasks.pod import holds
from tasks.pod.checkpoints.fingerprint import fingerprint
from tasks.pod.checkpoints.judge import judge
from tasks.pod.errors import BadInputError, ChangedError, NotThereError
from tasks.pod.layout import Layout
from tests.tasks.pod.checkpoints.writers import tiny_files, write_tiny

SOURCE = "runs/p/checkpoints/step_40"


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    write_tiny(tmp_path / SOURCE, 40)
    return Layout(tmp_path)


def asked(layout: Layout, mode: str = "link", fork: str = "f") -> dict[str, Any]:
    return {"fork": fork, "source": SOURCE, "fingerprint": fingerprint(layout.root / SOURCE), "mode": mode}


@pytest.mark.parametrize("mode", ["link", "copy"])
def test_a_hold_is_the_same_checkpoint_and_survives_the_parents_retention(layout: Layout, mode: str) -> None:
    request = asked(layout, mode)
    made = holds.make(layout, request)
    assert made["path"] == "holds/f/step_40"
    assert (made["fingerprint"], made["files"], made["mode"]) == (request["fingerprint"], 4, mode)
    shutil.rmtree(layout.root / SOURCE)
    assert judge(layout.root / made["path"]).complete
    holds.verify(layout, "f", request["fingerprint"])
    assert holds.make(layout, request) == made


def test_links_cost_no_bytes_and_directories_are_read_only(layout: Layout) -> None:
    holds.make(layout, asked(layout))
    held = layout.hold("f") / "step_40"
    assert (held / "model.safetensors").samefile(layout.root / SOURCE / "model.safetensors")
    assert [oct(path.stat().st_mode)[-3:] for path in (held, held.parent)] == ["555", "555"]
    assert not list(layout.holds.glob(".*"))


def test_a_second_save_through_the_link_is_noticed(layout: Layout) -> None:
    request = asked(layout)
    holds.make(layout, request)
    with (layout.root / SOURCE / "model.safetensors").open("r+b") as file:
        file.write(tiny_files(41)["model.safetensors"])
    for check in (lambda: holds.verify(layout, "f", request["fingerprint"]), lambda: holds.make(layout, request)):
        with pytest.raises(ChangedError, match="no longer the checkpoint that was chosen"):
            check()


def test_a_copy_does_not_see_a_second_save(layout: Layout) -> None:
    request = asked(layout, "copy")
    holds.make(layout, request)
    with (layout.root / SOURCE / "model.safetensors").open("r+b") as file:
        file.write(tiny_files(41)["model.safetensors"])
    holds.verify(layout, "f", request["fingerprint"])


def test_a_source_that_changed_since_it_was_chosen_is_refused_and_leaves_nothing(layout: Layout) -> None:
    request = asked(layout)
    os.utime(layout.root / SOURCE / "state.json", ns=(5, 5))
    with pytest.raises(ChangedError):
        holds.make(layout, request)
    assert not layout.hold("f").exists()
    assert holds.holders(layout) == {}


@pytest.mark.parametrize("mode", ["link", "copy"])
def test_a_source_that_changes_while_it_is_held_leaves_nothing(
    layout: Layout, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = asked(layout, mode)
    build = holds._build

    def build_beside_a_writer(*args: Any, **how: Any) -> None:
        build(*args, **how)
        write_tiny(layout.root / SOURCE, 40)

    monkeypatch.setattr(holds, "_build", build_beside_a_writer)
    with pytest.raises(ChangedError):
        holds.make(layout, request)
    assert not layout.hold("f").exists()
    assert not list(layout.holds.iterdir())
    assert holds.holders(layout) == {}


def test_a_fork_holds_one_source_only(layout: Layout) -> None:
    holds.make(layout, asked(layout))
    write_tiny(layout.root / "runs/p/checkpoints/step_50", 50)
    other = {
        "source": "runs/p/checkpoints/step_50",
        "fingerprint": fingerprint(layout.root / "runs/p/checkpoints/step_50"),
    }
    with pytest.raises(ChangedError, match="release its hold"):
        holds.make(layout, {**asked(layout), **other})


def test_many_calls_at_once_make_one_hold(layout: Layout) -> None:
    requests = [asked(layout), asked(layout, "copy")] * 8
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda request: holds.make(layout, request), requests))
    assert {m["path"] for m in made} == {"holds/f/step_40"}
    assert [path.name for path in layout.holds.iterdir()] == ["f"]
    assert [path.name for path in layout.hold("f").iterdir()] == ["step_40"]
    holds.verify(layout, "f", requests[0]["fingerprint"])


def test_two_sources_at_once_end_as_one_hold(layout: Layout) -> None:
    other = "runs/p/checkpoints/step_50"
    write_tiny(layout.root / other, 50)
    second = {**asked(layout), "source": other, "fingerprint": fingerprint(layout.root / other)}

    def attempt(request: dict[str, Any]) -> str:
        try:
            return str(holds.make(layout, request)["path"])
        except ChangedError:
            return "refused"

    with ThreadPoolExecutor(8) as pool:
        ends = list(pool.map(attempt, [asked(layout), second] * 8))
    held = [path.name for path in layout.hold("f").iterdir()]
    assert len(held) == 1
    assert set(ends) == {f"holds/f/{held[0]}", "refused"}


def test_where_links_are_impossible_it_is_copied(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_links(*_: Any, **__: Any) -> None:
        raise OSError(18, "cross-device")

    monkeypatch.setattr(os, "link", no_links)
    with pytest.raises(OSError, match="cross-device"):
        holds.make(layout, asked(layout))  # the record itself needs a link
    monkeypatch.undo()
    real = os.link

    def none_for_files(source: Any, *args: Any, **how: Any) -> None:
        if "checkpoints" in str(source):
            raise OSError(18, "cross-device")
        real(source, *args, **how)

    monkeypatch.setattr(os, "link", none_for_files)
    assert holds.make(layout, asked(layout))["mode"] == "copy"


def test_release_lets_go_and_is_fine_twice(layout: Layout) -> None:
    request = asked(layout)
    holds.make(layout, request)
    assert holds.holders(layout) == {SOURCE: ["f"]}
    assert holds.release(layout, {"fork": "f"}) == {"released": True}
    assert holds.release(layout, {"fork": "f"}) == {"released": False}
    assert holds.holders(layout) == {}
    assert not list(layout.trash.iterdir())
    assert judge(layout.root / SOURCE).complete
    with pytest.raises(NotThereError):
        holds.verify(layout, "f", request["fingerprint"])
    holds.make(layout, request)


@pytest.mark.parametrize("mode", ["link", "copy"])
def test_a_checkpoint_that_is_one_file_is_held_too(layout: Layout, mode: str) -> None:
    source = layout.root / "runs/p/epoch=0-step=7.ckpt"
    source.write_bytes(b"x" * 100)
    chosen = fingerprint(source)
    made = holds.make(
        layout, {"fork": "f", "source": "runs/p/epoch=0-step=7.ckpt", "fingerprint": chosen, "mode": mode}
    )
    assert (made["path"], made["fingerprint"]) == ("holds/f/epoch=0-step=7.ckpt", chosen)
    holds.verify(layout, "f", chosen)
    assert source.stat().st_mode & 0o200
    assert holds.release(layout, {"fork": "f"})["released"]


def test_links_that_lead_out_are_refused(layout: Layout) -> None:
    (layout.root / SOURCE / "extra").symlink_to("/etc/hostname")
    with pytest.raises(BadInputError, match="leads out of the checkpoint"):
        holds.make(layout, asked(layout))
    assert not layout.hold("f").exists()
    with pytest.raises(BadInputError):
        holds.make(layout, {**asked(layout), "source": "../elsewhere"})


def test_a_missing_source_is_named(layout: Layout) -> None:
    with pytest.raises(NotThereError, match="step_41"):
        holds.make(layout, {**asked(layout), "source": "runs/p/checkpoints/step_41"})

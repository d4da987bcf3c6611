import json
import re
import socket
import time
from pathlib import Path
from typing import Any

import pytest

from tasks.pod.errors import BadInputError, NotThereError, PodError
from tasks.pod.hub import AccessError, UnreachableError
from tasks.pod.layout import Layout
from tasks.pod.resolve import resolve
from tests.deployments.hub.faulty import FaultyHub, Redirect, Says, Status


def ask(layout: Layout, **changed: Any) -> dict[str, Any]:
    return resolve(layout, {"repo_type": "model", "repo": "org/tiny", "revision": "main"} | changed)


def allow(served: Path, **access: Any) -> None:
    served.with_name("tiny.json").write_text(json.dumps(access))


def test_a_branch_becomes_a_commit_with_files_sizes_and_hashes(layout: Layout, hub: FaultyHub, served: Path) -> None:
    answer = ask(layout)

    commit = hub.repositories.commit("models", "org/tiny", "main")
    assert commit and answer["commit"] == commit.sha and answer["revision"] == "main"
    assert {file["path"]: file["size"] for file in answer["files"]} == {
        path.relative_to(served).as_posix(): path.stat().st_size for path in served.rglob("*") if path.is_file()
    }
    assert answer["bytes"] == sum(file["size"] for file in answer["files"])
    hashed = {file["path"]: file["sha256"] is not None for file in answer["files"]}
    assert hashed["model-00001-of-00003.safetensors"] and not hashed["config.json"]
    assert ask(layout, revision=commit.sha)["commit"] == commit.sha
    assert list(layout.root.iterdir()) == []


def test_an_unknown_revision_names_the_branches(layout: Layout, served: Path) -> None:
    (served.parent / "tiny@next").mkdir()
    (served.parent / "tiny@next" / "config.json").write_text("{}")

    with pytest.raises(NotThereError, match="no revision 'mian'") as caught:
        ask(layout, revision="mian")

    assert "main, next" in caught.value.remedy
    assert ask(layout, revision="next")["bytes"] == 2


@pytest.mark.parametrize("token", [None, "hf_wrong"])
def test_a_gated_repository_says_where_to_ask(
    layout: Layout, hub: FaultyHub, served: Path, monkeypatch: pytest.MonkeyPatch, token: str | None
) -> None:
    allow(served, gated=True, tokens=["hf_right"])
    if token:
        monkeypatch.setenv("HF_TOKEN", token)

    with pytest.raises(AccessError, match="gated") as caught:
        ask(layout)

    assert f"{hub.endpoint}/org/tiny" in caught.value.remedy
    assert ("no HF_TOKEN" in caught.value.what) == (token is None)
    assert "hf_wrong" not in str(caught.value)
    monkeypatch.setenv("HF_TOKEN", "hf_right")
    assert ask(layout)["files"]


@pytest.mark.parametrize("token", [None, "hf_wrong"])
def test_a_private_repository_does_not_exist_for_others(
    layout: Layout, hub: FaultyHub, served: Path, monkeypatch: pytest.MonkeyPatch, token: str | None
) -> None:
    allow(served, private=True, tokens=["hf_right"])
    if token:
        monkeypatch.setenv("HF_TOKEN", token)

    with pytest.raises(NotThereError, match="missing"):
        ask(layout)

    assert len(hub.requests) == 1
    monkeypatch.setenv("HF_TOKEN", "hf_right")
    assert ask(layout)["files"]


def test_a_missing_repository_is_not_asked_for_again(layout: Layout, hub: FaultyHub) -> None:
    with pytest.raises(NotThereError, match="'org/tinny' is missing"):
        ask(layout, repo="org/tinny")

    assert len(hub.requests) == 1


@pytest.mark.parametrize(("status", "kind"), [(401, AccessError), (403, AccessError), (404, PodError)])
def test_refusals_are_not_asked_again(layout: Layout, hub: FaultyHub, status: int, kind: type[PodError]) -> None:
    hub.always["/revision/"] = Status(status)

    with pytest.raises(kind):
        ask(layout)

    assert len(hub.requests) == 1


def test_a_rate_limit_is_waited_for_as_long_as_the_hub_says(layout: Layout, hub: FaultyHub) -> None:
    hub.fail("/revision/", Status(429, (("Retry-After", "2"),)))
    started = time.monotonic()

    assert ask(layout)["files"]
    assert time.monotonic() - started >= 2


def test_server_errors_are_asked_again(layout: Layout, hub: FaultyHub) -> None:
    hub.fail("/revision/", Status(500), Status(502))

    assert ask(layout)["files"]


def test_a_hub_that_does_not_answer_is_given_up_soon(
    layout: Layout, hub: FaultyHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{free.getsockname()[1]}")

        with pytest.raises(UnreachableError, match="can not be reached"):
            ask(layout)


@pytest.mark.parametrize(
    "wrong", [{"repo": "../x"}, {"repo": "a b"}, {"repo_type": "space"}, {"revision": "a b"}, {"revision": "a/../b"}]
)
def test_names_that_can_not_be_are_refused_without_asking(
    layout: Layout, hub: FaultyHub, wrong: dict[str, str]
) -> None:
    with pytest.raises(BadInputError):
        ask(layout, **wrong)
    assert not hub.requests


TREE = '[{"type": "file", "path": "a.safetensors", "oid": "x"}]'


@pytest.mark.parametrize("body", ["<html>log in</html>", "[]", "null", "{}", "7", '{"sha": "main"}', '{"sha": 7}'])
def test_what_is_no_hub_is_named(layout: Layout, hub: FaultyHub, body: str) -> None:
    hub.always["/revision/"] = Says(body)
    with pytest.raises(PodError, match=re.escape(hub.endpoint)):
        ask(layout)


@pytest.mark.parametrize("body", ["<html>", "{}", "null", '[{"type": "file"}]', "[7]", TREE])
def test_a_tree_that_is_none_is_refused(layout: Layout, hub: FaultyHub, body: str) -> None:
    hub.always["/tree/"] = Says(body)
    with pytest.raises((UnreachableError, NotThereError)):
        ask(layout)


def test_redirects_in_circles_are_given_up(layout: Layout, hub: FaultyHub) -> None:
    hub.always["/revision/"] = Redirect(hub.endpoint)
    with pytest.raises(PodError):
        ask(layout)


def test_a_rate_limit_that_is_too_long_for_a_plan_is_said(layout: Layout, hub: FaultyHub) -> None:
    hub.always["/revision/"] = Status(429, (("Retry-After", "120"),))
    with pytest.raises(UnreachableError, match="wait 120 s"):
        ask(layout)

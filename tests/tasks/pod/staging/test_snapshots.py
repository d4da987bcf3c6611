import json
import os
import shutil
import ssl
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tasks.pod import snapshots, staging
from tasks.pod.errors import BadInputError, ChangedError, NotThereError
from tasks.pod.hub import AccessError, UnreachableError
from tasks.pod.layout import Layout
from tests.deployments.hub.faulty import Cut, FaultyHub, Redirect, Status, WrongBytes
from tests.tasks.pod.staging.conftest import Programs, write_model

Pinned = Callable[..., dict[str, Any]]
SHARD = "model-00002-of-00003.safetensors"


def offline(cache: Path, code: str) -> str:
    env = os.environ | {"HF_HUB_OFFLINE": "1", "HF_HUB_CACHE": str(cache)}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def hf(cache: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [Path(sys.executable).with_name("hf"), "cache", *arguments],
        env=os.environ | {"HF_HUB_CACHE": str(cache)},
        capture_output=True,
        text=True,
    )


def files_below(root: Path) -> dict[str, bytes]:
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_a_staged_snapshot_is_the_repository_in_real_read_only_files(
    layout: Layout, hub: FaultyHub, served: Path, pinned: Pinned
) -> None:
    answer = snapshots.stage(layout, pinned())

    path = layout.root / answer["path"]
    assert answer["staged"]
    assert files_below(path) == files_below(served)
    assert not any(entry.is_symlink() for entry in layout.hub.rglob("*"))
    assert {entry.stat().st_mode & 0o777 for entry in path.rglob("*") if entry.is_file()} == {0o444}
    assert {entry.stat().st_mode & 0o777 for entry in [path, *path.rglob("*")] if entry.is_dir()} == {0o555}
    assert answer["bytes"] == sum(len(content) for content in files_below(served).values())


@pytest.mark.parametrize("by", ["branch", "commit"])
def test_huggingface_hub_reads_it_offline(layout: Layout, pinned: Pinned, by: str) -> None:
    asked = pinned()
    answer = snapshots.stage(layout, asked)
    revision = "main" if by == "branch" else asked["commit"]
    code = f"import huggingface_hub as h; print(h.snapshot_download('org/tiny', revision={revision!r}))"

    assert offline(layout.hub, code) == str(layout.root / answer["path"])


def test_huggingface_hub_reads_a_copy_made_by_cp(layout: Layout, pinned: Pinned, tmp_path: Path) -> None:
    snapshots.stage(layout, pinned())
    subprocess.run(["cp", "-r", layout.hub, tmp_path / "copy"], check=True)
    code = "import huggingface_hub as h; print(h.snapshot_download('org/tiny'))"

    assert offline(tmp_path / "copy", code).startswith(str(tmp_path / "copy"))


def test_hf_cache_verify_accepts_it_and_prune_leaves_it_alone(layout: Layout, hub: FaultyHub, pinned: Pinned) -> None:
    asked = pinned(revision=None)
    path = layout.root / snapshots.stage(layout, asked)["path"]

    strict = ("--fail-on-missing-files", "--fail-on-extra-files")
    verified = hf(layout.hub, "verify", "org/tiny", "--revision", asked["commit"], *strict)
    pruned = hf(layout.hub, "prune", "--yes")

    assert verified.returncode == 0, verified.stdout + verified.stderr
    assert pruned.returncode == 0 and (path / SHARD).is_file()


def test_a_branch_that_moved_on_keeps_the_older_snapshot_from_prune(
    layout: Layout, served: Path, pinned: Pinned
) -> None:
    older = layout.root / snapshots.stage(layout, pinned())["path"]
    (served / "README.md").write_text("# newer\n")
    newer = layout.root / snapshots.stage(layout, pinned())["path"]

    assert hf(layout.hub, "prune", "--yes").returncode == 0
    assert older != newer and older.is_dir() and newer.is_dir()
    refs = {entry["commit"]: entry["refs"] for entry in snapshots.list_staged(layout, {})["snapshots"]}
    assert refs == {older.name: [], newer.name: ["main"]}


def test_staging_what_is_staged_asks_the_hub_nothing(layout: Layout, hub: FaultyHub, pinned: Pinned) -> None:
    snapshots.stage(layout, pinned())
    before = len(hub.requests)

    assert snapshots.stage(layout, pinned())["fetched_bytes"] == 0
    assert len(hub.requests) == before


def test_a_second_revision_costs_only_what_changed(
    layout: Layout, hub: FaultyHub, served: Path, pinned: Pinned
) -> None:
    first = layout.root / snapshots.stage(layout, pinned())["path"]
    write_model(served.parent / "other", seed=9)
    shutil.copy(served.parent / "other" / SHARD, served / SHARD)
    hub.served.clear()

    answer = snapshots.stage(layout, pinned())

    size = (served / SHARD).stat().st_size
    assert answer["fetched_bytes"] == size == sum(hub.served.values())
    second = layout.root / answer["path"]
    assert files_below(second) == files_below(served)
    other = "model-00001-of-00003.safetensors"
    assert (first / other).stat().st_ino == (second / other).stat().st_ino


def test_a_damaged_file_is_not_shared(layout: Layout, served: Path, pinned: Pinned) -> None:
    first = layout.root / snapshots.stage(layout, pinned())["path"]
    shard = first / SHARD
    shard.chmod(0o644)
    shard.write_bytes(bytes(shard.stat().st_size))
    (served / "README.md").write_text("# newer\n")

    second = layout.root / snapshots.stage(layout, pinned())["path"]

    assert files_below(second) == files_below(served)


def test_wrong_bytes_are_fetched_again_once(layout: Layout, hub: FaultyHub, served: Path, pinned: Pinned) -> None:
    hub.fail(SHARD, WrongBytes())

    path = layout.root / snapshots.stage(layout, pinned())["path"]

    assert files_below(path) == files_below(served)
    assert hub.bytes_of(SHARD) == 2 * (served / SHARD).stat().st_size


@pytest.mark.parametrize("name", [SHARD, "config.json"])
def test_wrong_bytes_twice_are_an_error_and_nothing_is_published(
    layout: Layout, hub: FaultyHub, pinned: Pinned, name: str
) -> None:
    hub.fail(name, WrongBytes(), WrongBytes())

    with pytest.raises(ChangedError, match=name):
        snapshots.stage(layout, pinned())

    assert not snapshots.state(layout, pinned())["staged"]
    assert not list(layout.root.glob("hub/*/snapshots/*"))


def test_cut_connections_are_continued_by_range(layout: Layout, hub: FaultyHub, served: Path, pinned: Pinned) -> None:
    hub.fail(SHARD, Cut(150_000), Cut(100_000))

    path = layout.root / snapshots.stage(layout, pinned())["path"]

    assert files_below(path) == files_below(served)
    assert hub.bytes_of(SHARD) == (served / SHARD).stat().st_size
    assert [asked for asked, _ in hub.gets(SHARD)] == [None, "bytes=150000-", "bytes=250000-"]


def test_server_errors_are_tried_again(layout: Layout, hub: FaultyHub, pinned: Pinned) -> None:
    hub.fail(SHARD, Status(503))

    assert snapshots.stage(layout, pinned())["staged"]


def test_a_rate_limit_is_waited_for(layout: Layout, hub: FaultyHub, pinned: Pinned) -> None:
    asked = pinned() | {"files": []}
    from tasks.pod.resolve import resolve

    asked["files"] = resolve(layout, asked)["files"]
    hub.fail(f"resolve/{asked['commit']}/{SHARD}", Status(429, (("Retry-After", "1"),)))
    started = time.monotonic()

    assert snapshots.stage(layout, asked)["staged"]
    assert time.monotonic() - started >= 1
    assert len(hub.gets(SHARD)) == 2


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_refusal_is_not_tried_again(layout: Layout, hub: FaultyHub, pinned: Pinned, status: int) -> None:
    asked = pinned()
    hub.always[f"resolve/{asked['commit']}/config.json"] = Status(status)

    with pytest.raises((AccessError, NotThereError, UnreachableError, Exception)) as caught:
        snapshots.stage(layout, asked)

    assert type(caught.value).__name__ in ("AccessError", "NotThereError", "PodError")
    assert len(hub.gets("config.json")) == 1


def test_a_redirect_elsewhere_gets_no_token(
    layout: Layout, hub: FaultyHub, served: Path, pinned: Pinned, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    storage = hub.endpoint.replace("127.0.0.1", "localhost")
    hub.fail(SHARD, Redirect(storage))

    snapshots.stage(layout, pinned())

    assert [token for _, token in hub.gets(SHARD)] == ["Bearer hf_secret", None]


def test_a_redirect_on_the_hub_keeps_the_token(
    layout: Layout, hub: FaultyHub, pinned: Pinned, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    hub.fail(SHARD, Redirect(""))

    snapshots.stage(layout, pinned())

    assert [token for _, token in hub.gets(SHARD)] == ["Bearer hf_secret"] * 2


def test_the_same_bytes_under_two_names_are_fetched_once(
    layout: Layout, hub: FaultyHub, served: Path, pinned: Pinned
) -> None:
    shutil.copy(served / SHARD, served / "copy.safetensors")

    path = layout.root / snapshots.stage(layout, pinned())["path"]

    assert files_below(path) == files_below(served)
    size = (served / SHARD).stat().st_size
    assert hub.bytes_of(SHARD) + hub.bytes_of("copy.safetensors") == size


def test_a_snapshot_whose_files_were_removed_is_staged_again(layout: Layout, served: Path, pinned: Pinned) -> None:
    path = layout.root / snapshots.stage(layout, pinned())["path"]
    path.chmod(0o755)
    (path / SHARD).unlink()

    answer = snapshots.stage(layout, pinned())

    assert answer["fetched_bytes"] == (served / SHARD).stat().st_size
    assert files_below(path) == files_below(served)


def test_a_dataset_repository_is_staged_like_a_model(layout: Layout, hub: FaultyHub) -> None:
    folder = hub.repositories.root / "datasets" / "org" / "letters"
    folder.mkdir(parents=True)
    (folder / "train.jsonl").write_text('{"text": "a"}\n')
    commit = hub.repositories.commit("datasets", "org/letters", "main")
    assert commit

    answer = snapshots.stage(
        layout, {"repo_type": "dataset", "repo": "org/letters", "commit": commit.sha, "revision": "main"}
    )

    code = "import huggingface_hub as h; print(h.snapshot_download('org/letters', repo_type='dataset'))"
    assert offline(layout.hub, code) == str(layout.root / answer["path"])


@pytest.mark.parametrize(
    "wrong",
    [{"commit": "main"}, {"commit": "../x"}, {"repo": "../../etc"}, {"repo": "a/b/c"}, {"repo_type": "space"},
     {"revision": "../../x"}],
)  # fmt: skip
def test_names_that_lead_elsewhere_are_refused(layout: Layout, pinned: Pinned, wrong: dict[str, str]) -> None:
    with pytest.raises(BadInputError):
        snapshots.stage(layout, pinned() | wrong)


def test_progress_is_there_while_it_runs_and_says_published_after(
    programs: Programs, hub: FaultyHub, layout: Layout, pinned: Pinned
) -> None:
    asked = pinned()
    name = staging.snapshot_identity("model", "org/tiny", asked["commit"])
    assert staging.progress(layout, {"identities": [name]}) == {name: {"state": "none"}}
    hub.rate = 250_000
    job = programs.start("snapshots.stage", asked)
    seen: list[dict[str, Any]] = []
    while job.poll() is None:
        seen.append(staging.progress(layout, {"identities": [name]})[name])
        time.sleep(0.05)
    programs.answer(job)

    running = [note["bytes_done"] for note in seen if note["state"] == "running"]
    assert running == sorted(running) and len(set(running)) > 2
    last = staging.progress(layout, {"identities": [name]})[name]
    assert last["state"] == "published" and last["bytes_done"] == last["bytes_total"]
    assert last["files_done"] == last["files_total"]
    assert staging.progress(layout, {}) == {}


def test_the_manifest_lists_every_file_with_size_and_hash(layout: Layout, served: Path, pinned: Pinned) -> None:
    import hashlib

    asked = pinned()
    snapshots.stage(layout, asked)

    record = json.loads(layout.snapshot_manifest("model", "org/tiny", asked["commit"]).read_text())
    listed = {file["path"]: (file["size"], file["sha256"]) for file in record["files"]}
    assert listed == {
        path: (len(content), hashlib.sha256(content).hexdigest()) for path, content in files_below(served).items()
    }


@pytest.mark.parametrize("path", ["../../evil", "/evil", "a/../../evil", "a\nb", "."])
def test_files_given_with_names_that_lead_outside_are_refused(layout: Layout, pinned: Pinned, path: str) -> None:
    given = [{"path": path, "size": 1, "sha256": "0" * 64, "git_sha1": "0" * 40}]

    with pytest.raises(BadInputError):
        snapshots.stage(layout, pinned() | {"files": given})


def test_a_proxy_is_used(programs: Programs, layout: Layout, hub: FaultyHub, served: Path, pinned: Pinned) -> None:
    programs.env |= {"HF_ENDPOINT": "http://hub.invalid", "http_proxy": hub.endpoint, "no_proxy": "other.invalid"}

    answer = programs.run("snapshots.stage", pinned())

    assert files_below(layout.root / answer["ok"]["path"]) == files_below(served)


def test_https_is_verified_with_the_certificates_in_use(
    programs: Programs, layout: Layout, hub: FaultyHub, served: Path, pinned: Pinned, tmp_path: Path
) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    made += ["-addext", "subjectAltName=DNS:localhost", "-keyout", str(key), "-out", str(certificate)]
    if shutil.which("openssl") is None or subprocess.run(made, capture_output=True).returncode:
        pytest.skip("needs openssl to make a certificate")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    hub.socket = context.wrap_socket(hub.socket, server_side=True)
    programs.env["HF_ENDPOINT"] = hub.endpoint.replace("http://127.0.0.1", "https://localhost")

    unknown = programs.run("snapshots.stage", pinned())
    programs.env["SSL_CERT_FILE"] = str(certificate)
    answer = programs.run("snapshots.stage", pinned())

    assert unknown["error"]["kind"] == "UnreachableError" and "certificate" in unknown["error"]["what"].lower()
    assert files_below(layout.root / answer["ok"]["path"]) == files_below(served)

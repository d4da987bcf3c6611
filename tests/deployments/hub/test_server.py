import os
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from deployments.hub.repositories import Repositories
from deployments.hub.server import HubServer

REPOSITORY = Path(__file__).resolve().parents[3]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "models" / "org" / "tiny"
    (folder / "sub dir").mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    (folder / "sub dir" / "ü.txt").write_text("unicode")
    (folder / "model.safetensors").write_bytes(bytes(range(256)) * 100)
    return tmp_path


@pytest.fixture
def hub(root: Path) -> Iterator[HubServer]:
    with HubServer(root) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        yield server
        server.shutdown()


def client(hub: HubServer, tmp_path: Path, code: str) -> str:
    env = os.environ | {"HF_ENDPOINT": hub.endpoint, "HF_HOME": str(tmp_path / "home"), "HF_HUB_OFFLINE": "0"}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_huggingface_hub_downloads_a_branch_from_it(hub: HubServer, root: Path, tmp_path: Path) -> None:
    code = "import huggingface_hub as h; print(h.snapshot_download('org/tiny'))"

    path = Path(client(hub, tmp_path, code))

    commit = hub.repositories.commit("models", "org/tiny", "main")
    assert commit and path.name == commit.sha
    assert (path / "sub dir" / "ü.txt").read_text() == "unicode"
    assert (path / "model.safetensors").read_bytes() == (root / "models/org/tiny/model.safetensors").read_bytes()


def test_a_commit_follows_from_the_content_alone(root: Path) -> None:
    first = Repositories(root).commit("models", "org/tiny", "main")
    os.utime(root / "models" / "org" / "tiny" / "config.json", (1, 1))
    same = Repositories(root).commit("models", "org/tiny", "main")
    (root / "models" / "org" / "tiny" / "config.json").write_text("[]")
    other = Repositories(root).commit("models", "org/tiny", "main")

    assert first and same and other
    assert first.sha == same.sha != other.sha
    assert len(first.sha) == 40


def test_it_holds_several_branches(hub: HubServer, root: Path) -> None:
    (root / "models" / "org" / "tiny@next").mkdir()
    (root / "models" / "org" / "tiny@next" / "config.json").write_text("[]")
    following = hub.repositories.commit("models", "org/tiny", "next")

    assert following and list(hub.repositories.branches("models", "org/tiny")) == ["main", "next"]
    assert hub.repositories.commit("models", "org/tiny", following.sha) == following
    with urllib.request.urlopen(f"{hub.endpoint}/org/tiny/resolve/next/config.json") as answer:
        assert answer.read() == b"[]" and answer.headers["X-Repo-Commit"] == following.sha


@pytest.mark.parametrize(("asked", "bounds"), [("bytes=100-", (100, 25600)), ("bytes=5-9", (5, 10))])
def test_it_serves_ranges(hub: HubServer, root: Path, asked: str, bounds: tuple[int, int]) -> None:
    request = urllib.request.Request(f"{hub.endpoint}/org/tiny/resolve/main/model.safetensors")
    request.add_header("Range", asked)

    with urllib.request.urlopen(request) as answer:
        assert answer.status == 206
        assert answer.read() == (root / "models/org/tiny/model.safetensors").read_bytes()[slice(*bounds)]


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("/org/none/resolve/main/a", 401, "RepoNotFound"),
        ("/org/tiny/resolve/none/a", 404, "RevisionNotFound"),
        ("/org/tiny/resolve/main/none", 404, "EntryNotFound"),
        ("/api/models/org/tiny/revision/none", 404, "RevisionNotFound"),
        ("/api/datasets/org/tiny", 401, "RepoNotFound"),
        ("/org/../../etc/resolve/main/passwd", 401, "RepoNotFound"),
        ("/org/tiny/resolve/main/../../../secret", 404, "EntryNotFound"),
        ("/nothing", 404, None),
    ],
)
def test_it_says_what_is_wrong_as_the_hub_does(hub: HubServer, path: str, status: int, code: str | None) -> None:
    (hub.repositories.root / "secret").write_text("secret")
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(hub.endpoint + path)

    assert (caught.value.code, caught.value.headers.get("X-Error-Code")) == (status, code)


def test_the_program_writes_its_port_and_limits_its_rate(root: Path, tmp_path: Path) -> None:
    port_file = tmp_path / "port"
    server = subprocess.Popen(
        [sys.executable, "-m", "deployments.hub.server", "--root", root, "--port-file", port_file, "--rate", "20000"],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
    )
    try:
        while not port_file.exists():
            assert server.poll() is None
            time.sleep(0.02)
        started = time.monotonic()
        for _ in range(2):
            with urllib.request.urlopen(
                f"http://127.0.0.1:{port_file.read_text()}/org/tiny/resolve/main/model.safetensors"
            ) as answer:
                answer.read()
        assert time.monotonic() - started > 1
    finally:
        server.terminate()
        server.communicate()

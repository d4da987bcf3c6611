"""How a cluster is reached, without one."""

import json
import pickle
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from blocks.clusters.errors import SlipwayError
from blocks.clusters.kubernetes.api import UnreachableError
from blocks.clusters.kubernetes.cluster import KubernetesCluster
from blocks.clusters.kubernetes.credentials import CredentialsError
from blocks.clusters.kubernetes.plugin import PluginError, run_plugin
from blocks.clusters.kubernetes.settings import KubernetesSettings
from tests.blocks.clusters.bench import PATIENCE_SECONDS


def connected(folder: Path) -> KubernetesCluster:
    """A cluster at a port where nothing listens."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:9"}}],
        "users": [{"name": "u", "user": {"token": "tell-nobody"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "c",
    }
    path = folder / "config"
    path.write_text(json.dumps(config))
    return KubernetesCluster(KubernetesSettings(image="i", kubeconfig=str(path)), name="team", owner="team-a")


def test_a_cluster_can_be_handed_to_a_task_and_hands_on_no_credentials(tmp_path: Path) -> None:
    packed = pickle.dumps(connected(tmp_path))
    assert b"tell-nobody" not in packed
    again = pickle.loads(packed)
    assert (again.name, again.owner, again.api.host) == ("team", "team-a", "http://127.0.0.1:9")
    assert again.api.headers() == {"authorization": "Bearer tell-nobody"}


def test_a_server_that_does_not_answer_is_named_after_some_patience(tmp_path: Path) -> None:
    cluster = connected(tmp_path)
    cluster.api.patience_seconds = 0.5
    with pytest.raises(UnreachableError, match=r"'team' at http://127\.0\.0\.1:9"):
        cluster.volumes.list()


def test_a_kubeconfig_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(SlipwayError, match="nowhere"):
        KubernetesCluster(KubernetesSettings(image="i", kubeconfig=str(tmp_path / "nowhere")), owner="team-a")


def test_a_context_that_is_not_there_is_named(tmp_path: Path) -> None:
    connected(tmp_path)
    settings = KubernetesSettings(image="i", kubeconfig=str(tmp_path / "config"), context="prod")
    with pytest.raises(SlipwayError, match="prod"):
        KubernetesCluster(settings, owner="team-a")


class _CutsOnce(BaseHTTPRequestHandler):
    """Answers lists with nothing in them; of the first of each server's answers only half."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        body = json.dumps({"items": [], "metadata": {}}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body if vars(self.server).get("cut") else body[:10])
        self.close_connection = not vars(self.server).get("cut")
        vars(self.server)["cut"] = True

    def log_message(self, *args: Any) -> None:
        pass


def test_an_answer_that_breaks_off_is_asked_for_again(tmp_path: Path) -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _CutsOnce)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    connected(tmp_path)
    path = tmp_path / "config"
    path.write_text(path.read_text().replace("127.0.0.1:9", f"127.0.0.1:{server.server_port}"))
    api = KubernetesCluster(KubernetesSettings(image="i", kubeconfig=str(path)), owner="team-a").api
    assert (api.items("/api/v1/nodes"), api.requests) == ([], 2)
    server.shutdown()
    server.server_close()


PLUGIN = "client.authentication.k8s.io/v1"


class Guarded(ThreadingHTTPServer):
    """Answers lists with nothing in them, to whoever brings the token."""

    daemon_threads = True
    token = "good"

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Guard)
        self.asked: list[str] = []


class _Guard(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        assert isinstance(self.server, Guarded)
        brought = self.headers.get("authorization", "")
        self.server.asked.append(brought)
        good = brought == f"Bearer {self.server.token}"
        code = (404 if "jobset" in self.path else 200) if good else 401
        body = json.dumps({"items": [], "metadata": {}} if code == 200 else {"kind": "Status", "code": code}).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def guarded() -> Iterator[Guarded]:
    server = Guarded()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def as_user(folder: Path, server: Guarded, user: dict[str, Any], **arguments: Any) -> KubernetesCluster:
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "c",
    }
    (folder / "config").write_text(json.dumps(config))
    settings = KubernetesSettings(image="i", kubeconfig=str(folder / "config"))
    return KubernetesCluster(settings, name="team", owner="team-a", **arguments)


def test_a_token_that_is_wrong_is_refused_at_once_and_says_where_it_is_from(guarded: Guarded, tmp_path: Path) -> None:
    said: list[str] = []
    cluster = as_user(tmp_path, guarded, {"token": "tell-nobody"}, say=said.append)
    with pytest.raises(CredentialsError, match=rf"'team' does not take the credentials.*Log in.*{tmp_path}") as caught:
        cluster.volumes.list()
    assert "tell-nobody" not in str(caught.value)
    assert (len(guarded.asked), said) == (1, [])


@pytest.mark.parametrize("kind", ["token file", "kubeconfig", "plugin"])
def test_a_token_that_has_expired_is_read_again_from_where_it_came(guarded: Guarded, tmp_path: Path, kind: str) -> None:
    (tmp_path / "token").write_text("good")
    answer = {"apiVersion": PLUGIN, "kind": "ExecCredential", "status": {"token": "TOKEN"}}
    script = f"sed s/TOKEN/$(cat {tmp_path}/token)/ <<'E'\n{json.dumps(answer)}\nE"
    users: dict[str, dict[str, Any]] = {
        "token file": {"tokenFile": str(tmp_path / "token")},
        "kubeconfig": {"token": "good"},
        "plugin": {"exec": {"apiVersion": PLUGIN, "command": "sh", "args": ["-c", script]}},
    }
    cluster = as_user(tmp_path, guarded, users[kind])
    assert cluster.volumes.list() == []
    guarded.token = "better"
    (tmp_path / "token").write_text("better")
    if kind == "kubeconfig":
        as_user(tmp_path, guarded, {"token": "better"})
    assert cluster.volumes.list() == []


def test_whoever_follows_waits_for_good_credentials_and_says_so_once(guarded: Guarded, tmp_path: Path) -> None:
    said: list[str] = []
    (tmp_path / "token").write_text("good")
    cluster = as_user(tmp_path, guarded, {"tokenFile": str(tmp_path / "token")}, say=said.append)
    cluster.volumes.list()
    guarded.token = "better"
    found: list[object] = []
    following = threading.Thread(target=lambda: found.append(cluster.volumes.list()))
    following.start()
    refusals = len(guarded.asked) + 2
    while len(guarded.asked) < refusals:
        time.sleep(0.05)
    (tmp_path / "token").write_text("better")
    following.join(PATIENCE_SECONDS)
    assert found == [[]]
    (words,) = said
    assert "have expired. Log in again" in words and "What runs there goes on" in words


def test_whoever_does_not_follow_is_told_when_the_credentials_end(guarded: Guarded, tmp_path: Path) -> None:
    cluster = as_user(tmp_path, guarded, {"token": "good"})
    cluster.volumes.list()
    guarded.token = "better"
    with pytest.raises(CredentialsError, match="have expired"):
        cluster.volumes.list()


UNENDING = {
    "apiVersion": PLUGIN,
    "kind": "ExecCredential",
    "status": {"token": "good", "expirationTimestamp": "tomorrow"},
}


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("echo no such profile >&2; exit 3", "process returned 3. no such profile"),
        ("echo hello", "it answered no JSON, but 'hello'"),
        (r"printf '\377\376'", "it answered no JSON"),
        ("true", "it answered nothing"),
        ("echo null", "no ExecCredential"),
        (f"""echo '{{"apiVersion": "{PLUGIN}", "kind": "ExecCredential", "status": null}}'""", "neither a token"),
        (f"""echo '{{"apiVersion": "{PLUGIN}", "kind": "ExecCredential", "status": {{"token": ""}}}}'""", "neither a"),
        (f"echo '{json.dumps(UNENDING)}'", "end at 'tomorrow'"),
        (f"""echo '{{"apiVersion": "{PLUGIN}", "kind": "ExecCredential", "status": {{}}}}'""", "neither a token"),
        (None, "No such file"),
    ],
)
def test_a_credential_plugin_that_fails_is_named_with_what_it_said(
    guarded: Guarded, tmp_path: Path, script: str | None, why: str
) -> None:
    command = {"command": "sh", "args": ["-c", script]} if script else {"command": "get-my-token"}
    plugin = {"apiVersion": PLUGIN, "installHint": "Ask the platform team\nfor it.", **command}
    with pytest.raises(CredentialsError, match=f"plugin '{command['command']}' failed: .*{why}") as caught:
        as_user(tmp_path, guarded, {"exec": plugin})
    assert "Ask the platform team for it." in caught.value.remedy
    assert guarded.asked == []


@pytest.mark.parametrize("content", ["", "[1]", "{a: [", "\0", "a: b", '{"current-context": "c", "contexts": 1}'])
def test_a_kubeconfig_that_is_none_is_one_sentence(tmp_path: Path, content: str) -> None:
    (tmp_path / "config").write_text(content)
    settings = KubernetesSettings(image="i", kubeconfig=str(tmp_path / "config"))
    with pytest.raises(CredentialsError, match=rf"The kubeconfig {tmp_path}/config can not be used: ") as caught:
        KubernetesCluster(settings, owner="team-a")
    assert "\n" not in str(caught.value)


def test_a_server_whose_certificate_is_not_trusted_is_not_waited_for(tmp_path: Path, guarded: Guarded) -> None:
    user = {"client-certificate-data": "eA==", "client-key-data": "eQ=="}  # no certificate at all
    as_user(tmp_path, guarded, user)
    config = (tmp_path / "config").read_text().replace("http://", "https://")
    (tmp_path / "config").write_text(config)
    settings = KubernetesSettings(image="i", kubeconfig=str(tmp_path / "config"))
    with pytest.raises(CredentialsError, match=r"No safe connection.*'kubernetes'.*certificates"):
        KubernetesCluster(settings, owner="team-a").volumes.list()


def test_a_credential_plugin_that_does_not_end_is_ended() -> None:
    plugin = {"command": "sh", "args": ["-c", "sleep 60; echo"], "apiVersion": PLUGIN}
    with pytest.raises(PluginError, match=r"did not end in 0\.2 seconds"):
        run_plugin(plugin, None, {}, patience_seconds=0.2)


def test_a_credential_plugin_is_asked_as_the_protocol_has_it(guarded: Guarded, tmp_path: Path) -> None:
    """With its arguments, its environment, what it is told of the cluster, and no input to wait for."""
    script = tmp_path / "plugin"
    script.write_text(
        "#!/bin/sh\ncat >&2\n"
        f"""echo "$KUBERNETES_EXEC_INFO" > {tmp_path}/info\n"""
        f"""echo '{{"apiVersion": "{PLUGIN}", "kind": "ExecCredential", "status": {{"token": "'$1$PART'"}}}}'\n"""
    )
    script.chmod(0o755)
    env = [{"name": "PART", "value": "od"}]
    plugin = {"apiVersion": PLUGIN, "command": "./plugin", "args": ["go"], "env": env, "provideClusterInfo": True}
    assert as_user(tmp_path, guarded, {"exec": plugin}).volumes.list() == []
    asked = json.loads((tmp_path / "info").read_text())
    assert (asked["apiVersion"], asked["kind"], asked["spec"]["interactive"]) == (PLUGIN, "ExecCredential", False)
    assert asked["spec"]["cluster"]["server"].endswith(str(guarded.server_port))


def test_what_a_kubeconfig_names_is_named_from_where_it_lies(guarded: Guarded, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("good")
    assert as_user(tmp_path, guarded, {"tokenFile": "token"}).volumes.list() == []

"""Runs a kubeconfig's credential plugin, and takes nothing from it that is not an ExecCredential.

The official client waits for it for ever, and takes its answer apart as if it could not be anything else.
"""

import json
import os
import subprocess
import sys
from typing import Any

Json = dict[str, Any]

PATIENCE_SECONDS = 300
"""A person may have to log in with a browser meanwhile."""


class PluginError(Exception):
    """It failed, and how."""


def run_plugin(plugin: Json, folder: str | None, cluster: Json, patience_seconds: float = PATIENCE_SECONDS) -> Json:
    """The `status` that it answers: a token, or a certificate with its key.

    Args:
        plugin: `exec` of a kubeconfig's user.
        folder: where it is run.
        cluster: of the kubeconfig, for plugins that want to know it.

    Raises:
        PluginError: it can not be started, takes too long, ends badly, or answers something else.
    """
    if missing := [key for key in ("command", "apiVersion") if not plugin.get(key)]:
        raise PluginError(f"the kubeconfig does not say its {missing[0]}")
    version, interactive = plugin["apiVersion"], bool(sys.stdout and sys.stdout.isatty())
    asked: Json = {"interactive": interactive}
    if plugin.get("provideClusterInfo"):
        asked["cluster"] = _cluster_info(cluster)
    env = {item["name"]: item["value"] for item in plugin.get("env") or ()}
    info = json.dumps({"apiVersion": version, "kind": "ExecCredential", "spec": asked})
    try:
        done = subprocess.run(
            [plugin["command"], *(plugin.get("args") or ())],
            cwd=folder or None,
            env={**os.environ, **env, "KUBERNETES_EXEC_INFO": info},
            stdin=None if interactive else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=None if interactive else subprocess.PIPE,
            timeout=patience_seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise PluginError(f"it did not end in {patience_seconds:g} seconds") from None
    except OSError as error:
        raise PluginError(str(error)) from error
    if done.returncode:
        said = "see above" if done.stderr is None else done.stderr.decode(errors="replace").strip()
        raise PluginError(f"process returned {done.returncode}{f'. {said}' if said else ''}")
    return _status(done.stdout, version)


def _cluster_info(cluster: Json) -> Json:
    """With the plugin's own part of it where the protocol has it."""
    for extension in cluster.get("extensions") or ():
        if extension["name"] == "client.authentication.k8s.io/exec":
            return {**cluster, "config": extension["extension"]}
    return cluster


def _status(answer: bytes, version: str) -> Json:
    try:
        said = json.loads(answer)
    except ValueError:  # of its encoding, too
        start = " ".join(answer[:80].decode(errors="replace").split())
        raise PluginError(f"it answered no JSON, but {start!r}" if start else "it answered nothing") from None
    if not isinstance(said, dict) or said.get("kind") != "ExecCredential":
        raise PluginError("it answered JSON that is no ExecCredential")
    if said.get("apiVersion") != version:
        raise PluginError(f"plugin api version {said.get('apiVersion')} does not match {version}")
    status = said.get("status")
    if not isinstance(status, dict) or not (
        status.get("token") or (status.get("clientCertificateData") and status.get("clientKeyData"))
    ):
        raise PluginError("it gave neither a token nor a certificate with its key")
    return status

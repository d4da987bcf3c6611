"""Where an API server is and who asks: what a kubeconfig, or a pod's service account, says at the moment.

The official client reads both; what it does not do is done here: a kubeconfig and the files that it names are read
again when somebody asks for it, and a credential plugin that fails is an error, not a request without a name.
"""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from blocks.clusters.errors import SlipwayError
from blocks.clusters.kubernetes.plugin import PluginError, run_plugin

if TYPE_CHECKING:
    from kubernetes.client import Configuration


class CredentialsError(SlipwayError):
    """There are no credentials to ask with, or the API server does not take them."""


class Credentials:
    """Of one context, as they are now. Safe to use from several threads.

    Args:
        name: the cluster's, for messages.
        kubeconfig, context: as in the settings.

    Raises:
        CredentialsError: what is wrong with the kubeconfig, or how its plugin failed.
    """

    def __init__(self, name: str, kubeconfig: str | None, context: str | None) -> None:
        self._name = name
        self._context = context
        self._path = kubeconfig or os.environ.get("KUBECONFIG") or str(Path("~/.kube/config").expanduser())
        self._in_pod = "KUBERNETES_SERVICE_HOST" in os.environ and not kubeconfig and not Path(self._path).exists()
        self._lock = threading.Lock()
        self.configuration = self._read()

    @property
    def remedy(self) -> str:
        """What helps where the API server does not take them."""
        if self._in_pod:
            return (
                "Look whether the pod's service account still exists and the cluster's clock is right. One that was "
                "made again reaches the pod within the hour; a new pod has it at once."
            )
        return f"Log in again, or mend the user in the kubeconfig {self._path}."

    def headers(self) -> dict[str, str]:
        """What says who asks. A token that is about to end is renewed.

        Raises:
            CredentialsError: it could not be.
        """
        with self._lock, self._explained():
            settings: Any = self.configuration.auth_settings()
        return {found["key"]: found["value"] for found in settings.values() if found["value"]}

    def renew(self) -> bool:
        """Read all of it again, and run its plugin; whether something is another than before.

        Raises:
            CredentialsError: it can not be read; what there was is kept.
        """
        with self._explained():
            before = self._sign()
            configuration = self._read()
            with self._lock:
                self.configuration = configuration
            return self._sign() != before

    def _sign(self) -> tuple[object, ...]:
        """Of all that a request depends on; files by what is in them."""
        at = self.configuration
        files = [Path(path).read_bytes() if path else b"" for path in (at.ssl_ca_cert, at.cert_file, at.key_file)]
        return at.host, at.proxy, dict(at.api_key), at.verify_ssl, *files

    def _read(self) -> "Configuration":
        from kubernetes import config as untyped
        from kubernetes.client import Configuration

        config: Any = untyped
        configuration = Configuration()
        with self._explained():
            if self._in_pod:
                config.load_incluster_config(client_configuration=configuration)
            else:
                _load(self._path, self._context, configuration)
        return configuration

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Whatever is wrong with a file of somebody else's, as one sentence."""
        try:
            yield
        except CredentialsError:
            raise
        except Exception as error:  # YAML, base64, certificates, the libraries of providers: each has its own
            why = " ".join(str(error).split()).rstrip(".") or type(error).__name__
            where = "The account of this pod" if self._in_pod else f"The kubeconfig {self._path}"
            raise CredentialsError(
                f"Cluster {self._name!r} can not be reached. {where} can not be used: {why}.",
                "Mend it." if self._in_pod else "Mend it, or name another one.",
            ) from error


def _load(path: str, context: str | None, configuration: "Configuration") -> None:
    from kubernetes.config import kube_config

    untyped: Any = kube_config

    class Loader(untyped.KubeConfigLoader):  # type: ignore[misc]
        """The official one swallows how a plugin failed, and asks without a name."""

        def _load_from_exec_plugin(self) -> bool:
            if "exec" not in self._user:
                return False
            plugin = self._user["exec"].value
            folder = self._get_base_path(self._cluster.path)
            try:
                status = run_plugin(plugin, folder, self._cluster.value)
            except PluginError as error:
                raise _failed(plugin, str(error)) from error
            if "token" in status:
                self.token = f"Bearer {status['token']}"
            else:
                kinds = {"base64_file_content": False, "temp_file_path": self._temp_file_path}
                certificate = untyped.FileOrData(status, "", data_key_name="clientCertificateData", **kinds)
                key = untyped.FileOrData(status, "", data_key_name="clientKeyData", **kinds)
                self.cert_file, self.key_file = certificate.as_file(), key.as_file()
            if ends := status.get("expirationTimestamp"):
                try:
                    self.expiry = untyped.parse_rfc3339(ends)
                except ValueError as error:
                    raise _failed(plugin, f"it says that they end at {ends!r}") from error
            return True

    full = os.path.pathsep.join(str(Path(part).expanduser()) for part in path.split(os.path.pathsep))
    merged = untyped.KubeConfigMerger(full)
    if merged.config is None:
        raise untyped.ConfigException("there is none, or it is empty")
    # No base path: what a file names, it names from where it lies.
    Loader(config_dict=merged.config, active_context=context, config_base_path=None).load_and_set(configuration)


def _failed(plugin: dict[str, Any], why: str) -> CredentialsError:
    why = " ".join(why.split()).rstrip(".")
    hint = " ".join(str(plugin.get("installHint") or "").split())
    return CredentialsError(
        f"The kubeconfig's credential plugin {plugin.get('command')!r} failed: {why[:500]}.",
        f"Log in with it, or mend it, and ask again. {hint}".strip(),
    )

"""What a local job's program is started with: translated paths, a clean environment, secrets looked up now."""

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from blocks.clusters.errors import NotFoundError
from blocks.clusters.job import SecretRef

SCRATCH = "/scratch"
NODE_CACHE = "/node-cache"
# Nothing else of the submitter's environment reaches a job: it may hold secrets.
_PASSED_ON = frozenset(
    (
        *("HOME", "LANG", "LANGUAGE", "LOGNAME", "PATH", "PYTHONPATH", "SHELL", "TMPDIR", "TZ", "USER", "VIRTUAL_ENV"),
        *("CONDA_PREFIX", "CUDA_HOME", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"),
        *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"),
        *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "no_proxy", "all_proxy"),
    )
)


def translate(text: str, directories: Mapping[str, Path]) -> str:
    """Return a token with the container's path at its start replaced by the real one; others as they are.

    Args:
        text: a token of a command or a value of an environment variable.
        directories: path in the container → directory here. The longest that fits wins.
    """
    for mounted in sorted(directories, key=len, reverse=True):
        inside = mounted.rstrip("/")
        if text == inside or text.startswith(inside + "/"):
            return str(directories[mounted]) + text[len(inside) :]
    return text


def translate_command(command: Sequence[str], directories: Mapping[str, Path]) -> list[str]:
    """Translate every token; `python` becomes the interpreter that runs us."""
    translated = [translate(token, directories) for token in command]
    if translated[:1] == ["python"]:
        translated[0] = sys.executable
    return translated


def base_environment(project: Path) -> dict[str, str]:
    """What every program starts with, before its own variables.

    Args:
        project: the directory to import `tasks` from.
    """
    passed_on = {k: v for k, v in os.environ.items() if k in _PASSED_ON or k.startswith("LC_")}
    ours = Path(sys.executable).parent  # so that scripts find the tools that are installed with us
    return {
        **passed_on,
        "PATH": os.pathsep.join([str(ours), passed_on.get("PATH", os.defpath)]),
        "PYTHONPATH": os.pathsep.join([str(project), *filter(None, [passed_on.get("PYTHONPATH")])]),
        "PYTHONUNBUFFERED": "1",
    }


def job_environment(env: Mapping[str, str], directories: Mapping[str, Path], project: Path) -> dict[str, str]:
    """A program's own variables, with paths translated, and where its volume and its scratch are."""
    translated = {key: translate(value, directories) for key, value in env.items()}
    if "PYTHONPATH" in translated:
        translated["PYTHONPATH"] = os.pathsep.join([str(project), translated["PYTHONPATH"]])
    if "/volume" in directories:
        translated["SLIPWAY_VOLUME"] = str(directories["/volume"])
    translated["SLIPWAY_SCRATCH"] = str(directories[SCRATCH])
    return translated


def look_up(secrets: Mapping[str, SecretRef], root: Path) -> dict[str, str]:
    """Return variable → value of secrets.

    Raises:
        NotFoundError: one is missing; the message says where it was looked for.
    """
    found = {}
    for variable, secret in secrets.items():
        path = root / "secrets" / secret.name / secret.key
        if secret.key in os.environ:
            found[variable] = os.environ[secret.key]
        elif path.is_file():
            found[variable] = path.read_text().rstrip("\n")
        else:
            raise NotFoundError(
                f"The secret {secret.name!r} has no key {secret.key!r}: neither the environment variable "
                f"{secret.key} nor the file {path} exists.",
                f"Set {secret.key} before you start this, or write the value to the file.",
            )
    return found

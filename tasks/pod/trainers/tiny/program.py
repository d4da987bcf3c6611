"""The tiny trainer: `python -m tasks.pod.trainers.tiny.program @ config.toml`.

It exists to exercise everything else for real, on a laptop and without a GPU: a genuine training loop that
learns from the staged weights and data, saves checkpoints as real trainers do, and continues from them bit
for bit on the same kind of machine. It is no tool to train a useful model with.
"""

import os
import signal
import sys
from pathlib import Path
from types import FrameType

from tasks.pod.errors import PodError

THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


def main(argv: list[str]) -> int:
    """Exit codes: 0 trained, 1 refused or failed, with one line on stderr, 2 wrong usage, 143 terminated."""
    signal.signal(signal.SIGTERM, _terminate)
    if len(argv) != 3 or argv[1] != "@":
        print("usage: python -m tasks.pod.trainers.tiny.program @ CONFIG.toml", file=sys.stderr)
        return 2
    # More than one thread adds up in another order each time. NumPy reads this when it is imported.
    os.environ.update(dict.fromkeys(THREADS, "1"))
    from tasks.pod.trainers.tiny.loop import train

    try:
        train(Path(argv[2]))
    except PodError as error:
        return _failed(str(error))
    except OSError as error:
        return _failed(f"{error}.")
    except MemoryError:
        return _failed("There is not enough memory for a step. Lower [data].batch_size or [data].seq_len.")
    except KeyboardInterrupt:
        return 130
    return 0


def _failed(line: str) -> int:
    sys.stdout.flush()
    print(f"error: {' '.join(line.split())}", file=sys.stderr, flush=True)
    return 1


def _terminate(signum: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + signum)


if __name__ == "__main__":
    sys.exit(main(sys.argv))

"""What a program of `tasks.pod.program` answered: its JSON, or its refusal as an error of ours."""

import contextlib
import json
import signal
from typing import Any

from blocks.clusters.errors import CUT_OFF, ProgramError

_KILLED = {code for number in (signal.SIGKILL, signal.SIGTERM) for code in (-number, 128 + number)}
"""By somebody else: its session was stopped, or its machine went."""


def read_answer(program: str, code: int, line: bytes, errors: bytes) -> dict[str, Any]:
    """What a program answered.

    Args:
        code: its exit code; below zero the signal that killed it.
        line: the line that holds the answer.
        errors: its standard error.

    Raises:
        ProgramError: it refused, in its own words and with its own kind; or failed, of kind `CUT_OFF` if it was killed.
    """
    answer = None
    with contextlib.suppress(ValueError):
        answer = json.loads(line)
    if isinstance(answer, dict) and isinstance(answer.get("ok"), dict) and code == 0:
        ok: dict[str, Any] = answer["ok"]
        return ok
    if isinstance(answer, dict) and isinstance(answer.get("error"), dict):
        error = answer["error"]
        raise ProgramError(error["what"], error["remedy"], error["kind"])
    how = f"exited with code {code}" if code >= 0 else f"was killed by {signal.Signals(-code).name}"
    last = "\n".join(errors.decode(errors="replace").splitlines()[-20:])
    kind = CUT_OFF if code in _KILLED else ProgramError.__name__
    raise ProgramError(f"{program} {how} without an answer:\n{last}", "Look at its last lines above.", kind)

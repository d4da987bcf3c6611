"""Asks a trainer's own schema, where a team has it installed on the machine that plans."""

import json
import subprocess
from collections.abc import Callable

from tasks.plans.plan import Blocked, Mark
from tasks.pod.trainers.adapter import Needs, Places
from tasks.runs.request import RunRequest

_SECONDS = 120
_OFFLINE = {"HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}


def check_own_schema(request: RunRequest, needs: Needs, add: Callable[..., None]) -> None:
    """One line of the plan for each thing that the trainer's own schema has against the config as it would be rendered.

    Raises:
        Blocked: the schema can not be asked.
    """
    asked = request.adapter.own_schema()
    if asked is None:
        return
    python, script = asked
    places = Places(
        weights=needs.model if needs.model.startswith("/volume/") else "/volume/hub/weights",
        dataset="/volume/datasets/data" if needs.dataset else None,
        output=f"/volume/runs/{request.run}",
        resume=needs.resume or (request.adapter.step_directory(1) if request.fork_of else None),
        scratch="/scratch",
        gpus=request.trainer.resources.gpus,
        nodes=request.trainer.resources.nodes,
    )
    text = request.adapter.render(request.config, places)
    subject, remedy = f"{request.trainer.kind}'s own schema", "Name a Python that has it in the option schema_python."
    try:
        done = subprocess.run(
            [python, "-I", script], input=text, capture_output=True, text=True, timeout=_SECONDS, env=_OFFLINE
        )
    except OSError as error:
        raise Blocked(subject, f"{python} can not be run: {error.strerror}.", remedy) from None
    except subprocess.TimeoutExpired:
        raise Blocked(subject, f"{python} did not answer within {_SECONDS} seconds.", remedy) from None
    try:
        found: list[tuple[str, str]] = json.loads((done.stdout.strip().splitlines() or [""])[-1])
    except ValueError:
        said = (done.stderr.strip().splitlines() or ["nothing"])[-1]
        raise Blocked(subject, f"it could not be asked: {said}", remedy) from None
    for key, what in found:
        add(Mark.BLOCKED, f"config {key}", f"{request.trainer.kind} refuses it: {what}.", "Change it.")
    if not found:
        add(Mark.READY, subject, "accepts the config")

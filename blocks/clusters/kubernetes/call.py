"""Programs of `tasks.pod.program` beside the data: in the volume's session, or in a pod of their own."""

import contextlib
import json
import secrets as random
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, Any

from blocks.clusters.answer import read_answer
from blocks.clusters.errors import CUT_OFF, ProgramError
from blocks.clusters.job import Cause, JobStatus, SecretRef
from blocks.clusters.kubernetes import manifests
from blocks.clusters.kubernetes.api import Api
from blocks.clusters.kubernetes.check import check_secrets
from blocks.clusters.kubernetes.exec import BrokenExecError, Process, TooLongError, execute
from blocks.clusters.kubernetes.observe import Observer
from blocks.clusters.kubernetes.place import Place
from blocks.clusters.kubernetes.sessions import KubernetesSessions
from blocks.clusters.kubernetes.settings import KubernetesSettings
from blocks.clusters.kubernetes.workloads import Workloads
from blocks.clusters.names import fit_name

Json = dict[str, Any]

_PROGRAM = ("python", "-m", "tasks.pod.program")
_START_PATIENCE_SECONDS = 900


class Caller:
    """Calls programs for one owner."""

    def __init__(
        self,
        api: Api,
        place: Place,
        settings: KubernetesSettings,
        workloads: Workloads,
        sessions: KubernetesSessions,
    ) -> None:
        self._api = api
        self._place = place
        self._settings = settings
        self._sessions = sessions
        self._observer = Observer(api, place, settings, workloads)
        self._known: dict[str, str] = {}

    def in_session(
        self,
        volume: str,
        program: str,
        arguments: Mapping[str, Any],
        *,
        writable: bool,
        env: Mapping[str, str],
        timeout_seconds: float,
    ) -> dict[str, Any]:
        """Run a program in the volume's internal session. A connection that breaks is made again: programs that are
        called write records once, so that running one twice is running it once."""
        root = manifests.WRITABLE_ROOT if writable else "/volume"
        command = _session_command([program], env, root=root, timeout_seconds=timeout_seconds)
        give_up = time.monotonic() + self._api.patience_seconds
        while True:
            pod = self._known.get(volume) or self._sessions.internal(volume)
            try:
                code, out, errors = execute(
                    self._api, self._place, pod, "main", command, _line(arguments), timeout_seconds + 30
                )
            except TooLongError:
                raise _too_long(program, timeout_seconds) from None
            except BrokenExecError as error:
                known = self._known.pop(volume, None)
                if known is None and time.monotonic() > give_up:
                    raise ProgramError(f"{program} could not be run: {error.what}", error.remedy) from error
                if known is None:
                    time.sleep(0.5)
                continue
            if code == 137 and not out:  # the session ended under it
                self._known.pop(volume, None)
                if time.monotonic() < give_up:
                    continue
            break
        self._known[volume] = pod
        self._sessions.get_out_of_the_way(volume)
        if code == 124:
            raise _too_long(program, timeout_seconds)
        return read_answer(program, code, _last_line(out), errors)

    def in_own_pod(
        self,
        volume: str | None,
        program: str,
        arguments: Mapping[str, Any],
        *,
        writable: bool,
        env: Mapping[str, str],
        secrets: Mapping[str, SecretRef],
        timeout_seconds: float,
        single_node: bool,
    ) -> dict[str, Any]:
        """Run a program in a pod that nothing else sees, which is gone with its answer."""
        check_secrets(dict(secrets), self._api, self._place)
        name = fit_name("slipway-call", random.token_hex(6))
        command = (*_PROGRAM, program, json.dumps(dict(arguments)))
        job = self._api.post(
            self._place.jobs(),
            manifests.call_job(
                name,
                command,
                self._settings,
                volume=volume,
                writable=writable,
                env=env,
                secrets=secrets,
                timeout_seconds=timeout_seconds,
                single_node=single_node,
            ),
        )
        try:
            status, pod = self._ended(job, timeout_seconds)
            if status.cause is Cause.DEADLINE:
                raise _too_long(program, timeout_seconds)
            lines = self._log(pod) if pod else []
        finally:
            with contextlib.suppress(Exception):
                self._api.delete(self._place.job(name))
        if status.cause in (Cause.COMPLETED, Cause.EXIT):
            answers = [n for n, line in enumerate(lines) if line.startswith((b'{"ok"', b'{"error"'))]
            at = answers[-1] if answers else -1
            code = 0 if status.cause is Cause.COMPLETED else status.exit_code or 1
            return read_answer(program, code, lines[at] if answers else b"", b"\n".join(lines))
        raise ProgramError(f"{program} was not run to its end: {status.reason}", "Mend what it names, and try again.")

    @contextlib.contextmanager
    def stream(
        self, volume: str, program: str, arguments: Mapping[str, Any], *, writable: bool, session: str | None
    ) -> Iterator["KubernetesStream"]:
        """A program in a session of the volume with its pipes open; it ends with the block."""
        pod = session or self._sessions.internal(volume)
        root = manifests.WRITABLE_ROOT if writable and not session else "/volume"
        command = _session_command(["--stream", program], {}, root=root, timeout_seconds=24 * 3600)
        try:
            process = Process(self._api, self._place, pod, "main", command)
        except BrokenExecError as error:
            raise ProgramError(f"{program} could not be run: {error.what}", error.remedy, CUT_OFF) from error
        stream = KubernetesStream(program, process)
        try:
            process.stdin.write(_line(arguments))
            yield stream
        except BrokenPipeError:
            stream.result()
            raise
        finally:
            process.close()

    def _ended(self, job: Json, timeout_seconds: float) -> tuple[JobStatus, Json | None]:
        until = time.monotonic() + timeout_seconds + _START_PATIENCE_SECONDS
        name, uid = job["metadata"]["name"], job["metadata"]["uid"]
        while True:
            pods = self._api.items(self._place.pods(), {"labelSelector": f"batch.kubernetes.io/controller-uid={uid}"})
            pod = pods[-1] if pods else None
            if pod is None:  # only then does its Job have something to say
                job = self._api.find(self._place.job(name)) or job
            status = self._observer.status(job, [pod] if pod else [])
            if not status.live:
                return status, pod
            if time.monotonic() > until:
                return status.model_copy(update={"reason": status.reason or "it does not start"}), pod
            time.sleep(0.2)

    def _log(self, pod: Json) -> list[bytes]:
        path = f"{self._place.pod(pod['metadata']['name'])}/log"
        return b"".join(self._api.text(path, {"container": "main"})).splitlines()


class KubernetesStream:
    """A program with both ends of its pipes."""

    def __init__(self, program: str, process: Process) -> None:
        self.stdin: IO[bytes] = process.stdin
        self.stdout: IO[bytes] = process.stdout
        self._program = program
        self._process = process

    def result(self) -> dict[str, Any]:
        self.stdin.close()
        if not self.stdout.closed:
            while self.stdout.read(2**20):  # what the caller did not want to read must not hold it up
                pass
        try:
            code, errors = self._process.wait()
        except BrokenExecError as error:
            raise ProgramError(f"{self._program} was cut off: {error.what}", error.remedy, CUT_OFF) from error
        return read_answer(self._program, code, _last_line(errors), errors)


def _session_command(
    arguments: Sequence[str], env: Mapping[str, str], *, root: str, timeout_seconds: float
) -> list[str]:
    """The program, told which mount is its volume, ended in time."""
    variables = [f"{key}={value}" for key, value in {**env, "SLIPWAY_VOLUME": root}.items()]
    limit = str(max(1, round(timeout_seconds)))
    return manifests.in_session(["env", *variables, "timeout", "-k", "5", limit, *_PROGRAM, *arguments])


def _too_long(program: str, seconds: float) -> ProgramError:
    return ProgramError(
        f"{program} took longer than {seconds:g} seconds and was ended.",
        "Try again; for long work, submit a job.",
        "Timeout",
    )


def _line(arguments: Mapping[str, Any]) -> bytes:
    return json.dumps(dict(arguments)).encode() + b"\n"


def _last_line(text: bytes) -> bytes:
    return (text.splitlines() or [b""])[-1]

"""Takes care of one local job from its place in the queue to its end, whoever submitted it and whoever watches.

`python -m blocks.clusters.local.supervisor ROOT OWNER NAME LOCK` with the job's lock as the open descriptor LOCK. It
goes into the background once it holds it. Secrets come as `SLIPWAY_SECRET_<variable>` in its environment. Free of
everything outside the standard library, to start in no time.
"""

import fcntl
import os
import select
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from blocks.clusters.local import process
from blocks.clusters.local.files import read_json, remove_tree, write_json
from blocks.clusters.local.identity import identify
from blocks.clusters.local.log import LogTimes, last_lines
from blocks.clusters.local.place import Place
from blocks.clusters.local.slots import Claim, Room, claim

SECRET = "SLIPWAY_SECRET_"  # noqa: S105 - the prefix of variables, not a secret
TICK_SECONDS = 0.5
DEADLINE_GRACE_SECONDS = 30


class Ended(Exception):  # noqa: N818 - no error: the way out from any depth
    """The job is over: what to write down."""

    def __init__(self, state: str, cause: str, reason: str, exit_code: int | None = None) -> None:
        super().__init__(reason)
        self.record = {"state": state, "cause": cause, "reason": reason, "exit_code": exit_code}


class Supervisor:
    """One job.

    Args:
        place: the job's; the caller holds its lock.
        secrets: environment variables that are nowhere on disk.
    """

    def __init__(self, place: Place, secrets: dict[str, str]) -> None:
        submitted = place.read()
        if submitted is None:
            raise FileNotFoundError(place.directory)
        self._place = place
        self._launch: dict[str, Any] = submitted["launch"]
        self._submitted: float = submitted["submitted_at"]
        self._env = {**os.environ, **self._launch["env"], **secrets}
        self._log = os.open(place.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._times = LogTimes(self._log, place.log_times)
        self._state: dict[str, Any] = {"state": "queued", "reason": "", "supervisor": identify(os.getpid())}
        self._evicted = False
        self._began = time.monotonic()  # durations are measured by it: the time of day can be set
        self._signalled = False  # whether the program was told to end
        self._wake = _wake_on_signals(self._on_sigterm)

    def run(self) -> None:
        """Bring the job to its end and write that down."""
        try:
            self._wait_for_slots()
            self._hold_alive()
            self._place.scratch.mkdir(exist_ok=True)
            if self._launch["init_command"]:
                self._run(self._launch["init_command"], "starting")
            self._run(self._launch["command"], "running")
            end = Ended("completed", "completed", "", 0)
        except Ended as ended:
            end = ended
        except Exception as error:  # its end must be on record whatever happens here
            end = Ended("lost", "lost", f"Its supervisor failed: {type(error).__name__}: {error}.")
        self._times.note()
        started = self._state.get("started_at")  # a clock that is set meanwhile makes no job longer or shorter
        bad = end.record["state"] != "completed"
        self._write_end(
            {
                **end.record,
                "started_at": started,
                "ended_at": time.time() if started is None else started + time.monotonic() - self._began,
                "last_lines": last_lines(self._place.log) if bad else [],
            }
        )
        self._place.claim.unlink(missing_ok=True)
        remove_tree(self._place.scratch)

    def _hold_alive(self) -> None:
        """Programs inherit the open file, and so the lock: it is free when the last of us is gone."""
        held = os.open(self._place.alive, os.O_RDWR | os.O_CREAT, 0o644)
        fcntl.flock(held, fcntl.LOCK_EX)
        os.set_inheritable(held, True)
        self._env["SLIPWAY_ALIVE"] = str(self._place.alive)

    def _write_end(self, end: dict[str, Any]) -> None:
        """A full disk is waited out, for a while: scratch is given up first, and somebody may make room."""
        for _ in range(600):
            try:
                self._place.write_end(end)
            except OSError:
                remove_tree(self._place.scratch)
                time.sleep(1)
            else:
                return

    def _wait_for_slots(self) -> None:
        wanted = Claim(job=self._place.name, submitted=self._submitted, **self._launch["wants"])
        room = Room(**self._launch["room"])
        self._note()
        while isinstance(answer := claim(self._place, wanted, room), str):
            if answer != self._state["reason"]:
                self._note(reason=answer)
            self._wait_for_change()
        # Without a claim to GPUs none must be seen: another job may have them.
        self._env["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, answer.indices))
        self._env["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
        self._state["started_at"] = time.time()
        self._began = time.monotonic()

    def _wait_for_change(self) -> None:
        """Wait until a claim may have gone. A dead supervisor leaves its claim behind, so look now and then anyway."""
        seen = self._place.claim.parent.stat().st_mtime_ns
        until = time.monotonic() + 2
        while time.monotonic() < until and self._place.claim.parent.stat().st_mtime_ns == seen:
            self._check_told_to_end()
            self._sleep(0.1)

    def _run(self, command: Sequence[str], state: str) -> None:
        """Run one command to its end.

        Raises:
            Ended: it did not succeed, and why.
        """
        self._check_told_to_end()
        try:
            pid = process.start(
                command,
                self._env,
                self._place.scratch,
                self._log,
                record=lambda program: self._note(state=state, reason="", program=program),
            )
        except OSError as error:
            raise Ended("failed", "start", f"{command[0]!r} could not be started: {error.strerror}.") from error
        try:
            past_deadline = self._follow(pid)
        finally:
            code = process.end(pid)
        if past_deadline:
            limit = self._launch["deadline_seconds"]
            raise Ended("failed", "deadline", f"It ran past its deadline of {limit} seconds.", code)
        if self._signalled:
            raise self._told_to_end(code)
        if code:
            raise _failure(code, init=state == "starting")

    def _follow(self, pid: int) -> bool:
        """Wait for the program's end, passing on requests to stop. Returns whether it ran past its deadline."""
        limit = self._launch["deadline_seconds"]
        deadline = None if limit is None else self._began + limit
        past_deadline = False
        kill_at: float | None = None
        while not process.has_ended(pid):
            self._times.note()
            now = time.monotonic()
            grace: float | None = None
            if self._evicted:
                grace = DEADLINE_GRACE_SECONDS
            elif request := read_json(self._place.stop_request):
                grace = max(0.0, request["grace_seconds"])
            elif deadline is not None and now >= deadline:
                grace, past_deadline = DEADLINE_GRACE_SECONDS, True
            if grace is not None:
                if not self._signalled:
                    process.signal_group(pid, signal.SIGTERM)
                    self._signalled = True
                kill_at = min(now + grace, kill_at or now + grace)
                if now >= kill_at:
                    process.signal_group(pid, signal.SIGKILL)
            due = [at for at in (kill_at, None if self._signalled else deadline) if at is not None]
            self._sleep(min([TICK_SECONDS, *(max(0.01, at - time.monotonic()) for at in due)]))
        return past_deadline

    def _check_told_to_end(self) -> None:
        if self._evicted or self._place.stop_request.exists():
            raise self._told_to_end(None)

    def _told_to_end(self, code: int | None) -> Ended:
        if self._evicted:
            return Ended("failed", "evicted", "Its supervisor was told to end: the machine may be going down.", code)
        return Ended("stopped", "stopped", "Stopped on request.", code)

    def _note(self, **changes: Any) -> None:
        self._state.update(changes)
        write_json(self._place.state, self._state)

    def _sleep(self, seconds: float) -> None:
        """Sleep until a signal comes, at most this long."""
        if select.select([self._wake], [], [], seconds)[0]:
            os.read(self._wake, 512)

    def _on_sigterm(self) -> None:
        self._evicted = True


def _wake_on_signals(on_sigterm: Any) -> int:
    """Return a descriptor that becomes readable with every signal."""
    wake, signalled = os.pipe()
    os.set_blocking(signalled, False)
    signal.set_wakeup_fd(signalled, warn_on_full_buffer=False)
    signal.signal(signal.SIGTERM, lambda *_: on_sigterm())
    for number in (signal.SIGCHLD, signal.SIGUSR1):
        signal.signal(number, lambda *_: None)
    return wake


def _failure(code: int, *, init: bool) -> Ended:
    who = "Its init command" if init else "Its command"
    number = -code if code < 0 else code - 128 if 128 < code < 160 else 0  # a shell says 128+n of its child
    try:
        name = signal.Signals(number).name
    except ValueError:
        return Ended("failed", "init" if init else "exit", f"{who} exited with code {code}.", code)
    culprit = ""
    if name == "SIGKILL":
        culprit = "; we did not send it, and the kernel's out-of-memory killer is a usual culprit"
    if code < 0:
        return Ended("failed", "init" if init else "signal", f"{who} was killed by {name}{culprit}.", code)
    reason = f"{who} exited with code {code}, which means that {name} killed a process of it{culprit}."
    return Ended("failed", "init" if init else "exit", reason, code)


def main(arguments: list[str]) -> int:
    root, owner, name, lock = arguments
    os.set_inheritable(int(lock), False)
    if os.fork():
        return 0
    os.setsid()
    place = Place(Path(root), owner, name)
    # Whoever held the lock before may have begun, and even ended, the job: it never begins twice.
    if place.state.exists() or place.end.exists():
        return 0
    secrets = {k.removeprefix(SECRET): os.environ.pop(k) for k in list(os.environ) if k.startswith(SECRET)}
    process.adopt_orphans()
    Supervisor(place, secrets).run()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

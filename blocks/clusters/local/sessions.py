"""People's sessions on the local cluster: leases that last as long as the process that opened them.

The directory of a volume is there anyway, so a session opens nothing; it only keeps its volume from being deleted.
"""

import contextlib
import os
import secrets
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from blocks.clusters.errors import NotFoundError
from blocks.clusters.local.files import read_json, write_json
from blocks.clusters.local.identity import Identity, identify
from blocks.clusters.local.terminal import LocalTerminal
from blocks.clusters.local.volumes import LocalVolumes
from blocks.clusters.names import meant
from blocks.clusters.port import Session


class LocalSessions:
    """Sessions of one owner, `<root>/sessions/<owner>/<id>.json`.

    Args:
        root: the cluster's.
        owner: whose.
        volumes: the owner's volumes.
        project: the directory that programs import `tasks` from.
    """

    def __init__(self, root: Path, owner: str, volumes: LocalVolumes, project: Path) -> None:
        self._directory = root / "sessions" / owner
        self._volumes = volumes
        self._project = project

    def open(self, volume: str, writable: bool = True, *, reuse: bool = False) -> Session:
        """As the port says. It ends with this process, and is never reused."""
        session = Session(
            id=f"session-{secrets.token_hex(4)}",
            volume=volume,
            writable=writable,
            internal=False,
            started_at=datetime.fromtimestamp(time.time(), UTC),
        )
        self._directory.mkdir(parents=True, exist_ok=True)
        with self._volumes.steady():
            self._volumes.check_mountable(volume)
            record = {"session": session.model_dump(mode="json"), "opened_by": identify(os.getpid())}
            write_json(self._directory / f"{session.id}.json", record)
        return session

    def attach(self, session_id: str, command: Sequence[str], size: tuple[int, int] | None) -> LocalTerminal:
        """As the port says, as a process of this one. That a session is for reading only is not enforced."""
        volume = self._find(session_id).volume
        lease = self._directory / f"{session_id}.json"
        return LocalTerminal(command, self._volumes.check_mountable(volume), self._project, size, lease)

    def leave(self, session: Session) -> None:
        with contextlib.suppress(NotFoundError):
            self.stop(session.id)

    def list(self) -> list[Session]:
        return sorted(list_sessions(self._directory), key=lambda session: session.started_at)

    def stop(self, session_id: str) -> None:
        """As the port says: what runs in it ends at once."""
        self._find(session_id)
        (self._directory / f"{session_id}.json").unlink(missing_ok=True)

    def _find(self, session_id: str) -> Session:
        for session in self.list():
            if session.id == session_id:
                return session
        there = [session.id for session in self.list()]
        raise NotFoundError(f"There is no session {session_id!r}.", meant(session_id, there, "Sessions"))


def list_sessions(directory: Path) -> Iterator[Session]:
    """The sessions whose process lives; what others left is removed."""
    for path in directory.glob("[!.]*.json"):
        record = read_json(path)
        if record is None:
            continue
        if Identity(*record["opened_by"]).lives:
            yield Session.model_validate(record["session"])
        else:
            path.unlink(missing_ok=True)

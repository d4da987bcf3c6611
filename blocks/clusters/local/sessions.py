"""People's sessions on the local cluster: leases that last as long as the process that opened them.

The directory of a volume is there anyway, so a session opens nothing; it only keeps its volume from being deleted.
"""

import os
import secrets
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from blocks.clusters.errors import NotFoundError
from blocks.clusters.local.files import read_json, write_json
from blocks.clusters.local.identity import Identity, identify
from blocks.clusters.local.volumes import LocalVolumes
from blocks.clusters.port import Session


class LocalSessions:
    """Sessions of one owner, `<root>/sessions/<owner>/<id>.json`.

    Args:
        root: the cluster's.
        owner: whose.
        volumes: the owner's volumes.
    """

    def __init__(self, root: Path, owner: str, volumes: LocalVolumes) -> None:
        self._directory = root / "sessions" / owner
        self._volumes = volumes

    def open(self, volume: str, writable: bool = True) -> Session:
        """As the port says. It ends with this process."""
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

    def list(self) -> list[Session]:
        return sorted(list_sessions(self._directory), key=lambda session: session.started_at)

    def stop(self, session_id: str) -> None:
        if all(session.id != session_id for session in self.list()):
            there = ", ".join(session.id for session in self.list()) or "none"
            raise NotFoundError(f"There is no session {session_id!r}.", f"Open sessions: {there}.")
        (self._directory / f"{session_id}.json").unlink(missing_ok=True)


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

"""Volumes of the local cluster: directories, with what is known of them beside, never inside.

A directory has no size of its own, so the size is on record but not enforced; the disk's free space is the limit.
"""

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from blocks.clusters.errors import ConflictError, InUseError, NotFoundError, UsageError
from blocks.clusters.local.files import locked, read_json, remove_tree, write_json
from blocks.clusters.names import check_name, meant
from blocks.clusters.size import check_size, format_size
from blocks.clusters.volume import Volume, VolumeStatus


class LocalVolumes:
    """Volumes of one owner, `<root>/volumes/<owner>/<name>`.

    Args:
        root: the cluster's.
        owner: whose.
        cluster: its name.
        used_by: returns volume name → what mounts it, as people name it ("job a", "session b").
    """

    def __init__(
        self, root: Path, owner: str, cluster: str, used_by: Callable[[], Mapping[str, Sequence[str]]]
    ) -> None:
        self._directory = root / "volumes" / owner
        self._reserve = root / "reserve"
        self._records = root / "records" / owner
        self._owner = owner
        self._cluster = cluster
        self._used_by = used_by

    def create(self, name: str, size: int) -> Volume:
        check_name("volume", name)
        check_size(size)
        with self.steady():
            if (record := read_json(self._record(name))) is not None:
                raise _conflict(name, record)
            path = self.path(name)
            # One that is there and empty was left by a create that was killed before it wrote the record.
            path.mkdir(parents=True, exist_ok=True)
            if any(path.iterdir()):
                raise ConflictError(
                    f"{path} is not empty, and no volume {name!r} is on record.",
                    "Move the directory away, or choose another name.",
                )
            record = {"size": size, "created_at": time.time(), "status": VolumeStatus.READY}
            write_json(self._record(name), record)
        return self._volume(name, record, {})

    def get(self, name: str) -> Volume:
        return self._volume(name, self._read(name), self._used_by())

    def list(self) -> list[Volume]:
        used_by = self._used_by()
        found = []
        for name in self._names():
            if (record := read_json(self._record(name))) is not None:
                found.append(self._volume(name, record, used_by))
        return found

    def grow(self, name: str, size: int) -> Volume:
        check_size(size)
        with self.steady():
            record = self._read(name)
            if size < record["size"]:
                raise UsageError(
                    f"The volume {name!r} has {format_size(record['size'])} and can not shrink to {format_size(size)}.",
                    "Ask for more than it has; for a smaller one, create a new volume and copy what you need.",
                )
            if record["status"] == VolumeStatus.DELETING:
                raise _conflict(name, record)
            if size > record["size"]:
                write_json(self._record(name), record := {**record, "size": size})
        return self._volume(name, record, self._used_by())

    def delete(self, name: str) -> None:
        """As the port says. Killed on its way, it is finished by the next delete of the name. Where a person has put a
        link in its place, what that leads to stays."""
        gone = self._directory / f".deleting.{name}"
        with self.steady():
            record = self._read(name)
            if users := self._used_by().get(name):
                raise InUseError(
                    f"The volume {name!r} is in use by {', '.join(users)}.", "Stop that first, or wait for its end."
                )
            write_json(self._record(name), {**record, "status": VolumeStatus.DELETING}, reserve=self._reserve)
            with contextlib.suppress(FileNotFoundError):
                (self._directory / name).rename(gone)
        remove_tree(gone)
        self._record(name).unlink(missing_ok=True)

    def path(self, name: str) -> Path:
        """Its directory; where a person has put a link in its place, the one that this leads to."""
        path = self._directory / name
        return path.resolve() if path.is_symlink() else path

    def check_mountable(self, name: str) -> Path:
        """Return a volume's directory.

        Raises:
            NotFoundError: there is none, or it is being deleted.
        """
        if self._read(name)["status"] == VolumeStatus.DELETING:
            raise NotFoundError(f"The volume {name!r} is being deleted.", "Choose another one.")
        return self.path(name)

    @contextlib.contextmanager
    def steady(self) -> Iterator[None]:
        """No volume of the owner comes, goes or gets a new user by anybody else's hand during the block."""
        with locked(self._records / ".lock"):
            yield

    def _record(self, name: str) -> Path:
        return self._records / f"{name}.json"

    def _names(self) -> tuple[str, ...]:
        return tuple(sorted(path.stem for path in self._records.glob("[!.]*.json")))

    def _read(self, name: str) -> dict[str, Any]:
        record = read_json(self._record(check_name("volume", name)))
        if record is None:
            raise NotFoundError(
                f"{self._owner!r} has no volume {name!r} on cluster {self._cluster!r}.",
                meant(name, self._names(), "Volumes"),
            )
        return record

    def _volume(self, name: str, record: dict[str, Any], used_by: Mapping[str, Sequence[str]]) -> Volume:
        return Volume(
            name=name,
            owner=self._owner,
            cluster=self._cluster,
            size=record["size"],
            actual_size=record["size"],
            status=record["status"],
            created_at=datetime.fromtimestamp(record["created_at"], UTC),
            used_by=tuple(used_by.get(name, ())),
        )


def _conflict(name: str, record: dict[str, Any]) -> ConflictError:
    if record["status"] == VolumeStatus.DELETING:
        return ConflictError(
            f"The volume {name!r} is being deleted.", "Wait; if its delete was killed, delete it again to finish."
        )
    return ConflictError(
        f"The volume {name!r} exists, with {format_size(record['size'])}.", "Use it, grow it, or choose another name."
    )

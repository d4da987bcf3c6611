"""The port that every cluster implements: volumes, jobs, sessions, and work beside the data.

Above this line nobody knows which cluster it is. Both clusters pass one shared test suite (`tests/blocks/clusters`).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import IO, Any, Literal, Protocol

from blocks.clusters.job import Frozen, Job, JobStatus, SecretRef
from blocks.clusters.volume import Volume


class Volumes(Protocol):
    """Volumes of one owner. Sizes in bytes; names are RFC 1123 labels."""

    def create(self, name: str, size: int) -> Volume:
        """Create a volume and return it, perhaps still provisioning.

        Raises:
            UsageError: bad name or size.
            ConflictError: it exists.
        """
        ...

    def get(self, name: str) -> Volume:
        """Raises: NotFoundError, naming the volumes there are."""
        ...

    def list(self) -> list[Volume]:
        """All volumes of the owner, by name."""
        ...

    def grow(self, name: str, size: int) -> Volume:
        """Ask for more room, in place. The same size is a no-op.

        Raises:
            UsageError: the size is smaller than now, or over the largest.
        """
        ...

    def delete(self, name: str) -> None:
        """Delete a volume and all that is on it.

        Raises:
            InUseError: it is provisioning, or a live job or a person's session mounts it; names them.
        """
        ...


class Jobs(Protocol):
    """Jobs of one owner. A job outlives the process that submitted it."""

    def submit(self, job: Job) -> JobStatus:
        """Create the job, or adopt the one of the same name and request hash, whatever its state.

        Raises:
            ConflictError: a job of that name has another request hash.
            NotFoundError: a volume or secret that it names does not exist.
            UsageError: it asks for more than the cluster has.
        """
        ...

    def status(self, names: Iterable[str]) -> dict[str, JobStatus]:
        """The named jobs that exist, in one look."""
        ...

    def find(self, labels: Mapping[str, str]) -> list[JobStatus]:
        """All jobs that carry these labels, oldest first."""
        ...

    def watch(self, labels: Mapping[str, str], timeout_seconds: float) -> Iterator[JobStatus]:
        """Yield each matching job as it is now, and again whenever it changes, until the time is over.

        A hint to look sooner: the truth comes from `status` and `find`.
        """
        ...

    def logs(self, name: str, since: datetime | None = None, last: int | None = None) -> Iterable[str]:
        """The job's lines so far (init command's first), without line ends; iterated again, those that came since then,
        as of an open file: what was read is not read again.

        Args:
            since: begin at this time.
            last: begin with so many of the last lines, of several nodes with so many of each.
        """
        ...

    def stop(self, name: str, grace_seconds: float = 30) -> JobStatus:
        """Ask the job to end, kill it after the grace time, and return its last state. Ended jobs stay as they are.

        Raises: NotFoundError.
        """
        ...

    def delete(self, name: str) -> None:
        """Forget an ended job, its log included. A missing one is fine. Raises: InUseError if it is live."""
        ...


class Session(Frozen):
    """A short-lived place with a volume mounted.

    Args:
        internal: opened by us for a look-up; never stands in the way of anything.
        reused: it was there already when it was asked for.
    """

    id: str
    volume: str
    writable: bool
    internal: bool
    started_at: datetime
    reused: bool = False


class Terminal(Protocol):
    """A program of a person in a session: bytes in and out, and how it ended."""

    def read(self) -> tuple[int, bytes] | None:
        """Wait for what it says: 1 (standard output, or the terminal) or 2 and the bytes; None at its end."""
        ...

    def write(self, content: bytes) -> None:
        """Give it bytes. Raises: BrokenPipeError: it reads no more."""
        ...

    def end_input(self) -> None:
        """There is no more to come. Without a terminal only; a terminal has control-D for that."""
        ...

    def resize(self, rows: int, columns: int) -> None: ...

    def wait(self) -> int:
        """Its exit code, once it has ended; 128 and the signal's number if one killed it.

        Raises:
            SlipwayError: the session, or the way to it, ended before it did.
        """
        ...

    def close(self) -> None: ...


class Sessions(Protocol):
    def open(self, volume: str, writable: bool = True, *, reuse: bool = False) -> Session:
        """Open a person's session.

        Args:
            reuse: one that is there will do: any for a reader, a writable one for a writer. The local cluster's belong
                to one process each and are never reused.

        Raises:
            NotFoundError: no such volume.
        """
        ...

    def attach(self, session_id: str, command: Sequence[str], size: tuple[int, int] | None) -> Terminal:
        """Start a program in a session.

        Args:
            command: a shell if it is empty.
            size: rows and columns of the terminal that it gets; None for pipes instead of a terminal.

        Raises:
            NotFoundError: no such session.
        """
        ...

    def leave(self, session: Session) -> None:
        """Stop a session that was opened for one use, unless somebody else uses it as well."""
        ...

    def list(self) -> list[Session]: ...

    def stop(self, session_id: str) -> None:
        """End a session. Raises: NotFoundError."""
        ...


class Stream(Protocol):
    """A program beside the data, with both ends of its pipes: `Cluster.stream`'s."""

    stdin: IO[bytes]
    stdout: IO[bytes]

    def result(self) -> dict[str, Any]:
        """Close stdin, wait for the end and return what the program answered.

        Raises:
            ProgramError: the program refused or failed.
        """
        ...


class Capacity(Frozen):
    """What the cluster has in all (not what is free now).

    Args:
        gpus: GPU kind → count; empty where there are none.
        scratch_free_bytes: what is free now where jobs have their scratch; None where that differs from node to node.
        node_cache_bytes: the limit of each node's cache for weights; None where nodes have none.
        is_all: False where nodes come on demand, or are not for us to see: there may be more than this.
    """

    cpus: float
    memory_bytes: int
    gpus: dict[str, int]
    scratch_free_bytes: int | None = None
    node_cache_bytes: int | None = None
    is_all: bool = True


class Finding(Frozen):
    """What a cluster can tell of a job before it is submitted.

    Args:
        subject: what it is about: "volume research", "quota".
        level: "blocked": it can never start so; "warning": it may have to wait; "note": worth knowing.
    """

    subject: str
    level: Literal["note", "warning", "blocked"]
    detail: str
    remedy: str = ""


class Cluster(Protocol):
    """A place that holds volumes and runs jobs, as one owner sees it."""

    @property
    def name(self) -> str: ...

    @property
    def owner(self) -> str: ...

    @property
    def poll_seconds(self) -> float:
        """How often to look while following a run, in seconds."""
        ...

    @property
    def volumes(self) -> Volumes: ...

    @property
    def jobs(self) -> Jobs: ...

    @property
    def sessions(self) -> Sessions: ...

    def call(
        self,
        volume: str | None,
        program: str,
        arguments: Mapping[str, Any],
        *,
        writable: bool = False,
        env: Mapping[str, str] | None = None,
        secrets: Mapping[str, SecretRef] | None = None,
        timeout_seconds: float = 600,
    ) -> dict[str, Any]:
        """Run a program of `tasks.pod.program` beside the data and return its JSON.

        Args:
            volume: the volume to mount at /volume; None for a program that needs none.
            program: a name from the table in `tasks.pod.program`.
            arguments: JSON for its standard input.
            writable: mount the volume writable.
            env, secrets: as in `Job`. A call with secrets gets a place of its own that nothing else sees.
            timeout_seconds: for the whole call.

        Raises:
            NotFoundError: no such volume.
            ProgramError: the program refused (its words and remedy) or failed (its last lines).
        """
        ...

    def stream(
        self,
        volume: str,
        program: str,
        arguments: Mapping[str, Any],
        *,
        writable: bool = False,
        session: str | None = None,
    ) -> AbstractContextManager[Stream]:
        """Like `call`, with the program's pipes open: bytes in, bytes out, then its answer.

        Args:
            session: a person's session of the volume to run it in; None for an internal one.

        Raises:
            ProgramError: of kind `CUT_OFF` where the way to it broke.
        """
        ...

    def capacity(self) -> Capacity: ...

    def preflight(self, job: Job, new_volumes: Mapping[str, int]) -> list[Finding]:
        """What would keep a job from starting, as far as can be told now. Makes nothing.

        Args:
            new_volumes: name → size in bytes of volumes that it mounts and that are still to be created.
        """
        ...

"""What to run, and what became of it. Says nothing about how: no pod, no process."""

from datetime import datetime
from enum import StrEnum
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from blocks.clusters.strict import Strict


class Frozen(Strict, BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class SecretRef(Frozen):
    """Where a secret is kept: never its value.

    On Kubernetes a Secret and its key; on the local cluster the environment variable `key` of whoever submits, else
    the file `<root>/secrets/<name>/<key>`.
    """

    name: str = Field(description="Of the Secret; locally a folder in the cluster's secrets.")
    key: str = Field(description="In it, and locally the environment variable that is looked at first.")


class Mount(Frozen):
    """One volume, or a directory of it, at a path inside the job."""

    volume: str
    mount_path: str = "/volume"
    sub_path: str = ""
    read_only: bool = True


class Job(Frozen):
    """One launch. Paths in `command`, `init_command` and `env` are the container's (`/volume/…`, `/scratch/…`).

    Args:
        name: an RFC 1123 label, unique among the owner's jobs.
        request_hash: what was asked for; a job of the same name with another hash is another job, and an error.
        image: a container image; None for our own. The local cluster has no images and runs what is installed.
        command: program and arguments; `python` is the image's interpreter with this project importable.
        init_command: the same in our own image, run to its end before `command` with every mount writable; its
            failure is the job's; its exit code 75 says that this job has begun before and a new one should be made. In
            a job that a queue may take back and start again it has `SLIPWAY_QUEUE`, the queue's name.
        env: environment of both; never a secret.
        secrets: environment variables whose values the cluster looks up when the job starts.
        mounts: volumes; nested mounts go from the outermost in.
        scratch_bytes: room wanted at `/scratch`, private to the job and gone with it; None for no limit.
        cpus: CPU cores (may be a fraction).
        memory_bytes: None for no limit.
        gpus: GPUs a node.
        gpu_kind: None for any.
        deadline_seconds: time from its start (not from its queueing) after which it is stopped; None for none.
        node_cache: the init command and the command see the node's cache for weights, which runs of the node share, at
            `/node-cache`, with `SLIPWAY_NODE_CACHE`, `SLIPWAY_NODE_CACHE_BYTES` and `SLIPWAY_ALIVE`: a file that stays
            locked (flock) for as long as the job lives; and with `SLIPWAY_NODE`, the node's name.
        preferred_nodes: names of nodes that are better than others. No job waits for one.
        labels: for `Jobs.find`; values up to 63 characters.
    """

    name: str
    request_hash: str
    command: tuple[str, ...]
    init_command: tuple[str, ...] = ()
    image: str | None = None
    env: dict[str, str] = Field(default_factory=dict)
    secrets: dict[str, SecretRef] = Field(default_factory=dict)
    mounts: tuple[Mount, ...] = ()
    scratch_bytes: int | None = None
    cpus: float = 1
    memory_bytes: int | None = None
    gpus: int = 0
    gpu_kind: str | None = None
    nodes: int = 1
    deadline_seconds: int | None = None
    node_cache: bool = False
    preferred_nodes: tuple[str, ...] = ()
    labels: dict[str, str] = Field(default_factory=dict)
    queue: str | None = None


class JobState(StrEnum):
    QUEUED = "queued"  # waits for slots, quota or a queue
    STARTING = "starting"  # image, volume, init command
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    STOPPED = "stopped"  # by us, on request
    LOST = "lost"  # its process or node is gone and nobody saw how it ended

    @property
    def live(self) -> bool:
        return self in (JobState.QUEUED, JobState.STARTING, JobState.RUNNING)


class Cause(StrEnum):
    """Why a job ended. `infrastructure` causes say nothing about the program: a new attempt may well work."""

    COMPLETED = "completed"
    EXIT = "exit"  # the program's own non-zero exit
    SIGNAL = "signal"  # killed by a signal that was not ours
    OUT_OF_MEMORY = "out of memory"
    DEADLINE = "deadline"
    EVICTED = "evicted"
    INIT = "init"  # the init command failed
    START = "start"  # could not be started: image, command not found, volume
    STOPPED = "stopped"
    LOST = "lost"

    @property
    def infrastructure(self) -> bool:
        return self in (Cause.EVICTED, Cause.LOST)


class JobStatus(Frozen):
    """What a cluster knows of one job.

    Args:
        uid: tells two jobs of one name apart.
        reason: while it waits, what for; once it has ended, why, in one sentence.
        cause: None until it has ended.
        exit_code: of the program; None while live and where nobody saw it.
        last_lines: the end of its log, once it has ended badly.
        unstarted: queued, and whoever submitted it did not come to start it: whoever wants it submits it again.
    """

    name: str
    uid: str
    request_hash: str
    state: JobState
    reason: str = ""
    cause: Cause | None = None
    exit_code: int | None = None
    submitted_at: datetime
    started_at: datetime | None = None
    ended_at: datetime | None = None
    labels: dict[str, str] = Field(default_factory=dict)
    mounts: tuple[Mount, ...] = ()
    image_digest: str | None = None
    last_lines: tuple[str, ...] = ()
    unstarted: bool = False

    @property
    def live(self) -> bool:
        return self.state.live

    def to_json(self) -> dict[str, Any]:
        return self.model_dump(mode="json")

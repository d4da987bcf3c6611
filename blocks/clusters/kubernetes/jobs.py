"""Jobs of one namespace: one batch/v1 Job a launch, or a JobSet of one, created once, adopted by everyone who asks."""

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from blocks.clusters.errors import ConflictError, InUseError, NotFoundError, SlipwayError
from blocks.clusters.job import Cause, Job, JobState, JobStatus
from blocks.clusters.kubernetes import gang, manifests, rendezvous
from blocks.clusters.kubernetes import labels as marks
from blocks.clusters.kubernetes.api import Api, ApiError
from blocks.clusters.kubernetes.check import check_claims, check_job, check_names, check_room, check_secrets
from blocks.clusters.kubernetes.exec import execute
from blocks.clusters.kubernetes.jobset import is_jobset, parent
from blocks.clusters.kubernetes.labels import claim_label, selector
from blocks.clusters.kubernetes.left import is_left
from blocks.clusters.kubernetes.log import JobLog
from blocks.clusters.kubernetes.observe import Observer, has_labels, names_selector
from blocks.clusters.kubernetes.place import Place
from blocks.clusters.kubernetes.pods import STOP_GRACE_SECONDS
from blocks.clusters.kubernetes.settings import KubernetesSettings
from blocks.clusters.kubernetes.times import write_time
from blocks.clusters.kubernetes.workloads import Workloads
from blocks.clusters.port import Capacity

Json = dict[str, Any]

_LOOK_SECONDS = 0.25
_TOLD_SECONDS = 2
"""What a kubelet needs to hear of it."""


class KubernetesJobs:
    """Jobs of one owner.

    Args:
        claim: a volume's claim by name; raises NotFoundError.
        nodes: what each node has; empty where that is not known, or does not matter.
        make_way: called with a job and those of its volumes that only one node can mount, before it is made.
    """

    def __init__(
        self,
        api: Api,
        place: Place,
        settings: KubernetesSettings,
        workloads: Workloads,
        *,
        claim: Callable[[str], Json],
        nodes: Callable[[], list[Capacity]],
        make_way: Callable[[Job, Iterable[str]], None],
    ) -> None:
        self._api = api
        self._place = place
        self._settings = settings
        self._claim = claim
        self._nodes = nodes
        self._make_way = make_way
        self._workloads = workloads
        self._observer = Observer(api, place, settings, workloads)

    def submit(self, job: Job) -> JobStatus:
        check_job(job)
        there = self._settled(job.name)
        if there is None:
            check_room(job, self._nodes())
            single = check_claims({mount.volume for mount in job.mounts}, self._claim, job.nodes)
            check_secrets(job.secrets, self._api, self._place)
            as_jobset = self._workloads.as_jobset(job)
            if job.nodes > 1:
                check_names(job.name, self._api, self._place, as_jobset=as_jobset)
            self._make_way(job, single)
            now = datetime.now(UTC).isoformat(timespec="microseconds")
            try:
                made = self._workloads.create(manifests.job(job, self._settings, single, now, as_jobset=as_jobset))
            except ApiError as error:
                if error.status != 409:
                    raise
                there = self._settled(job.name)  # somebody else was quicker, or our own request that seemed lost
            else:
                self._meet(made)
                return self._observer.status(made, [])
        return self._adopt(job, there)

    def status(self, names: Iterable[str]) -> dict[str, JobStatus]:
        wanted = set(names)
        if not wanted:
            return {}
        found = self._observer.look(names_selector(sorted(wanted)))
        return {status.name: status for status in found if status.name in wanted}

    def find(self, labels: Mapping[str, str]) -> list[JobStatus]:
        found = self._observer.look(self._selector(labels))
        return [status for status in found if has_labels(status, labels)]

    def watch(self, labels: Mapping[str, str], timeout_seconds: float) -> Iterator[JobStatus]:
        """As the port says: lists, and a watch between two lists that says when to look again.

        Whatever ends the watch (a timeout, a lost connection, an expired version), the next list puts it right.
        """
        until = time.monotonic() + timeout_seconds
        seen: dict[str, JobStatus] = {}
        while True:
            with contextlib.suppress(SlipwayError):
                for status in self.find(labels):
                    if seen.get(status.name) != status:
                        seen[status.name] = status
                        yield status
            left = until - time.monotonic()
            if left <= 0:
                return
            self._wait_for_change(labels, min(left, self._settings.poll_seconds))

    def logs(self, name: str, since: datetime | None = None, last: int | None = None) -> JobLog:
        return JobLog(self._api, self._place, lambda: self._get(name)[1], since, last)

    def stop(self, name: str, grace_seconds: float = STOP_GRACE_SECONDS) -> JobStatus:
        """As the port says. The pod stays, with its log; it has `STOP_GRACE_SECONDS` at most.

        A pod that has not been placed has no log to keep: its Job is suspended, for good, as is one that a queue has
        suspended. A pod that has been placed is told to end by a deadline that is over, which makes its kubelet end it
        in the usual way, without anything being deleted.
        """
        job, pods = self._get(name)
        status = self._observer.status(job, pods)
        if not status.live:
            return status
        if is_left(job):
            return self._stop_left(job, pods, grace_seconds)
        asked = {marks.STOP: write_time(datetime.now(UTC))}
        with _unless_over():
            self._workloads.note(job, asked, end=_can_begin(job, pods))
        kill_at = time.monotonic() + grace_seconds + (_TOLD_SECONDS if grace_seconds else 0)
        delete_at = kill_at + 15
        told: list[bool] = []
        while True:
            job, pods = self._get(name)
            status = self._observer.status(job, pods)
            if not status.live and not any(map(_running_containers, pods)):  # of one that a queue has just taken back
                return status
            paths = [self._place.pod(pod["metadata"]["name"]) for pod in pods]
            if _can_begin(job, pods) and status.live:
                with _unless_over():
                    self._workloads.note(job, asked, end=True)
            elif not told:
                told = [self._tell(path) for path in paths]
            elif time.monotonic() >= delete_at:
                for path in paths:
                    self._api.delete(path, grace_seconds=0)
            elif time.monotonic() >= kill_at:
                for pod in pods:
                    self._kill(pod)
            if time.monotonic() > delete_at + 30:
                return status
            time.sleep(_LOOK_SECONDS)

    def _stop_left(self, job: Json, pods: list[Json], grace_seconds: float) -> JobStatus:
        """Of a job that was deleted under its pods: they end as their kubelet hears of it, and are gone then."""
        name = job["metadata"]["name"]
        for pod in pods:
            path = self._place.pod(pod["metadata"]["name"])
            self._api.delete(path, grace_seconds=max(1, round(min(grace_seconds, STOP_GRACE_SECONDS))))
        status = self._observer.status(job, pods)
        until = time.monotonic() + STOP_GRACE_SECONDS + 30
        while status.live:
            found = self._observer.look_at(name)
            if found is None:
                return status.model_copy(
                    update={"state": JobState.STOPPED, "cause": Cause.STOPPED, "reason": "Stopped on request."}
                )
            status = self._observer.status(*found)
            if time.monotonic() > until or not is_left(found[0]):
                break
            time.sleep(_LOOK_SECONDS)
        return status

    def delete(self, name: str) -> None:
        found = self._observer.look_at(name)
        if found is None:
            return
        status = self._observer.status(*found)
        if status.live:
            raise InUseError(f"The job {name!r} is {status.state}.", "Stop it first.")
        self._workloads.delete(found[0])

    def forget_pods(self, volume: str) -> None:
        """Delete the pods of ended jobs that name a volume."""
        self._observer.forget_pods(f"{marks.KIND},{claim_label(volume)}=mounted")

    def _settled(self, name: str) -> JobStatus | None:
        """The job of that name; one that is being deleted is waited for, with its pods."""
        for _ in range(240):
            job = self._workloads.find(name)
            if job is not None and not _is_ours(job, name):
                kind = job.get("kind") or "Job"
                raise ConflictError(f"{name!r} is the name of a {kind} that is not Slipway's.", "Choose another name.")
            if job is None or not job["metadata"].get("deletionTimestamp"):
                found = self._observer.look_at(name)
                if found is None:
                    return None
                status = self._observer.status(*found)
                if not is_left(found[0]):
                    return status
                if not status.live:  # on a node that does not answer
                    return None
            time.sleep(_LOOK_SECONDS)
        raise ConflictError(
            f"A job {name!r} is being deleted and does not go.", "Look at its finalizers, and at its pods."
        )

    def _meet(self, made: Json) -> None:
        """Make the name under which the pods of several nodes find each other; it goes with their job.

        JobSet makes its own.
        """
        if gang.size(made) > 1 and not is_jobset(made):
            try:
                self._api.post(self._place.services(), rendezvous.service(made))
            except ApiError as error:
                if error.status != 409:
                    raise

    def _adopt(self, job: Job, there: JobStatus | None) -> JobStatus:
        if there is None:
            raise ConflictError(f"The job {job.name!r} was deleted while it was submitted.", "Submit it again.")
        if there.request_hash != job.request_hash:
            raise ConflictError(
                f"A job {job.name!r} exists that was asked for differently.",
                "Choose another name, or delete that job first.",
            )
        if job.nodes > 1 and there.live and (made := self._workloads.find(job.name)):
            self._meet(made)  # whoever submitted it may have died before that
        return there

    def _get(self, name: str) -> tuple[Json, list[Json]]:
        found = self._observer.look_at(name)
        if found is None:
            raise NotFoundError(f"There is no job {name!r}.", "It may have been deleted.")
        return found

    def _selector(self, labels: Mapping[str, str]) -> str:
        return selector({**labels, **marks.OURS, marks.KIND: "job"})

    def _wait_for_change(self, labels: Mapping[str, str], seconds: float) -> None:
        started = time.monotonic()
        query = {"labelSelector": self._selector(labels), "resourceVersion": "0"}
        seen: set[str] = set()
        for event in self._api.watch(self._place.pods(), query, seconds):
            name = event.get("object", {}).get("metadata", {}).get("name", "")
            # The first event of each pod is how it was: only a second one is a change.
            if event.get("type") != "ADDED" or time.monotonic() - started > 1 or name in seen:
                return
            seen.add(name)
        if time.monotonic() - started < 0.5:  # the server is away: no storm of requests
            time.sleep(min(seconds, 1))

    def _kill(self, pod: Json) -> None:
        """End what runs without deleting the pod: a deleted pod takes its log with it."""
        for container in _running_containers(pod):
            with contextlib.suppress(SlipwayError, OSError):
                execute(self._api, self._place, pod["metadata"]["name"], container, ["sh", "-c", "kill -9 -1"], b"", 10)

    def _tell(self, pod: str) -> bool:
        """Tell a pod to end, by a deadline that is over."""
        with _unless_over():
            self._api.patch(pod, {"spec": {"activeDeadlineSeconds": 1}})
        return True


@contextlib.contextmanager
def _unless_over() -> Iterator[None]:
    """Of a change that comes too late: what it is of is gone, or over."""
    try:
        yield
    except ApiError as error:
        if error.status not in (404, 422):
            raise


def _can_begin(job: Json, pods: list[Json]) -> bool:
    """Whether pods of it are still to come to a node: now, or once a queue starts it again."""
    placed = len(pods) == gang.size(job) and all(pod["spec"].get("nodeName") for pod in pods)
    return bool(job["spec"].get("suspend")) or not placed


def _is_ours(job: Json, name: str) -> bool:
    labels = job["metadata"].get("labels") or {}
    return labels.get(marks.KIND) == "job" and labels.get(marks.NAME) == name and not parent(job)


def _running_containers(pod: Json) -> list[str]:
    return [
        container["name"]
        for key in ("initContainerStatuses", "containerStatuses")
        for container in pod["status"].get(key) or ()
        if "running" in (container.get("state") or {})
    ]

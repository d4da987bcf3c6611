"""Jobs and their pods, as the API server has them, in the port's words."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from blocks.clusters.job import JobStatus, Mount
from blocks.clusters.kubernetes import gang, left
from blocks.clusters.kubernetes import labels as marks
from blocks.clusters.kubernetes.api import Api, ApiError
from blocks.clusters.kubernetes.diagnosis import Diagnosis, diagnose
from blocks.clusters.kubernetes.jobset import uids
from blocks.clusters.kubernetes.labels import selector
from blocks.clusters.kubernetes.place import Place
from blocks.clusters.kubernetes.said import Said
from blocks.clusters.kubernetes.settings import KubernetesSettings
from blocks.clusters.kubernetes.times import read_time
from blocks.clusters.kubernetes.workloads import Workloads

Json = dict[str, Any]


class Observer:
    """Looks at jobs: one list of Jobs and one of pods, however many there are.

    What Kubernetes would wait for in vain is ended by whoever looks, and stays on record on the Job.
    """

    def __init__(self, api: Api, place: Place, settings: KubernetesSettings, workloads: Workloads) -> None:
        self._api = api
        self._place = place
        self._settings = settings
        self._workloads = workloads

    def look(self, wanted: str) -> list[JobStatus]:
        """All jobs that a label selector selects, oldest first.

        Args:
            wanted: a label selector, of Jobs and pods alike.
        """
        jobs = self._workloads.items(wanted)
        pods = self._pods(wanted)
        by_owner, said = _by_owner(pods), Said(self._api, self._place)
        found = [(job, _of(job, by_owner)) for job in jobs]
        found += [(job, gang.newest(theirs)) for job, theirs in self._left(pods, jobs)]
        return [self.status(job, theirs, said) for job, theirs in sorted(found, key=lambda pair: _age(pair[0]))]

    def look_at(self, name: str) -> tuple[Json, list[Json]] | None:
        """A Job of ours and its pods, one a node, or what stands for pods that have none (`left.stand_in`)."""
        job = self._workloads.find(name)
        if job is not None and (job["metadata"].get("labels") or {}).get(marks.KIND) != "job":
            return None
        wanted = selector({**marks.OURS, marks.KIND: "job", marks.NAME: name})
        pods = self._pods(wanted)
        if job is not None:
            return job, _of(job, _by_owner(pods))
        if pods:
            self._workloads.items(wanted)  # which ends the Job that a JobSet has left
        return next(((stand_in, gang.newest(theirs)) for stand_in, theirs in self._left(pods, ())), None)

    def _left(self, pods: Sequence[Json], jobs: Sequence[Json]) -> list[tuple[Json, list[Json]]]:
        """What stands for pods whose Job was deleted, and these pods; they are told to end.

        For as long as one may still run its program, another attempt must not begin.
        """
        found = []
        for name, theirs in left.left(pods, jobs).items():
            now = self._workloads.find(name)  # it may have been made between the two lists
            theirs = [pod for pod in theirs if now is None or not left.owners(pod) & uids(now)]
            for pod in theirs:
                if not pod["metadata"].get("deletionTimestamp"):
                    self._api.delete(self._place.pod(pod["metadata"]["name"]), uid=pod["metadata"]["uid"])
            if now is None and (stand_in := left.stand_in(name, theirs)):
                found.append((stand_in, theirs))
        return found

    def status(self, job: Json, pods: Sequence[Json], said: Said | None = None) -> JobStatus:
        """How a job goes.

        Args:
            pods: its pods, one a node.
            said: of all jobs of the namespace, for this look.
        """
        said = said or Said(self._api, self._place)
        found, pod = self._together(job, pods, lambda pod: ())
        if left.is_left(job):
            return job_status(job, pod, replace(found, reason=left.REASON) if found.state.live else found)
        if found.unexplained:
            found, pod = self._together(job, pods, lambda pod: [e for e in said.warnings if _is_about(e, pod or job)])
        if found.queued and (why := said.waits.get(job["metadata"]["uid"])):
            found = replace(found, reason=f"{found.reason}: {why}")
        if found.give_up:
            self._write_end(job, found, end=True)
        elif found.fleeting:
            now = self._workloads.find(job["metadata"]["name"]) or job
            if now["spec"].get("suspend") and not job["spec"].get("suspend"):  # a queue took it back between two looks
                return self.status(now, [], said)
            self._write_end(job, found)
        return job_status(job, pod, found)

    def _together(
        self, job: Json, pods: Sequence[Json], events: Callable[[Json | None], Sequence[Json]]
    ) -> tuple[Diagnosis, Json | None]:
        now = datetime.now(UTC)
        return gang.together(job, pods, lambda pod: diagnose(job, pod, self._settings, now, events(pod)))

    def _pods(self, wanted: str) -> list[Json]:
        """Oldest first."""
        pods = self._api.items(self._place.pods(), {"labelSelector": wanted})
        return sorted(pods, key=lambda pod: str(pod["metadata"]["creationTimestamp"]))

    def forget_pods(self, wanted: str) -> None:
        """Delete the pods of ended jobs, which keep a claim alive; how they ended stays on record on their Jobs.

        Args:
            wanted: a label selector of pods.
        """
        for pod in self._api.items(self._place.pods(), {"labelSelector": wanted}):
            if pod["status"].get("phase") not in ("Succeeded", "Failed"):
                continue
            name = (pod["metadata"].get("labels") or {}).get(marks.NAME)
            if found := self.look_at(name) if name else None:
                diagnosis, _ = self._together(*found, lambda pod: ())
                self._write_end(found[0], diagnosis)
            self._api.delete(self._place.pod(pod["metadata"]["name"]), grace_seconds=0)

    def _write_end(self, job: Json, found: Diagnosis, *, end: bool = False) -> None:
        """Write down how a job ended, and end it where it has not. Doing it twice is harmless."""
        assert found.cause is not None
        said = {
            "state": found.state,
            "cause": found.cause,
            "reason": found.reason,
            "exit_code": found.exit_code,
            "last_lines": found.last_lines,
        }
        try:
            self._workloads.note(job, {marks.END: json.dumps(said)}, end=end)
        except ApiError as error:
            if error.status not in (404, 403, 422) and error.status < 500:
                raise


def job_status(job: Json, pod: Json | None, found: Diagnosis) -> JobStatus:
    metadata, annotations = job["metadata"], job["metadata"].get("annotations") or {}
    status = (pod or {}).get("status") or {}
    submitted = read_time(metadata["creationTimestamp"])
    assert submitted is not None
    mounts = json.loads(annotations.get(marks.MOUNTS, "[]"))
    return JobStatus(
        name=metadata["name"],
        uid=metadata["uid"],
        request_hash=annotations.get(marks.REQUEST_HASH, ""),
        state=found.state,
        reason=found.reason,
        cause=found.cause,
        exit_code=found.exit_code,
        submitted_at=submitted,
        started_at=read_time(status.get("startTime")) or (_job_start(job) if found.exit_code == 0 else None),
        ended_at=None if found.state.live else _ended_at(job, status),
        labels=json.loads(annotations.get(marks.LABELS, "{}")),
        mounts=tuple(Mount.model_validate(mount) for mount in mounts),
        image_digest=_digest(status),
        last_lines=found.last_lines,
    )


def _age(job: Json) -> tuple[str, str, str]:
    """The server's clock decides, and within one of its seconds the submitters'."""
    metadata = job["metadata"]
    submitted = (metadata.get("annotations") or {}).get(marks.SUBMITTED, "")
    return metadata["creationTimestamp"], submitted, metadata["name"]


def _by_owner(pods: Sequence[Json]) -> dict[str, list[Json]]:
    """UID of a Job → its pods, one a node.

    Args:
        pods: oldest first.
    """
    found: dict[str, list[Json]] = {}
    for pod in pods:
        for owner in left.owners(pod):
            found.setdefault(owner, []).append(pod)
    return {uid: gang.newest(theirs) for uid, theirs in found.items()}


def _of(job: Json, pods: Mapping[str, list[Json]]) -> list[Json]:
    """The pods of a job among those of all."""
    return [pod for uid in uids(job) for pod in pods.get(uid, ())]


def _is_about(event: Json, thing: Json) -> bool:
    return (event.get("involvedObject") or {}).get("uid") in uids(thing)


def has_labels(status: JobStatus, labels: Mapping[str, str]) -> bool:
    """Labels select by cleaned values; two raw values may clean to one."""
    return labels.items() <= status.labels.items()


def names_selector(names: Sequence[str]) -> str:
    base = selector({**marks.OURS, marks.KIND: "job"})
    if len(names) > 50:  # a URL has its limits: ask for all
        return base
    return f"{base},{marks.NAME} in ({','.join(sorted(names))})"


def _job_start(job: Json) -> datetime | None:
    return read_time((job.get("status") or {}).get("startTime"))


def _ended_at(job: Json, status: Json) -> datetime | None:
    ends = [
        (s.get("state") or {}).get("terminated", {}).get("finishedAt")
        for key in ("initContainerStatuses", "containerStatuses")
        for s in status.get(key) or ()
    ]
    conditions = (job.get("status") or {}).get("conditions") or ()
    times = _times(ends) or _times(
        c.get("lastTransitionTime") for c in conditions if c["type"] in ("Complete", "Failed", "Suspended")
    )
    return max(times, default=None)


def _times(texts: Iterable[str | None]) -> list[datetime]:
    return [time for text in texts if (time := read_time(text)) is not None]


def _digest(status: Json) -> str | None:
    for container in status.get("containerStatuses") or ():
        if container.get("name") == "main" and container.get("imageID"):
            return str(container["imageID"])
    return None

"""The Jobs of one namespace as the API server keeps them: Jobs, and JobSets where a job of several nodes is one."""

import time
from collections.abc import Iterable, Mapping
from typing import Any

from blocks.clusters.errors import SlipwayError, UsageError
from blocks.clusters.job import Job
from blocks.clusters.kubernetes import labels as marks
from blocks.clusters.kubernetes.api import Api, ApiError
from blocks.clusters.kubernetes.jobset import (
    API_VERSION,
    NEVER,
    child_name,
    is_child,
    is_jobset,
    is_made,
    jobset_name,
    parent,
    unwrap,
)
from blocks.clusters.kubernetes.place import JOBSETS, MAY_I, Place
from blocks.clusters.kubernetes.settings import KubernetesSettings

Json = dict[str, Any]

_KEEP_SECONDS = 60
_NO_QUEUE = "stopped-by-slipway"
"""Where what is not to begin waits: there is none of that name."""


class Workloads:
    """Finds and changes Jobs, whichever object stands for them; one of a JobSet is as `jobset.unwrap` gives it."""

    def __init__(self, api: Api, place: Place, settings: KubernetesSettings) -> None:
        self._api = api
        self._place = place
        self._settings = settings
        self._why_not = ""
        self._asked_at = float("-inf")

    def as_jobset(self, job: Job) -> bool:
        """Whether a job is to be made as a JobSet.

        Raises:
            UsageError: the settings say always, and it can not be.
            SlipwayError: it is one, which is not for us any more.
        """
        if job.nodes == 1:
            return False
        why_not = self._no_jobsets(again=True)  # two that submit the same job have to say the same
        if why_not:
            self._check_children([self._api.find(self._place.job(child_name(job.name)))], why_not)
        if self._settings.jobset == "never":
            return False
        if why_not and self._settings.jobset == "always":
            raise UsageError(
                f"The job {job.name!r} of {job.nodes} nodes is to be a JobSet (jobset is always), and {why_not}.",
                "Mend that, or set jobset to auto in the cluster's settings.",
            )
        return not why_not

    def items(self, wanted: str) -> list[Json]:
        """Those that a label selector selects.

        Raises:
            SlipwayError: there are JobSets among them, which are not for us any more.
        """
        query = {"labelSelector": wanted}
        jobs = self._api.items(self._place.jobs(), query)  # first: a JobSet without its Job is one that waits for it
        found = [job for job in jobs if not is_child(job)]
        children = [job for job in jobs if is_child(job)]
        if why_not := self._no_jobsets(again=bool(children and self._why_not)):
            self._check_children(children, why_not)
            jobsets = []
        else:
            jobsets = self._jobsets(query)
        by_parent = {parent(job): job for job in children}
        self._end_left(children, {jobset["metadata"]["uid"] for jobset in jobsets})
        return found + [unwrap(jobset, by_parent.get(jobset["metadata"]["uid"])) for jobset in jobsets]

    def _end_left(self, children: Iterable[Json], there: set[str]) -> None:
        """Delete the Jobs of JobSets that are gone: nobody else does where JobSet was taken away or let go of them."""
        for job in children:
            if parent(job) not in there and not job["metadata"].get("deletionTimestamp"):
                self._api.delete(self._place.job(job["metadata"]["name"]), uid=job["metadata"]["uid"])

    def _check_children(self, children: Iterable[Json | None], why_not: str) -> None:
        """Raises: SlipwayError: a JobSet has made one of them. To pass it over would be to start its run once more."""
        of_jobsets = sorted(child["metadata"]["name"] for child in children if child and parent(child))
        if of_jobsets and self._api.find(JOBSETS) is not None:
            raise SlipwayError(
                f"The Jobs {', '.join(of_jobsets)} are of JobSets, and {why_not}.",
                "Ask whoever runs the cluster for the rights on jobsets of the role slipway; see docs/kubernetes.md.",
            )

    def _jobsets(self, query: Mapping[str, str]) -> list[Json]:
        try:
            return self._api.items(self._place.jobsets(), query)
        except ApiError as error:
            if error.status != 404:
                raise
            self._asked_at = float("-inf")  # JobSet was taken away, with all that there were
            return []

    def find(self, name: str) -> Json | None:
        """The one of that name, ours or not; None if there is none."""
        job = self._api.find(self._place.job(name))
        if job is not None or self._no_jobsets():
            return job
        jobset = self._api.find(self._place.jobset(jobset_name(name)))
        if jobset is None or (jobset["metadata"].get("labels") or {}).get(marks.NAME) != name:
            return jobset
        child = self._api.find(self._place.job(child_name(name)))
        return unwrap(jobset, child if child and parent(child) == jobset["metadata"]["uid"] else None)

    def create(self, made: Json) -> Json:
        """Make a Job or a JobSet, as `manifests.job` gives it.

        Raises:
            ApiError: the API server refuses; 409 where there is one.
        """
        if is_jobset(made):
            return unwrap(self._api.post(self._place.jobsets(), made), None)
        return self._api.post(self._place.jobs(), made)

    def note(self, job: Json, annotations: Mapping[str, str], *, end: bool = False) -> None:
        """Write something down on it.

        Args:
            end: and suspend it for good, and have it leave its queue, where others wait for their turn. A queue that
                starts it all the same gets no pod of it. It is done once `jobset.is_held` says so: what is to come of a
                JobSet can not be told.
        """
        change: Json = {"metadata": {"annotations": dict(annotations)}}
        if not is_jobset(job) or not is_made(job):
            if end:
                change["spec"] = {"suspend": True} if is_jobset(job) else {"suspend": True, **NEVER}
            self._api.patch(self._path(job), change)
        else:
            self._note_made(job, change, end=end)
        if end and marks.QUEUE in (job["metadata"].get("labels") or {}):
            self._leave_queue(job)

    def _note_made(self, jobset: Json, change: Json, *, end: bool) -> None:
        """On a JobSet that has its Job. Where JobSet's controller is away, nothing that its webhook has to see can be
        changed: then it is written on the Job."""
        child = self._place.job(child_name(jobset["metadata"]["name"]))
        whole = change | ({"spec": {"suspend": True}} if end else {})
        try:
            self._api.patch(self._path(jobset), whole, patience_seconds=0)
        except SlipwayError as error:
            if isinstance(error, ApiError) and error.status < 500:
                raise
            self._api.patch(child, change | ({"spec": {"suspend": True, **NEVER}} if end else {}))
            return
        if end:
            self._api.patch(child, {"spec": NEVER})

    def _leave_queue(self, job: Json) -> None:
        """Give it another queue, which is how Kueue lets go of a job: it would be admitted in its turn, and for that
        keep others waiting or have them preempted. Kueue refuses this of one that it has just admitted."""
        try:
            self._api.patch(self._path(job), {"metadata": {"labels": {marks.QUEUE: _NO_QUEUE}}})
        except ApiError as error:
            if error.status not in (403, 404, 422) and error.status < 500:
                raise

    def delete(self, job: Json) -> None:
        """Delete this one, and no later one of its name; what it made goes with it."""
        self._api.delete(self._path(job), uid=job["metadata"]["uid"])

    def _path(self, job: Json) -> str:
        name = job["metadata"]["name"]
        return self._place.jobset(jobset_name(name)) if is_jobset(job) else self._place.job(name)

    def _no_jobsets(self, *, again: bool = False) -> str:
        """Why there are no JobSets for us; empty if there are. Asked once a minute, or again."""
        if again or time.monotonic() - self._asked_at > _KEEP_SECONDS:
            self._why_not = self._ask()
            self._asked_at = time.monotonic()
        return self._why_not

    def _ask(self) -> str:
        group, _ = API_VERSION.split("/")
        asked = {"namespace": self._place.owner, "group": group, "resource": "jobsets", "verb": "create"}
        try:
            if self._api.find(JOBSETS) is None:
                return f"the cluster does not serve {API_VERSION}"
            if self._api.post(MAY_I, {"spec": {"resourceAttributes": asked}})["status"]["allowed"]:
                return ""
        except ApiError as error:
            if error.status != 403:  # not everybody may ask that
                raise
        return f"this user may not create jobsets in the namespace {self._place.owner}"

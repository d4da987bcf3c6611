"""What can be told of a job before it is submitted: whether the cluster would take it, and where it could go.

Every question is asked of the API server. What this user may not look at is left out, because whoever may launch runs
need not be allowed to look at nodes and persistent volumes.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from blocks.clusters.errors import SlipwayError
from blocks.clusters.job import Job
from blocks.clusters.kubernetes import manifests
from blocks.clusters.kubernetes.api import Api, ApiError
from blocks.clusters.kubernetes.check import check_claims, check_job, check_room, check_secrets, fits
from blocks.clusters.kubernetes.labels import claim_label
from blocks.clusters.kubernetes.nodes import Nodes
from blocks.clusters.kubernetes.place import Place, persistent_volume
from blocks.clusters.kubernetes.quantity import read_quantity
from blocks.clusters.kubernetes.reach import reaches
from blocks.clusters.kubernetes.settings import KubernetesSettings
from blocks.clusters.kubernetes.users import who
from blocks.clusters.kubernetes.workloads import Workloads
from blocks.clusters.port import Finding

Json = dict[str, Any]

_QUOTA = re.compile(
    r"exceeded quota: (?P<name>[^,]+), requested: (?P<asked>.*), used: (?P<used>.*), limited: (?P<limit>.*)"
)


class Preflight:
    """Looks at a job that is not there yet.

    Args:
        claim: a volume's claim by name; raises NotFoundError.
    """

    def __init__(
        self,
        api: Api,
        place: Place,
        settings: KubernetesSettings,
        nodes: Nodes,
        workloads: Workloads,
        *,
        claim: Callable[[str], Json],
    ) -> None:
        self._api = api
        self._place = place
        self._settings = settings
        self._nodes = nodes
        self._workloads = workloads
        self._claim = claim

    def look(self, job: Job, new_volumes: Mapping[str, int]) -> list[Finding]:
        """As the port's `preflight`."""
        found: list[Finding] = []
        mounted = {mount.volume for mount in job.mounts} - set(new_volumes)
        single: list[str] = []
        checks: tuple[Callable[[], object], ...] = (
            lambda: check_job(job),
            lambda: check_secrets(job.secrets, self._api, self._place),
            lambda: single.extend(check_claims(mounted, self._claim, job.nodes)),
            lambda: check_room(job, self._nodes.limits()),
            lambda: self._workloads.as_jobset(job),
        )
        for check in checks:
            try:
                check()
            except SlipwayError as error:
                found.append(Finding(subject="job", level="blocked", detail=error.what, remedy=error.remedy))
        if not found:
            found += self._admission(job, single, new_volumes)
            for volume in sorted(mounted):
                found += self._reach(job, volume, single=volume in single)
        return found

    def _admission(self, job: Job, single: Sequence[str], new_volumes: Mapping[str, int]) -> list[Finding]:
        """What quotas, limits and policies say to the objects, in a dry run of making them."""
        body = manifests.job(job, self._settings, single)
        template = body["spec"]["template"]
        pod = {"apiVersion": "v1", "kind": "Pod", **template}
        pod = {**pod, "metadata": {**template["metadata"], "generateName": "slipway-preflight-"}}
        tries = [("job", self._place.jobs(), body), ("pod", self._place.pods(), pod)]
        if self._workloads.as_jobset(job):
            around = manifests.job(job, self._settings, single, as_jobset=True)
            tries.append(("jobset", self._place.jobsets(), around))
        for name, size in new_volumes.items():
            tries.append((f"volume {name}", self._place.claims(), manifests.claim(name, size, self._settings)))
        found = []
        for subject, path, body in tries:
            try:
                made = self._api.post(path, body, dry_run=True)
                if subject == "pod":
                    found += _given(body, made, job.memory_bytes)
            except ApiError as error:
                if error.status != 409:  # it is there: whoever submits adopts it, or says so
                    found.append(_refusal(subject, error))
        return found

    def _reach(self, job: Job, volume: str, *, single: bool) -> list[Finding]:
        """Whether a node that could take the job can mount the volume."""
        nodes = self._nodes.each()
        able = [node for node in nodes if fits(job, node.capacity)]
        if not able:  # not for us to see, or the capacity's own line says it
            return []
        subject = f"volume {volume}"
        source = self._source(volume)
        reached = [node for node in able if source is None or reaches(source, node.labels, node.name)]
        if not reached:
            assert source is not None
            there = [node.name for node in nodes if reaches(source, node.labels, node.name)]
            detail = (
                f"can be mounted on {_names(there) or 'no node there is'}, and what the run asks for is only on "
                f"{_names([node.name for node in able])}."
            )
            level = "warning" if self._nodes.may_come else "blocked"
            remedy = "Use a volume of a storage class that those nodes reach, or another kind of node."
            return [Finding(subject=subject, level=level, detail=detail, remedy=remedy)]
        return self._beside(subject, volume, {node.name for node in reached}) if single else []

    def _beside(self, subject: str, volume: str, reached: set[str]) -> list[Finding]:
        """Where a volume that one node at a time can mount is mounted now."""
        users: dict[str, list[str]] = {}
        for pod in self._api.items(self._place.pods(), {"labelSelector": f"{claim_label(volume)}=mounted"}):
            user = who(pod)
            if user and pod["spec"].get("nodeName") and pod["status"].get("phase") == "Running":
                users.setdefault(pod["spec"]["nodeName"], []).append(user)
        if not users:
            return []
        ((node, there), *_) = users.items()
        detail = f"is mounted by {', '.join(there)} on node {node}, one node at a time can mount it"
        if node in reached:
            return [Finding(subject=subject, level="note", detail=f"{detail}: the run goes there as well")]
        wait = f"{detail}, and that one has not what the run asks for: the run waits until it is let go."
        return [Finding(subject=subject, level="warning", detail=wait, remedy="Stop that first, or wait for its end.")]

    def _source(self, volume: str) -> Json | None:
        """The persistent volume of a claim; None if it has none yet, or it is not for us to see."""
        name = self._claim(volume)["spec"].get("volumeName")
        try:
            return self._api.find(persistent_volume(name)) if name else None
        except ApiError as error:
            if error.status != 403:
                raise
            return None


def _given(asked: Json, made: Json, memory_bytes: int | None) -> list[Finding]:
    """Whether the namespace gives our containers less than they would take: a LimitRange, or a webhook."""
    found = []
    for key in ("initContainers", "containers"):
        ours = {container["name"]: container for container in asked["spec"].get(key) or ()}
        for container in made["spec"].get(key) or ():
            mine = (ours.get(container["name"]) or {"resources": {}})["resources"].get("limits") or {}
            limits = (container.get("resources") or {}).get("limits") or {}
            given = [f"{limits[what]} of {what}" for what in ("memory", "cpu") if _is_less(limits, mine, what)]
            if given and container["name"] in ours:
                found.append(f"container {container['name']} gets no more than {' and '.join(given)}")
    if not found:
        return []
    unasked = " The run says nothing of memory." if memory_bytes is None else ""
    detail = f"{'; '.join(found)}, by a LimitRange or a webhook of the namespace.{unasked}"
    remedy = "Say how much the run takes (memory_bytes of the trainer's resources), or have that limit changed."
    return [Finding(subject="limits", level="warning", detail=detail, remedy=remedy)]


def _is_less(limits: Json, mine: Json, what: str) -> bool:
    return what in limits and (what not in mine or read_quantity(limits[what]) < read_quantity(mine[what]))


def _refusal(subject: str, error: ApiError) -> Finding:
    match = _QUOTA.search(error.what)
    if match is None:
        return Finding(subject=subject, level="blocked", detail=error.what, remedy=error.remedy)
    asked, limit = _amounts(match["asked"]), _amounts(match["limit"].rstrip("."))
    over = [key for key, amount in asked.items() if key in limit and read_quantity(amount) > read_quantity(limit[key])]
    detail = f"the quota {match['name']} has {match['limit'].rstrip('.')}, of which {match['used']} is in use, and "
    detail += f"{subject} takes {match['asked']}"
    if over or subject.startswith("volume"):
        return Finding(
            subject="quota", level="blocked", detail=f"{detail}.", remedy="Ask for less, or for a larger quota."
        )
    return Finding(subject="quota", level="warning", detail=f"{detail}: it waits.", remedy="Let something of it end.")


def _amounts(said: str) -> dict[str, str]:
    return dict(pair.split("=", 1) for pair in said.split(",") if "=" in pair)


def _names(names: Sequence[str]) -> str:
    shown = ", ".join(names[:5])
    return f"{shown} and {len(names) - 5} more" if len(names) > 5 else shown

"""Volumes of one namespace: PersistentVolumeClaims that carry our label."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from blocks.clusters.errors import ConflictError, InUseError, NotFoundError, SlipwayError, UsageError
from blocks.clusters.kubernetes import labels as marks
from blocks.clusters.kubernetes import manifests
from blocks.clusters.kubernetes.api import Api, ApiError
from blocks.clusters.kubernetes.labels import selector
from blocks.clusters.kubernetes.place import MAY_I, Place, storage_class
from blocks.clusters.kubernetes.quantity import read_bytes, write_bytes
from blocks.clusters.kubernetes.settings import KubernetesSettings
from blocks.clusters.kubernetes.times import read_time
from blocks.clusters.names import check_name, meant
from blocks.clusters.size import check_size, format_size
from blocks.clusters.volume import Volume, VolumeStatus

Json = dict[str, Any]
Users = Mapping[str, Sequence[str]]

_CONDITIONS = {
    "Resizing": "the storage is being resized",
    "FileSystemResizePending": "the file system grows once a pod mounts it (again)",
    "ControllerResizeError": "the storage could not be resized",
    "NodeResizeError": "the file system could not be grown",
    "ModifyingVolume": "it is being modified",
}


class KubernetesVolumes:
    """Volumes of one owner.

    Args:
        cluster: the cluster's name.
        used_by: volume → what mounts it, as people name it.
        let_go: ends what of ours still names a volume and is no use of it: internal sessions, ended pods.
    """

    def __init__(
        self,
        api: Api,
        place: Place,
        settings: KubernetesSettings,
        cluster: str,
        *,
        used_by: Callable[[], Users],
        let_go: Callable[[str], None],
    ) -> None:
        self._api = api
        self._place = place
        self._settings = settings
        self._cluster = cluster
        self._used_by = used_by
        self._let_go = let_go
        self._classes: dict[str, Json | None] = {}

    def create(self, name: str, size: int) -> Volume:
        check_name("volume", name)
        check_size(size)
        try:
            made = self._api.post(self._place.claims(), manifests.claim(name, size, self._settings))
        except ApiError as error:
            if error.status != 409:
                raise
            there = self._api.find(self._place.claim(name))
            if there is not None and there["metadata"].get("deletionTimestamp"):
                raise ConflictError(f"The volume {name!r} is being deleted.", "Wait, or choose another name.") from None
            if there is not None and (other := _not_ours(there)):
                raise ConflictError(*other) from None
            raise ConflictError(f"The volume {name!r} exists.", "Use it, grow it, or choose another name.") from None
        return self._volume(made, {})

    def get(self, name: str) -> Volume:
        return self._volume(self.claim(check_name("volume", name)), self._used_by())

    def list(self) -> list[Volume]:
        used_by = self._used_by()
        return sorted((self._volume(claim, used_by) for claim in self._claims()), key=lambda volume: volume.name)

    def grow(self, name: str, size: int) -> Volume:
        check_size(size)
        claim = self.claim(name)
        now = _requested(claim)
        if size < now:
            raise UsageError(
                f"The volume {name!r} has {format_size(now)} and can not shrink to {format_size(size)}.",
                "Ask for more than it has; for a smaller one, create a new volume and copy what you need.",
            )
        if claim["metadata"].get("deletionTimestamp"):
            raise ConflictError(f"The volume {name!r} is being deleted.", "Choose another one.")
        if size > now:
            claim = self._ask_for(claim, size)
        return self._volume(claim, self._used_by())

    def delete(self, name: str) -> None:
        """As the port says. Who may is for the cluster to decide, and asked first.

        Raises:
            SlipwayError: this user may not delete volumes here.
        """
        claim = self.claim(name)
        self._check_may_delete(name)
        volume = self._volume(claim, self._used_by())
        if volume.status is VolumeStatus.PROVISIONING:
            raise InUseError(
                f"The volume {name!r} is being provisioned: {volume.reason or 'no reason given'}.",
                "Wait until it is ready.",
            )
        if volume.used_by:
            raise InUseError(
                f"The volume {name!r} is in use by {', '.join(volume.used_by)}.",
                "Stop that first, or wait for its end.",
            )
        self._let_go(name)
        self._api.delete(self._place.claim(name), uid=claim["metadata"]["uid"])

    def claim(self, name: str) -> Json:
        """The claim of a volume.

        Raises:
            NotFoundError: there is none; names those there are.
        """
        found = self._api.find(self._place.claim(check_name("volume", name)))
        if found is not None and (other := _not_ours(found)):
            raise NotFoundError(*other)
        if found is None:
            raise NotFoundError(
                f"{self._place.owner!r} has no volume {name!r} on cluster {self._cluster!r}.",
                meant(name, [c["metadata"]["name"] for c in self._claims()], "Volumes"),
            )
        return found

    def is_single_node(self, name: str) -> bool:
        """Whether one node at a time can mount it."""
        return "ReadWriteMany" not in (self.claim(name)["spec"].get("accessModes") or ())

    def _claims(self) -> Iterable[Json]:
        return self._api.items(self._place.claims(), {"labelSelector": selector({**marks.OURS, marks.KIND: "volume"})})

    def _ask_for(self, claim: Json, size: int) -> Json:
        name = claim["metadata"]["name"]
        named = claim["spec"].get("storageClassName")
        found = self._class(named)
        if found is not None and not found.get("allowVolumeExpansion"):
            raise SlipwayError(
                f"The volume {name!r} can not grow: its storage class {named!r} does not allow it.",
                "Ask whoever runs the cluster to set allowVolumeExpansion, or create a larger volume and copy.",
            )
        if (claim.get("status") or {}).get("phase") != "Bound":
            raise ConflictError(f"The volume {name!r} is not provisioned yet.", "Grow it once it is ready.")
        change = {
            "metadata": {"resourceVersion": claim["metadata"]["resourceVersion"]},
            "spec": {"resources": {"requests": {"storage": write_bytes(size)}}},
        }
        try:
            return self._api.patch(self._place.claim(name), change)
        except ApiError as error:
            if error.status != 409:
                raise
            return self._ask_for(self.claim(name), size)

    def _check_may_delete(self, name: str) -> None:
        asked = {
            "namespace": self._place.owner,
            "verb": "delete",
            "resource": "persistentvolumeclaims",
            "name": name,
        }
        answer = self._api.post(
            MAY_I,
            {
                "apiVersion": "authorization.k8s.io/v1",
                "kind": "SelfSubjectAccessReview",
                "spec": {"resourceAttributes": asked},
            },
        )
        if not answer["status"].get("allowed"):
            why = answer["status"].get("reason") or "no role gives that right"
            raise SlipwayError(
                f"You may not delete volumes in namespace {self._place.owner!r} of cluster {self._cluster!r}: {why}.",
                "Ask whoever runs the cluster, or have somebody delete it who may.",
            )

    def _volume(self, claim: Json, used_by: Users) -> Volume:
        metadata, status = claim["metadata"], claim.get("status") or {}
        state, reason = self._state(claim)
        created = read_time(metadata["creationTimestamp"])
        assert created is not None
        actual = (status.get("capacity") or {}).get("storage")
        return Volume(
            name=metadata["name"],
            owner=self._place.owner,
            cluster=self._cluster,
            size=_requested(claim),
            actual_size=read_bytes(actual) if actual else None,
            status=state,
            created_at=created,
            used_by=tuple(used_by.get(metadata["name"], ())),
            reason=reason,
            storage_class=claim["spec"].get("storageClassName"),
            access_mode=(claim["spec"].get("accessModes") or [None])[0],
        )

    def _state(self, claim: Json) -> tuple[VolumeStatus, str]:
        status = claim.get("status") or {}
        if claim["metadata"].get("deletionTimestamp"):
            return VolumeStatus.DELETING, "waits until nothing mounts it any more"
        if status.get("phase") == "Lost":
            return VolumeStatus.FAILED, "its storage is gone"
        if status.get("phase") != "Bound":
            found = self._class(claim["spec"].get("storageClassName"))
            if found is not None and found.get("volumeBindingMode") == "WaitForFirstConsumer":
                return VolumeStatus.READY, "is provisioned when the first job mounts it"
            return VolumeStatus.PROVISIONING, self._why_pending(claim)
        actual = (status.get("capacity") or {}).get("storage")
        if actual and read_bytes(actual) < _requested(claim):
            said = [_CONDITIONS.get(c["type"], c["type"]) for c in status.get("conditions") or ()]
            messages = [c["message"] for c in status.get("conditions") or () if c.get("message")]
            reason = "; ".join([*said, *messages]) or "the storage has not begun to grow"
            return VolumeStatus.GROWING, f"has {format_size(read_bytes(actual))}: {reason}"
        return VolumeStatus.READY, ""

    def _why_pending(self, claim: Json) -> str:
        try:
            events = self._api.items(
                self._place.events(), {"fieldSelector": f"involvedObject.uid={claim['metadata']['uid']}"}
            )
        except ApiError:
            return ""
        said = [e for e in events if e.get("message")]
        said.sort(key=lambda e: (e.get("type") == "Warning", str(e.get("lastTimestamp") or "")))
        return f"{said[-1]['reason']}: {said[-1]['message']}" if said else ""

    def _class(self, name: str | None) -> Json | None:
        """A storage class; None where it is not named, not there, or not for us to see."""
        if not name:
            return None
        if name not in self._classes:
            try:
                self._classes[name] = self._api.find(storage_class(name))
            except ApiError as error:
                if error.status != 403:
                    raise
                self._classes[name] = None
        return self._classes[name]


def _not_ours(claim: Json) -> tuple[str, str] | None:
    """What to say of a claim that is no volume, and what to do about it."""
    name, namespace = claim["metadata"]["name"], claim["metadata"]["namespace"]
    if (claim["metadata"].get("labels") or {}).get(marks.KIND) == "volume":
        return None
    labels = " ".join(f"{key}={value}" for key, value in {marks.KIND: "volume", **marks.OURS}.items())
    return (
        f"The claim {name!r} in namespace {namespace!r} is not a volume of Slipway's.",
        f"Choose another name, or make it one: kubectl -n {namespace} label pvc {name} {labels}",
    )


def _requested(claim: Json) -> int:
    return read_bytes(claim["spec"]["resources"]["requests"]["storage"])

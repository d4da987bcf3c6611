"""Sessions of one namespace: pods that have a volume mounted and wait for programs."""

import contextlib
import os
import secrets
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from blocks.clusters.errors import CUT_OFF, ConflictError, NotFoundError, ProgramError, SlipwayError
from blocks.clusters.job import Job
from blocks.clusters.kubernetes import labels as marks
from blocks.clusters.kubernetes import manifests
from blocks.clusters.kubernetes.api import Api, ApiError
from blocks.clusters.kubernetes.check import fits
from blocks.clusters.kubernetes.diagnosis import Diagnosis, diagnose
from blocks.clusters.kubernetes.exec import BrokenExecError, KubernetesTerminal, TooLongError, execute
from blocks.clusters.kubernetes.labels import claim_label, selector
from blocks.clusters.kubernetes.nodes import Nodes
from blocks.clusters.kubernetes.place import Place
from blocks.clusters.kubernetes.settings import KubernetesSettings
from blocks.clusters.kubernetes.times import read_time
from blocks.clusters.kubernetes.way import in_the_way
from blocks.clusters.names import meant
from blocks.clusters.port import Session

Json = dict[str, Any]

_PATIENCE_SECONDS = 900
_LOOK_SECONDS = 0.25
_GONE_SECONDS = 30
_WAY_SECONDS = 1


class KubernetesSessions:
    """Sessions of one owner.

    Args:
        claim: a volume's claim by name; raises NotFoundError.
        nodes: that pods can go to.
    """

    def __init__(
        self, api: Api, place: Place, settings: KubernetesSettings, *, claim: Callable[[str], Json], nodes: Nodes
    ) -> None:
        self._api = api
        self._place = place
        self._settings = settings
        self._claim = claim
        self._nodes = nodes
        self._is_single_node: dict[str, bool] = {}
        self._looked_at: dict[str, float] = {}

    def open(self, volume: str, writable: bool = True, *, reuse: bool = False) -> Session:
        """As the port says; it ends when it is stopped, when it is idle, or when nothing is started in it."""
        for there in self.list() if reuse else ():
            if there.volume == volume and not there.internal and there.writable >= writable:
                with contextlib.suppress(ProgramError):  # it ends at this moment
                    self._running(there.id)
                    return there.model_copy(update={"reused": True})
        single_node = self._single_node(volume)
        name = f"session-{secrets.token_hex(4)}"
        self._api.post(
            self._place.pods(),
            manifests.session(name, volume, self._settings, internal=False, writable=writable, single_node=single_node),
        )
        try:
            return _session(self._running(name))
        except SlipwayError:
            self._remove([name])
            raise

    def list(self) -> list[Session]:
        """Internal ones, too."""
        pods = [pod for pod in self._pods({}) if _is_live(pod)]
        return sorted((_session(pod) for pod in pods), key=lambda session: (session.started_at, session.id))

    def stop(self, session_id: str) -> None:
        self._find(session_id)
        self._remove([session_id])

    def _find(self, session_id: str) -> None:
        there = [session.id for session in self.list()]
        if session_id not in there:
            people = [session.id for session in self.list() if not session.internal]
            raise NotFoundError(f"There is no session {session_id!r}.", meant(session_id, people, "Sessions"))

    def attach(self, session_id: str, command: Sequence[str], size: tuple[int, int] | None) -> KubernetesTerminal:
        self._find(session_id)
        words = command or ("sh", "-c", "exec $(command -v bash || echo sh)")
        words = ["env", "-C", "/volume", f"TERM={os.environ.get('TERM', 'xterm')}", *words]
        try:
            return KubernetesTerminal(
                self._api,
                self._place,
                session_id,
                manifests.in_session(words, shell=size is not None),
                size,
                lambda: any(session.id == session_id for session in self.list()),
            )
        except BrokenExecError as error:
            raise SlipwayError(f"The session {session_id} can not be used: {error.what}", error.remedy) from error

    def leave(self, session: Session) -> None:
        with contextlib.suppress(BrokenExecError, TooLongError, NotFoundError):
            code, _, _ = execute(self._api, self._place, session.id, "main", manifests.ALONE, b"", 30)
            if code == 0 and not session.reused:
                self.stop(session.id)

    def internal(self, volume: str) -> str:
        """The name of the volume's internal session, started if it is not there, once it runs.

        Raises:
            NotFoundError: no such volume.
            SlipwayError: it does not start; says why.
        """
        single_node = self._is_single_node[volume] = self._single_node(volume)
        manifest = manifests.internal_session(volume, self._settings, single_node=single_node)
        name: str = manifest["metadata"]["name"]
        while True:
            pod = self._api.find(self._place.pod(name))
            if pod is None:
                try:
                    self._api.post(self._place.pods(), manifest)
                except ApiError as error:
                    if error.status != 409:
                        raise
            elif _is_live(pod) and not _is_cut_off(pod):
                self._running(name)
                return name
            else:
                self._remove([name])

    def close(self, volumes: Iterable[str]) -> None:
        """End the internal sessions of volumes and wait until they are gone."""
        names = [
            pod["metadata"]["name"]
            for volume in volumes
            for pod in self._pods({marks.INTERNAL: "true", claim_label(volume): "mounted"})
        ]
        self._remove(names)

    def make_way(self, job: Job, volumes: Iterable[str]) -> None:
        """Close the internal sessions of volumes that one node at a time can mount where they keep a job from a node.

        The job has to go where its volume is mounted, which is where the session happens to be.
        """
        for volume in volumes:
            able = [node.name for node in self._nodes.each() if fits(job, node.capacity)]
            self._let_go(volume, self._live(volume), None if self._nodes.may_come else able)

    def get_out_of_the_way(self, volume: str) -> None:
        """As `make_way`, for whatever job waits for a node now; looks no more often than once a second."""
        now = time.monotonic()
        if not self._is_single_node.get(volume) or now - self._looked_at.get(volume, float("-inf")) < _WAY_SECONDS:
            return
        self._looked_at[volume] = now
        pods = self._live(volume)
        if any(not pod["spec"].get("nodeName") for pod in pods):
            able = [node.name for node in self._nodes.each()]
            self._let_go(volume, pods, None if self._nodes.may_come else able)

    def _let_go(self, volume: str, pods: Sequence[Json], able: Sequence[str] | None) -> None:
        if in_the_way(pods, able):
            self.close([volume])

    def _live(self, volume: str) -> Sequence[Json]:
        """The pods that mount a volume, or will."""
        query = {
            "labelSelector": f"{claim_label(volume)}=mounted",
            "fieldSelector": "status.phase!=Succeeded,status.phase!=Failed",
        }
        return self._api.items(self._place.pods(), query)

    def _single_node(self, volume: str) -> bool:
        claim = self._claim(volume)
        if claim["metadata"].get("deletionTimestamp"):
            raise ConflictError(f"The volume {volume!r} is being deleted.", "Choose another one.")
        return "ReadWriteMany" not in (claim["spec"].get("accessModes") or ())

    def _pods(self, labels: dict[str, str]) -> Sequence[Json]:
        wanted = selector({**marks.OURS, marks.KIND: "session", **labels})
        return self._api.items(self._place.pods(), {"labelSelector": wanted})

    def _running(self, name: str) -> Json:
        """Wait until a session runs.

        Raises:
            SlipwayError: it does not, and why.
        """
        until = time.monotonic() + _PATIENCE_SECONDS
        while True:
            pod = self._api.find(self._place.pod(name))
            if pod is None or not _is_live(pod):
                raise ProgramError(f"The session {name} ended before it could be used.", "Try again.", CUT_OFF)
            found = self._diagnose(pod)
            if found.state == "running":
                return pod
            if found.give_up or time.monotonic() > until:
                raise SlipwayError(f"The session {name} does not start: {found.reason}", "Mend that, and try again.")
            time.sleep(_LOOK_SECONDS)

    def _diagnose(self, pod: Json) -> Diagnosis:
        """A session's pod is a job's pod without a Job."""
        alone: Json = {"metadata": pod["metadata"], "spec": {}}
        found = diagnose(alone, pod, self._settings, datetime.now(UTC))
        if not found.unexplained:
            return found
        query = {"fieldSelector": f"involvedObject.uid={pod['metadata']['uid']}"}
        return diagnose(alone, pod, self._settings, datetime.now(UTC), self._api.items(self._place.events(), query))

    def _remove(self, names: Iterable[str]) -> None:
        """Delete pods and wait until they are gone. A node that does not answer would keep them for ever."""
        left = list(names)
        for grace_seconds in (1, 0):
            for name in left:
                self._api.delete(self._place.pod(name), grace_seconds=grace_seconds)
            until = time.monotonic() + _GONE_SECONDS
            while left and time.monotonic() < until:
                left = [name for name in left if self._api.find(self._place.pod(name)) is not None]
                if left:
                    time.sleep(_LOOK_SECONDS)


def _is_live(pod: Json) -> bool:
    ended = pod["status"].get("phase") in ("Succeeded", "Failed")
    return not ended and not pod["metadata"].get("deletionTimestamp")


def _is_cut_off(pod: Json) -> bool:
    """Whether its node does not answer: then the control plane, not the kubelet, says that the pod is not ready."""
    ready = any(c["type"] == "Ready" and c["status"] == "True" for c in pod["status"].get("conditions") or ())
    return not ready and any(status.get("ready") for status in pod["status"].get("containerStatuses") or ())


def _session(pod: Json) -> Session:
    labels = pod["metadata"]["labels"]
    started = read_time(pod["metadata"]["creationTimestamp"])
    assert started is not None
    return Session(
        id=pod["metadata"]["name"],
        volume=pod["metadata"]["annotations"][marks.CLAIM],
        writable=labels[marks.WRITABLE] == "true",
        internal=labels[marks.INTERNAL] == "true",
        started_at=started,
    )

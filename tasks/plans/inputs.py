"""Finds a run's weights and dataset: on the volume, or on a Hub at the commit that its revision means now."""

from collections.abc import Callable
from typing import Any

from blocks.clusters.errors import NotFoundError
from blocks.clusters.port import Cluster
from blocks.clusters.size import format_size
from blocks.hub_access import HubAccess
from tasks.plans.content import misfit
from tasks.plans.plan import Blocked, Mark
from tasks.pod.checkpoints.evidence import plural
from tasks.pod.layout import volume_relative
from tasks.pod.trainers.adapter import Needs
from tasks.runs.records import Dataset, Weights
from tasks.stages.resolve import SnapshotToStage, look_up, resolve
from tasks.stages.source import DatasetRequest, SourceRequest, folder_source, hub_dataset, hub_model, s3_source
from tasks.stages.staged import dataset_of

Add = Callable[..., None]
_GLANCE = 4 << 20  # bytes of each file of a dataset that nobody has staged
_MOST_PROBLEMS = 3


def find_weights(
    cluster: Cluster, hub: HubAccess, volume: str | None, model: str, parent: Weights | None, add: Add
) -> tuple[Weights, SnapshotToStage | None]:
    """Where a run reads its base weights, and what has to be staged for that.

    Args:
        volume: None while it does not exist.
        model: the config's: `/volume/…`, or a Hub id with an optional `@revision`.
        parent: of the run that is forked, if its config names the same model: its commit is taken, whatever the
            revision means by now.

    Raises:
        Blocked, ProgramError: no weights there, no access, no such revision.
    """
    if model.startswith("/volume"):
        return _on_volume(cluster, volume, model, add), None
    ref = hub_model(model)
    if parent is not None and parent.commit is not None:
        ref = ref.model_copy(update={"revision": parent.commit})
    snapshot = resolve(cluster, hub, volume, ref)
    subject = f"model {snapshot.ref.repo}"
    pinned = f"{snapshot.ref.revision} is commit {snapshot.commit[:12]}"
    if snapshot.ref.pinned:
        pinned = f"commit {snapshot.commit[:12]}"
    if snapshot.partial:
        snapshot = settle_partial(cluster, hub, volume, snapshot, lambda mark, detail: add(mark, subject, detail))
    elif snapshot.staged:
        add(Mark.READY, subject, f"{pinned}, staged: {format_size(snapshot.bytes)}")
    else:
        add(
            Mark.TO_DO,
            subject,
            f"{pinned}, to be staged: {snapshot.files} files, {format_size(snapshot.bytes)}",
        )
    size = snapshot.bytes
    return Weights(path=snapshot.path, repo=snapshot.ref.repo, commit=snapshot.commit, bytes=size), snapshot


def settle_partial(
    cluster: Cluster, hub: HubAccess, volume: str | None, snapshot: SnapshotToStage, say: Callable[[Mark, str], None]
) -> SnapshotToStage:
    """A snapshot that is staged in part is used as it is where that makes whole weights, else the rest is staged first.

    Raises:
        ProgramError: the rest is needed, and the Hub refuses it or does not answer.
    """
    found = cluster.call(volume, "weights.inspect", {"path": snapshot.path})
    part = f"commit {snapshot.commit[:12]}, staged in part"
    if found["ok"]:
        say(Mark.READY, f"{part}, which is enough: {found['why']}; {snapshot.lacks} files were left out")
        return snapshot.model_copy(update={"staged": True})
    pinned = snapshot.ref.model_copy(update={"revision": snapshot.commit})
    look_up(cluster, hub, volume, pinned)  # for its refusals
    say(
        Mark.TO_DO,
        f"{part}, and a run needs more ({found['why'].rstrip('.')}); "
        f"the rest is staged: {snapshot.lacks} files, {format_size(snapshot.lacks_bytes)}",
    )
    return snapshot


def _on_volume(cluster: Cluster, volume: str | None, model: str, add: Add) -> Weights:
    path = volume_relative(model)
    if volume is None:
        raise Blocked("weights", f"{model} is on a volume that does not exist yet.", "Put the weights there first.")
    found = cluster.call(volume, "weights.inspect", {"path": path})
    if not found["ok"]:
        raise Blocked("weights", f"{model}: {found['why']}", found.get("remedy", ""))
    add(Mark.READY, "weights", f"{model}: {found['why']}")
    return Weights(path=path, bytes=found["bytes"], fingerprint=found["fingerprint"])


def find_dataset(
    cluster: Cluster,
    hub: HubAccess,
    volume: str | None,
    needs: Needs,
    asked: DatasetRequest | None,
    parent: Dataset | None,
    add: Add,
) -> Dataset | None:
    """The dataset version that a run reads; a version that is staged first may still be open (None).

    Args:
        needs: its `dataset` is the config's: `/volume/…` or `datasets/<name>[/<version>]`; None where the trainer makes
            its own.
        asked: a dataset to stage first.
        parent: of the run that is forked, if its config names the same dataset: its version is taken.

    Raises:
        Blocked, ProgramError: it is not on the volume and nothing says where it comes from.
    """
    if needs.dataset is None:
        return None
    path = volume_relative(needs.dataset)
    pieces = path.split("/")
    if pieces[0] != "datasets" or len(pieces) not in (2, 3):
        return _directory(cluster, volume, path, needs, add)
    wanted = pieces[2] if len(pieces) == 3 else parent.version if parent else None
    if asked is not None and asked.name == pieces[1] and wanted in (None, asked.version):
        return _to_stage(cluster, hub, volume, asked, needs, add)
    if volume is None:
        raise Blocked("dataset", f"{path} is on a volume that does not exist yet.", "Say what to stage it from.")
    state = cluster.call(volume, "datasets.state", {"name": pieces[1], "version": wanted})
    if not state["staged"]:
        raise Blocked(
            "dataset",
            f"{path} is not on volume {volume}.",
            f"Stage it: `slipway stage dataset {pieces[1]} SOURCE --volume {volume}`.",
        )
    add(Mark.READY, "dataset", f"{state['path']}: {format_size(state['bytes'])}")
    check_content(state["content"], needs, add)
    return dataset_of(pieces[1], state)


def _to_stage(
    cluster: Cluster, hub: HubAccess, volume: str | None, asked: DatasetRequest, needs: Needs, add: Add
) -> Dataset | None:
    if ref := hub_dataset(asked.source):
        resolve(cluster, hub, volume, ref)  # for its refusals
    if volume and asked.version:
        state = cluster.call(volume, "datasets.state", {"name": asked.name, "version": asked.version})
        if state["staged"]:
            add(Mark.READY, "dataset", f"{state['path']}, staged: {format_size(state['bytes'])}")
            check_content(state["content"], needs, add)
            return dataset_of(asked.name, state)
    what = ""
    if found := look_at_source(cluster, volume, asked):
        what = f": {plural(found['files'], 'file')}, {format_size(found['bytes'])}"
    add(Mark.TO_DO, "dataset", f"datasets/{asked.name} is staged from {asked.source}{what}")
    return None


def look_at_source(cluster: Cluster, volume: str | None, asked: SourceRequest) -> dict[str, int] | None:
    """What a bucket or a folder holds, where the staging job would look for it: "files" and "bytes"; None for a Hub.

    Raises:
        NotFoundError, ProgramError: there is nothing that could be staged.
    """
    if hub_dataset(asked.source):
        return None
    if s3 := s3_source(asked):
        access, source = s3
        return cluster.call(None, "buckets.look", source, env=access.env(), secrets=access.secrets())
    folder = folder_source(asked.source)
    if folder["kind"] == "volume" and volume is None:
        raise NotFoundError(f"{asked.source} is on a volume that does not exist yet.", "Put it there first.")
    return cluster.call(volume if folder["kind"] == "volume" else None, "folders.look", folder)


def check_content(content: dict[str, Any] | None, needs: Needs, add: Add) -> None:
    """A line of the plan for what is wrong in a dataset's files.

    Args:
        content: None where nobody has looked into them.

    Raises:
        Blocked: the trainer can not read what is there.
    """
    if content is None:
        return
    if why := misfit(content, needs):
        raise Blocked("dataset", f"{why}.", "Stage it in a form that the trainer reads, as another version.")
    for problem in content["problems"][:_MOST_PROBLEMS]:
        add(Mark.WARNING, "dataset", f"{problem}.", "Mend it and stage it as another version.")


def _directory(cluster: Cluster, volume: str | None, path: str, needs: Needs, add: Add) -> Dataset:
    if volume is None:
        raise Blocked("dataset", f"/volume/{path} is on a volume that does not exist yet.", "Put it there first.")
    listed = cluster.call(volume, "transfer.ls", {"path": path, "recursive": False})
    if not listed["entries"]:
        raise Blocked("dataset", f"/volume/{path} is empty.", "Put the dataset there, or stage it.")
    add(Mark.READY, "dataset", f"/volume/{path}, as it is there")
    check_content(cluster.call(volume, "datasets.look", {"path": path, "most": _GLANCE}), needs, add)
    return Dataset(path=path)

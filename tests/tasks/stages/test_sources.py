import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from blocks.bucket_access import BucketAccess
from blocks.clusters.errors import ProgramError
from blocks.clusters.local.cluster import LocalCluster
from blocks.settings import load_settings
from tasks.runs.request import RunRequest
from tasks.stages.source import DatasetRequest, WeightsToStage, bucket_of
from tasks.stages.staged import stage_dataset, stage_weights
from tasks.stages.volume import ensure_volume
from tests.tasks.conftest import Desk
from tests.tasks.pod.staging.conftest import write_model


def _stage(desk: Desk, asked: DatasetRequest) -> Any:
    ensure_volume(desk.cluster, desk.volume, 2**30)
    return stage_dataset(desk.cluster, desk.hub, desk.volume, asked, lambda note: None)


def test_a_dataset_is_staged_from_a_bucket_with_credentials_that_only_its_job_gets(
    desk: Desk, cluster: LocalCluster, bucket: BucketAccess
) -> None:
    dataset = _stage(desk, DatasetRequest(name="harbour", source="s3://team-data/harbour", bucket=bucket))

    (staged,) = (cluster._root / "volumes").rglob("train.jsonl")
    assert staged.read_bytes() == b'{"text": "2"}\n'
    assert dataset.version and dataset.path == f"datasets/harbour/{dataset.version}"
    for file in cluster._root.rglob("*"):
        with contextlib.suppress(FileNotFoundError):  # a supervisor still takes away what its job had in scratch
            assert "secrets" in file.parts or not file.is_file() or b"hush-hush" not in file.read_bytes(), file


def test_the_version_of_an_object_is_pinned_where_the_bucket_keeps_versions(
    desk: Desk, bucket: BucketAccess, s3: Any
) -> None:
    s3.put_bucket_versioning(Bucket="team-data", VersioningConfiguration={"Status": "Enabled"})
    kept = s3.put_object(Bucket="team-data", Key="harbour/train.jsonl", Body=b'{"text": "kept"}\n')["VersionId"]

    dataset = _stage(desk, DatasetRequest(name="harbour", source="s3://team-data/harbour", bucket=bucket))

    (manifest,) = _root(desk).rglob("manifest.json")
    assert json.loads(manifest.read_text())["source"]["versions"] == {"train.jsonl": kept}
    again = _stage(desk, DatasetRequest(name="harbour", source="s3://team-data/harbour", bucket=bucket))
    assert again == dataset


@pytest.mark.parametrize(
    ("source", "words"),
    [("s3://team-data/nothing", "nothing below"), ("s3://no-such-bucket/x", "There is no s3://no-such-bucket")],
)
def test_a_bucket_without_it_is_found_when_a_run_is_planned(
    desk: Desk, bucket: BucketAccess, source: str, words: str
) -> None:
    name = bucket_of(source)
    assert name
    there = bucket.model_copy(update={"bucket": name[0]})
    request = _with_dataset(desk.request("r"), DatasetRequest(name="harbour", source=source, bucket=there))

    assert words in " ".join(item.detail for item in desk.plan(request).blocked)


def test_a_plan_says_what_a_bucket_would_bring(desk: Desk, bucket: BucketAccess) -> None:
    asked = DatasetRequest(name="harbour", source="s3://team-data/harbour", bucket=bucket)

    items = {item.subject: item.detail for item in desk.plan(_with_dataset(desk.request("r"), asked)).items}

    assert items["dataset"].endswith("is staged from s3://team-data/harbour: 1 file, 14B")


def test_how_a_bucket_is_reached_is_no_part_of_what_was_asked_for(desk: Desk, bucket: BucketAccess) -> None:
    plain = DatasetRequest(name="harbour", source="s3://team-data/harbour")
    request = desk.request("r")

    with_access = _with_dataset(request, plain.model_copy(update={"bucket": bucket}))

    assert with_access.request_hash() == _with_dataset(request, plain).request_hash()
    assert "bucket" not in DatasetRequest.model_json_schema()["properties"]


def test_without_credentials_the_refusal_says_where_they_belong(
    desk: Desk, bucket: BucketAccess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(_root(desk)))
    bare = bucket.model_copy(update={"credentials": {}})

    with pytest.raises(ProgramError, match="no credentials"):
        desk.cluster.call(None, "buckets.look", bare.at("harbour"), env={"AWS_EC2_METADATA_DISABLED": "true"})


@pytest.mark.parametrize("source", ["s3://", "s3://Upper/x", "s3://a", "ftp://x/y", "s3://b\nc/x"])
def test_what_can_be_no_source_is_refused(source: str) -> None:
    with pytest.raises(ValidationError, match="no source that can be staged"):
        DatasetRequest(name="d", source=source)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("./no-such-folder", "There is no folder"),
        ("/volume/incoming", "is on a volume that does not exist yet"),
        ("{empty}", "is empty"),
    ],
)
def test_a_folder_without_it_is_found_when_a_run_is_planned(
    desk: Desk, tmp_path: Path, source: str, words: str
) -> None:
    (tmp_path / "empty").mkdir()
    asked = DatasetRequest(name="harbour", source=source.format(empty=tmp_path / "empty"))

    plan = desk.plan(_with_dataset(desk.request("r"), asked))

    assert words in " ".join(item.detail for item in plan.blocked)


def test_a_plan_says_what_a_folder_would_bring(desk: Desk) -> None:
    items = {item.subject: item.detail for item in desk.plan(desk.request("r")).items}
    assert items["dataset"].endswith("/harbour: 2 files, 427.1Ki")


def test_a_folder_on_the_volume_becomes_a_version(desk: Desk) -> None:
    ensure_volume(desk.cluster, desk.volume, 2**30)
    (root,) = (_root(desk) / "volumes").glob("*/v")
    (root / "incoming").mkdir()
    (root / "incoming" / "train.jsonl").write_text('{"text": "put here"}\n')

    dataset = _stage(desk, DatasetRequest(name="put", source="/volume/incoming", version="v1"))

    assert (root / dataset.path / "train.jsonl").read_text() == '{"text": "put here"}\n'
    assert json.loads((root / dataset.path / "manifest.json").read_text())["source"]["path"] == "incoming"


def test_buckets_of_the_settings_are_named_by_their_table(tmp_path: Path) -> None:
    (tmp_path / "slipway.toml").write_text(
        '[buckets.team-data]\nendpoint_url = "http://127.0.0.1:9"\n'
        '[buckets.old]\nbucket = "team.archive"\nanonymous = true\n'
    )
    settings = load_settings(tmp_path / "slipway.toml")

    assert settings.bucket("team-data").bucket == "team-data"
    assert settings.bucket("old").at("x") == {"kind": "s3", "bucket": "team.archive", "prefix": "x", "anonymous": True}
    assert settings.bucket("elsewhere") == BucketAccess(bucket="elsewhere")


def test_a_run_trains_from_weights_that_were_staged_from_a_bucket(
    desk: Desk, bucket: BucketAccess, s3: Any, tmp_path: Path
) -> None:
    for file in write_model(tmp_path / "mine", size=4000).rglob("*"):
        if file.is_file():
            s3.upload_file(str(file), "team-data", f"weights/v1/{file.relative_to(tmp_path / 'mine')}")
    asked = WeightsToStage(name="mine", source="s3://team-data/weights/v1", bucket=bucket)

    ensure_volume(desk.cluster, desk.volume, 2**30)

    weights = stage_weights(desk.cluster, desk.volume, asked, lambda note: None)

    assert weights.path == "models/mine" and weights.bytes == sum(
        file.stat().st_size for file in (tmp_path / "mine").rglob("*") if file.is_file()
    )
    again = stage_weights(desk.cluster, desk.volume, asked, lambda note: None)
    assert again == weights
    plan = desk.plan(desk.request("own", model__name="/volume/models/mine"))
    assert plan.resolved and plan.resolved.weights.path == "models/mine"


@pytest.mark.parametrize("source", ["hf://datasets/a/b", "s3://", "https://example.org/x"])
def test_weights_come_from_folders_and_buckets_alone(source: str) -> None:
    with pytest.raises(ValidationError, match="no source of weights"):
        WeightsToStage(name="mine", source=source)


def _with_dataset(request: RunRequest, asked: DatasetRequest) -> RunRequest:
    return request.model_copy(update={"dataset": asked})


def _root(desk: Desk) -> Path:
    return desk.cluster._root

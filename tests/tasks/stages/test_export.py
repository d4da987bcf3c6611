"""Checkpoints and runs to a bucket: only what is complete, proven by the store, the manifest last."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from blocks.bucket_access import BucketAccess
from blocks.clusters.errors import UsageError
from tasks.pod import export as program
from tasks.pod.errors import ChangedError
from tasks.pod.layout import Layout
from tasks.runs.export import export
from tasks.stages.stage import StagingError
from tests.tasks.conftest import Desk


@pytest.fixture
def trained(desk: Desk) -> Desk:
    progress = desk.train(desk.request("r", max_steps=4, ckpt__interval=2))
    assert progress.end and progress.end.state == "completed"
    return desk


def _root(desk: Desk) -> Path:
    (root,) = (desk.cluster._root / "volumes").glob("*/v")
    return root


def _keys(s3: Any, prefix: str) -> dict[str, bytes]:
    listed = s3.list_objects_v2(Bucket="team-data", Prefix=prefix).get("Contents", [])
    return {
        o["Key"].removeprefix(prefix): s3.get_object(Bucket="team-data", Key=o["Key"])["Body"].read() for o in listed
    }


def test_steps_and_runs_are_exported_and_nothing_that_is_not_complete(
    trained: Desk, bucket: BucketAccess, s3: Any
) -> None:
    step = _root(trained) / "runs/r/checkpoints/step_4"
    (_root(trained) / "runs/r/checkpoints/step_2/complete.json").unlink()

    done = export(trained.cluster, "v", "r", "latest", bucket, "out/step", lambda note: None)

    there = _keys(s3, "out/step/")
    manifest = json.loads(there.pop(program.MANIFEST))
    assert there == {f.relative_to(step).as_posix(): f.read_bytes() for f in step.rglob("*") if f.is_file()}
    assert {f["path"]: f["sha256"] for f in manifest["files"]} == {
        name: hashlib.sha256(content).hexdigest() for name, content in there.items()
    }
    assert done["files"] == len(there) and done["sent_bytes"] >= done["bytes"]

    with pytest.raises(UsageError, match="incomplete"):
        export(trained.cluster, "v", "r", 2, bucket, "out/step2", lambda note: None)
    export(trained.cluster, "v", "r", None, bucket, "out/run", lambda note: None)
    whole = _keys(s3, "out/run/")
    assert "metrics.jsonl" in whole and not [name for name in whole if "step_2" in name]
    assert [name for name in whole if "step_4" in name]


def test_a_bucket_that_is_not_there_is_said(trained: Desk, bucket: BucketAccess) -> None:
    elsewhere = bucket.model_copy(update={"bucket": "no-such-bucket"})
    with pytest.raises(StagingError, match="no-such-bucket"):
        export(trained.cluster, "v", "r", "latest", elsewhere, "x", lambda note: None)


@pytest.fixture
def place(tmp_path: Path, s3: Any, s3_url: str, monkeypatch: pytest.MonkeyPatch) -> tuple[Layout, dict[str, Any]]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "x")
    step = tmp_path / "volume" / "runs" / "r" / "step_1"
    step.mkdir(parents=True)
    (step / "large").write_bytes(bytes(range(256)) * 90_000)
    (step / "small").write_bytes(b"s")
    target = {"bucket": "team-data", "prefix": "out", "endpoint_url": s3_url, "region": "us-east-1"}
    return Layout(tmp_path / "volume"), {"source": "runs/r/step_1", "target": target}


def test_large_files_go_in_parts_and_what_is_there_is_not_sent_again(
    place: tuple[Layout, dict[str, Any]], s3: Any
) -> None:
    layout, asked = place
    first = program.export(layout, asked)
    s3.put_object(Bucket="team-data", Key="out/small", Body=b"t")

    again = program.export(layout, asked)

    assert _keys(s3, "out/")["large"] == (layout.root / "runs/r/step_1/large").read_bytes()
    assert _keys(s3, "out/")["small"] == b"s"
    assert first["sent_bytes"] > first["bytes"] > 1_000_000 > again["sent_bytes"]


def test_a_checkpoint_that_changes_on_its_way_gets_no_manifest(
    place: tuple[Layout, dict[str, Any]], s3: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    layout, asked = place
    seen = iter(["chosen", "another"])
    monkeypatch.setattr(program, "fingerprint", lambda root: next(seen))

    with pytest.raises(ChangedError, match="no longer what was chosen"):
        program.export(layout, asked | {"fingerprint": "chosen"})

    assert program.MANIFEST not in _keys(s3, "out/")

import hashlib
import json
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest

from tasks.pod import buckets, datasets, staging
from tasks.pod.errors import BadInputError, ChangedError, NotThereError
from tasks.pod.hub import AccessError, UnreachableError
from tasks.pod.layout import Layout
from tasks.pod.progress import Progress

moto = pytest.importorskip("moto.moto_server.werkzeug_app", reason="the S3 server of the tests is moto[server]")
serving = pytest.importorskip("werkzeug.serving")

LARGE = os.urandom(11_000_000)  # two ranges, two parts


class Recorded:
    """An S3 server over HTTP that writes down which ranges it was asked for, and what nobody said to pay for."""

    def __init__(self) -> None:
        self.ranges: list[tuple[str, str]] = []
        self.unpaid: list[str] = []
        self._app = moto.DomainDispatcherApplication(moto.create_backend_app)
        self.server = serving.make_server("127.0.0.1", 0, self, threaded=True)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def __call__(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        if environ["REQUEST_METHOD"] == "GET" and "HTTP_RANGE" in environ:
            self.ranges.append((environ["PATH_INFO"], environ["HTTP_RANGE"]))
        if "HTTP_X_AMZ_REQUEST_PAYER" not in environ:
            self.unpaid.append(environ["QUERY_STRING"] or environ["PATH_INFO"])
        answer: Iterable[bytes] = self._app(environ, start)
        return answer


@pytest.fixture(scope="module")
def server() -> Iterator[Recorded]:
    recorded = Recorded()
    threading.Thread(target=recorded.server.serve_forever, daemon=True).start()
    yield recorded
    recorded.server.shutdown()


@pytest.fixture
def client(server: Recorded, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Any:
    for name, value in {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "hush", "AWS_REGION": "us-east-1"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    server.ranges.clear()
    return boto3.client("s3", endpoint_url=server.url)


@pytest.fixture
def source(client: Any, server: Recorded, request: pytest.FixtureRequest) -> dict[str, Any]:
    bucket = "b" + hashlib.sha256(request.node.name.encode()).hexdigest()[:20]
    client.create_bucket(Bucket=bucket)
    client.put_object(Bucket=bucket, Key="data/v1/", Body=b"")
    client.put_object(Bucket=bucket, Key="data/v1/empty", Body=b"")
    client.put_object(Bucket=bucket, Key="data/v1/deep/-ü x.jsonl", Body=b"{}\n")
    client.put_object(Bucket=bucket, Key="data/v10/other", Body=b"not this")
    upload = client.create_multipart_upload(Bucket=bucket, Key="data/v1/large.bin")["UploadId"]
    parts = []
    for number, start in enumerate(range(0, len(LARGE), 6_000_000), 1):
        part = client.upload_part(
            Bucket=bucket,
            Key="data/v1/large.bin",
            UploadId=upload,
            PartNumber=number,
            Body=LARGE[start : start + 6_000_000],
        )
        parts.append({"PartNumber": number, "ETag": part["ETag"]})
    client.complete_multipart_upload(
        Bucket=bucket, Key="data/v1/large.bin", UploadId=upload, MultipartUpload={"Parts": parts}
    )
    return {"kind": "s3", "bucket": bucket, "prefix": "data/v1", "endpoint_url": server.url}


def stage(layout: Layout, source: dict[str, Any], version: str | None = None) -> dict[str, Any]:
    return datasets.stage(layout, {"name": "d", "version": version, "source": source})


def test_a_prefix_becomes_a_dataset(layout: Layout, source: dict[str, Any], server: Recorded) -> None:
    answer = stage(layout, source)

    path = layout.root / answer["path"]
    assert (path / "large.bin").read_bytes() == LARGE
    assert (path / "deep" / "-ü x.jsonl").read_bytes() == b"{}\n" and (path / "empty").read_bytes() == b""
    assert answer["files"] == 3
    listed = {file["path"]: file["sha256"] for file in json.loads((path / "manifest.json").read_text())["files"]}
    assert listed["large.bin"] == hashlib.sha256(LARGE).hexdigest()
    assert "hush" not in (path / "manifest.json").read_text()
    server.ranges.clear()
    assert stage(layout, source) == answer and not server.ranges


def test_where_who_asks_pays_all_that_costs_says_so(
    layout: Layout, source: dict[str, Any], client: Any, server: Recorded
) -> None:
    client.put_bucket_versioning(Bucket=source["bucket"], VersioningConfiguration={"Status": "Enabled"})
    server.unpaid.clear()

    stage(layout, source | {"requester_pays": True})
    assert server.unpaid == ["versioning"], "which S3 asks nobody to pay for"

    server.unpaid.clear()
    stage(layout, source, "again")
    assert len(server.unpaid) > 4


def test_a_single_object_is_a_dataset_too(layout: Layout, source: dict[str, Any]) -> None:
    answer = stage(layout, source | {"prefix": "data/v1/deep/-ü x.jsonl"})

    assert (layout.root / answer["path"] / "-ü x.jsonl").read_bytes() == b"{}\n"


def test_what_a_killed_job_left_is_continued_by_range(layout: Layout, source: dict[str, Any], server: Recorded) -> None:
    area = layout.staging(staging.dataset_identity("d", "v1", source))
    large = next(found for found in buckets.list_objects(source) if found.path == "large.bin")
    (area / "parts").mkdir(parents=True)
    (area / "parts" / large.part).write_bytes(LARGE[:9_000_000])

    path = layout.root / stage(layout, source, "v1")["path"]

    assert (path / "large.bin").read_bytes() == LARGE
    assert [asked for key, asked in server.ranges if key.endswith("large.bin")] == ["bytes=9000000-10999999"]


def test_an_object_that_changed_since_it_was_listed_is_noticed(
    layout: Layout, source: dict[str, Any], client: Any, tmp_path: Path
) -> None:
    objects = buckets.list_objects(source)
    client.put_object(Bucket=source["bucket"], Key="data/v1/large.bin", Body=LARGE[::-1])

    with (
        pytest.raises(ChangedError, match="written again"),
        Progress(tmp_path, "d", len(LARGE), len(objects)) as progress,
    ):
        buckets.copy_objects(source, objects, tmp_path, tmp_path / "tree", progress)

    assert not (tmp_path / "tree").exists()


def test_a_published_version_does_not_follow_the_bucket(layout: Layout, source: dict[str, Any], client: Any) -> None:
    stage(layout, source, "v1")
    client.put_object(Bucket=source["bucket"], Key="data/v1/deep/-ü x.jsonl", Body=b"[]\n")

    with pytest.raises(BadInputError, match="other content"):
        stage(layout, source, "v1")
    assert stage(layout, source)["version"] != "v1"


def test_what_is_missing_or_closed_is_said(
    layout: Layout, source: dict[str, Any], client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(NotThereError, match="nothing below"):
        stage(layout, source | {"prefix": "none"})
    with pytest.raises(NotThereError, match="NoSuchBucket"):
        stage(layout, source | {"bucket": "nobody-has-this"})
    with pytest.raises(UnreachableError):
        stage(layout, source | {"endpoint_url": "http://127.0.0.1:9"})
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
    with pytest.raises(AccessError, match="no credentials"):
        stage(layout, source)
    for found in buckets.list_objects(source | {"anonymous": True, "region": "us-east-1"}):
        client.put_object_acl(Bucket=source["bucket"], Key=found.key, ACL="public-read")
    assert stage(layout, source | {"anonymous": True, "region": "us-east-1"})["staged"]


@pytest.mark.parametrize("key", ["data/v1/../../evil", "data/v1//etc"])
def test_keys_that_lead_outside_are_refused(layout: Layout, source: dict[str, Any], client: Any, key: str) -> None:
    client.put_object(Bucket=source["bucket"], Key=key, Body=b"x")

    with pytest.raises(BadInputError):
        stage(layout, source)


def test_an_object_that_is_a_folder_too_is_refused(layout: Layout, source: dict[str, Any], client: Any) -> None:
    client.put_object(Bucket=source["bucket"], Key="data/v1/empty/child", Body=b"x")

    with pytest.raises(BadInputError, match="empty"):
        stage(layout, source)

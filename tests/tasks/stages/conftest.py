"""An S3 server over HTTP, with a bucket whose credentials only the cluster's secrets know."""

import threading
from collections.abc import Iterator
from typing import Any

import boto3
import pytest

from blocks.bucket_access import BucketAccess
from blocks.clusters.job import SecretRef
from blocks.clusters.local.cluster import LocalCluster

moto = pytest.importorskip("moto.moto_server.werkzeug_app", reason="the S3 server of the tests is moto[server]")
serving = pytest.importorskip("werkzeug.serving")


@pytest.fixture(scope="session")
def s3_url() -> Iterator[str]:
    app = moto.DomainDispatcherApplication(moto.create_backend_app)
    server = serving.make_server("127.0.0.1", 0, app, threaded=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


@pytest.fixture
def s3(s3_url: str) -> Any:
    """A client with a bucket `team-data` that has one small dataset below `harbour/`."""
    client = boto3.client(
        "s3",
        endpoint_url=s3_url,
        aws_access_key_id="writer",
        aws_secret_access_key="hush",
        region_name="us-east-1",
    )
    client.create_bucket(Bucket="team-data")
    for number in range(3):
        client.put_object(Bucket="team-data", Key="harbour/train.jsonl", Body=b'{"text": "%d"}\n' % number)
    yield client
    for version in client.list_object_versions(Bucket="team-data").get("Versions", []):
        client.delete_object(Bucket="team-data", Key=version["Key"], VersionId=version["VersionId"])
    client.delete_bucket(Bucket="team-data")


@pytest.fixture
def bucket(s3_url: str, cluster: LocalCluster, s3: Any) -> BucketAccess:
    secrets = cluster._root / "secrets" / "s3"
    secrets.mkdir(parents=True)
    (secrets / "SLIPWAY_TEST_KEY_ID").write_text("reader")
    (secrets / "SLIPWAY_TEST_KEY").write_text("hush-hush")
    return BucketAccess(
        bucket="team-data",
        endpoint_url=s3_url,
        region="us-east-1",
        credentials={
            "AWS_ACCESS_KEY_ID": SecretRef(name="s3", key="SLIPWAY_TEST_KEY_ID"),
            "AWS_SECRET_ACCESS_KEY": SecretRef(name="s3", key="SLIPWAY_TEST_KEY"),
        },
    )

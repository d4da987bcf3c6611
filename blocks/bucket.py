"""A saved S3 bucket: where it is, and where its credentials are kept. Never the credentials."""

from prefect.blocks.core import Block
from pydantic import Field

from blocks.bucket_access import BUCKET, BucketAccess
from blocks.clusters.job import SecretRef
from blocks.clusters.strict import Strict


class Bucket(Strict, Block):
    """Where datasets are staged from, and checkpoints exported to: `s3://NAME/…`, NAME being the name of this block."""

    _block_type_name = "Slipway bucket"
    _block_type_slug = "bucket"
    _description = "An S3 bucket, of AWS or any compatible store. The credentials stay where the cluster keeps secrets."

    bucket: str = Field(
        title="Bucket",
        description="Its name at the store.",
        pattern=BUCKET,
        json_schema_extra={"position": 0},
    )
    endpoint_url: str | None = Field(
        default=None,
        title="Endpoint",
        description="Address of an S3-compatible store, such as https://storage.example.org. Empty: AWS.",
        json_schema_extra={"position": 1},
    )
    region: str | None = Field(default=None, title="Region", json_schema_extra={"position": 2})
    anonymous: bool = Field(
        default=False,
        title="Anonymous",
        description="Ask without credentials: a public bucket.",
        json_schema_extra={"position": 3},
    )
    requester_pays: bool = Field(
        default=False,
        title="Requester pays",
        description="Agree to pay for what is read.",
        json_schema_extra={"position": 4},
    )
    credentials: dict[str, SecretRef] = Field(
        default_factory=dict,
        title="Credentials",
        description="Name and key of the secrets in which the cluster keeps AWS_ACCESS_KEY_ID and "
        'AWS_SECRET_ACCESS_KEY: {"AWS_ACCESS_KEY_ID": {"name": "s3", "key": "AWS_ACCESS_KEY_ID"}, …}. '
        "Never the values.",
        json_schema_extra={"position": 5},
    )

    def access(self) -> BucketAccess:
        return BucketAccess(
            bucket=self.bucket,
            endpoint_url=self.endpoint_url or None,
            region=self.region or None,
            anonymous=self.anonymous,
            requester_pays=self.requester_pays,
            credentials=self.credentials,
        )


def document_name(bucket: str) -> str:
    """The name of a bucket's block: Prefect allows no dots in names."""
    return bucket.replace(".", "-")

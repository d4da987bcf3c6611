"""How to reach an S3 bucket: where it is, and where its credentials are kept. Free of Prefect."""

from pydantic import Field

from blocks.clusters.job import Frozen, SecretRef

BUCKET = r"^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$"


class BucketAccess(Frozen):
    """What jobs need to read from a bucket or write to it; nothing else ever gets the credentials.

    Args:
        bucket: its name at the store.
        endpoint_url: of an S3-compatible store; None for AWS.
        region: None where the store needs none.
        anonymous: ask without credentials: a public bucket.
        requester_pays: say that we pay for what is read.
        credentials: where `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY` and, for temporary ones, `AWS_SESSION_TOKEN`
            are kept.
    """

    bucket: str = Field(pattern=BUCKET)
    endpoint_url: str | None = Field(default=None, pattern=r"^https?://[^\s/]+(/.*)?$")
    region: str | None = None
    anonymous: bool = False
    requester_pays: bool = False
    credentials: dict[str, SecretRef] = Field(default_factory=dict)

    def env(self) -> dict[str, str]:
        return {}

    def secrets(self) -> dict[str, SecretRef]:
        return dict(self.credentials)

    def at(self, prefix: str) -> dict[str, object]:
        """A place in the bucket, as the programs beside the data take it."""
        known = {"endpoint_url": self.endpoint_url, "region": self.region}
        flags = {"anonymous": self.anonymous, "requester_pays": self.requester_pays}
        wanted = {key: value for key, value in {**known, **flags}.items() if value}
        return {"kind": "s3", "bucket": self.bucket, "prefix": prefix, **wanted}

"""Finds the saved bucket that an `s3://` source of a form or a schedule means."""

from typing import TypeVar, cast

from blocks.bucket import Bucket, document_name
from blocks.bucket_access import BucketAccess
from tasks.stages.source import SourceRequest, bucket_of

Asked = TypeVar("Asked", bound=SourceRequest)


def with_bucket(asked: Asked | None) -> Asked | None:
    """The same request, with how to reach its bucket: the block of its name, else AWS's bucket of that name."""
    named = bucket_of(asked.source) if asked else None
    if asked is None or named is None or asked.bucket is not None:
        return asked
    try:
        access = cast(Bucket, Bucket.load(document_name(named[0]))).access()
    except ValueError:  # Prefect's word for a block that is not there
        access = BucketAccess(bucket=named[0])
    return asked.model_copy(update={"bucket": access})

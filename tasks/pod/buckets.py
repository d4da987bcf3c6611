"""Copies objects of an S3 bucket into a staging area: ranges in parallel, continued after a kill, changes noticed.

ETags only tell whether an object changed: of multipart uploads they are no MD5. The hash that counts is our own.
"""

import hashlib
import json
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tasks.pod.area import require_space
from tasks.pod.errors import BadInputError, ChangedError, NotThereError, PodError
from tasks.pod.files import File, Proof, check_path
from tasks.pod.hub import AccessError, UnreachableError
from tasks.pod.partial import Partial
from tasks.pod.progress import Progress
from tasks.pod.records import sync

S3Client = Any  # boto3 makes its clients at run time
_RANGE = 8 << 20
_RANGES_AHEAD = 4
_FILES = 2
_SMALL, _SMALL_AT_ONCE = 1 << 20, 16
"""Objects of which many are on their way at once: what they take is latency, not bytes."""


@dataclass(frozen=True)
class Object:
    """An object as it was listed: `path` relative to the prefix, `size` in bytes, `etag` to notice changes by.

    Where the bucket keeps versions, `version` is the one that is read, whatever is written meanwhile.
    """

    key: str
    path: str
    size: int
    etag: str
    version: str | None = None

    @property
    def part(self) -> str:
        """The name of its partial file: another one once the object changes."""
        return hashlib.sha256(f"{self.key}\0{self.etag}\0{self.size}".encode()).hexdigest()


def look(layout: object, source: dict[str, Any]) -> dict[str, Any]:
    """What staging from a prefix would bring: "files" (their number), "bytes". Arguments and errors: `list_objects`."""
    found = list_objects(source)
    return {"files": len(found), "bytes": sum(entry.size for entry in found)}


def list_objects(source: dict[str, Any]) -> list[Object]:
    """What is below a prefix, or the one object of that name.

    Args:
        source: "bucket", "prefix" ("" for all); optional: "endpoint_url" (any S3-compatible server; default
            `$AWS_ENDPOINT_URL`, then AWS), "region", "anonymous", "requester_pays" (both default false). Credentials
            come from the environment (`AWS_ACCESS_KEY_ID`, …).

    Raises:
        NotThereError: no such bucket, or nothing below the prefix.
        AccessError, UnreachableError, BadInputError.
    """
    bucket, prefix = source["bucket"], (source.get("prefix") or "").lstrip("/")
    with explained(source):
        client = make_client(source)
        pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix, **_payer(source))
        entries = [entry for page in pages for entry in page.get("Contents", [])]
        versions = _versions(client, source, prefix) if entries else {}
    below = prefix if prefix.endswith("/") or not prefix else f"{prefix}/"
    found = []
    for entry in entries:
        key, size = entry["Key"], entry["Size"]
        if key == prefix and not key.endswith("/"):
            path = key.rpartition("/")[2]
        elif key.startswith(below) and not key.endswith("/"):  # a key that ends so is a console's folder
            path = key.removeprefix(below)
        else:
            continue
        check_path(path)
        found.append(Object(key, path, size, entry["ETag"], versions.get((key, entry["ETag"]))))
    if not found:
        raise NotThereError(f"There is nothing below s3://{bucket}/{prefix}.", "Check bucket, prefix and endpoint.")
    paths = {entry.path for entry in found}
    if clash := next((p for p in paths for parent in Path(p).parents if str(parent) in paths), None):
        raise BadInputError(f"s3://{bucket}/{prefix} has {clash!r} below what is an object too.", "Rename one of them.")
    return sorted(found, key=lambda entry: entry.path)


def fingerprint(objects: list[Object]) -> str:
    """Changes when an object is added, removed or written again."""
    listing = [[found.path, found.size, found.etag] for found in objects]
    return hashlib.sha256(json.dumps(listing).encode()).hexdigest()


def copy_objects(
    source: dict[str, Any], objects: list[Object], area: Path, tree: Path, progress: Progress
) -> dict[str, Proof]:
    """Copy all objects below `tree`, going on where an earlier attempt was killed.

    Raises:
        ChangedError: an object was written again since it was listed.
        NoSpaceError: before the first byte when the rest does not fit.
        AccessError, UnreachableError, NotThereError.
    """
    parts = area / "parts"
    parts.mkdir(exist_ok=True)
    there = {path.name: path.stat().st_size for path in parts.iterdir()}
    require_space(area, sum(max(0, found.size - there.get(found.part, 0)) for found in objects))
    with explained(source):
        client = make_client(source)
        with (
            ThreadPoolExecutor(_FILES) as files,
            ThreadPoolExecutor(_SMALL_AT_ONCE) as small,
            ThreadPoolExecutor(_FILES * _RANGES_AHEAD) as ranges,
        ):

            def begin(found: Object) -> Future[Proof]:
                how = (client, source, found, parts / found.part, progress)
                return small.submit(_copy, *how) if found.size <= _SMALL else files.submit(_copy, *how, ranges)

            copies = {found: begin(found) for found in objects}
            try:
                proofs, syncs = dict[Object, Proof](), list[Future[None]]()
                for found, copy in copies.items():
                    proofs[found] = copy.result()
                    syncs.append(small.submit(sync, parts / found.part))  # while others are still on their way
                for synced in syncs:
                    synced.result()
            except BaseException:
                files.shutdown(wait=False, cancel_futures=True)
                small.shutdown(wait=False, cancel_futures=True)
                raise
    for found in objects:
        target = tree / found.path
        target.parent.mkdir(parents=True, exist_ok=True)
        (parts / found.part).replace(target)
    return {found.path: proof for found, proof in proofs.items()}


def _copy(
    client: S3Client,
    source: dict[str, Any],
    found: Object,
    part: Path,
    progress: Progress,
    ranges: ThreadPoolExecutor | None = None,
) -> Proof:
    """One object: its ranges are read ahead in parallel and written in order, so that its length says what is there.

    Args:
        ranges: who reads them; None for an object of one.
    """

    def read(start: int) -> bytes:
        end = min(start + _RANGE, found.size) - 1
        answer = client.get_object(
            Bucket=source["bucket"],
            Key=found.key,
            IfMatch=found.etag,
            Range=f"bytes={start}-{end}",
            **({"VersionId": found.version} if found.version else {}),
            **_payer(source),
        )
        content: bytes = answer["Body"].read()
        return content

    with Partial(part, File(found.path, found.size, None), progress) as partial:
        starts = iter(range(partial.done, found.size, _RANGE))
        ahead: deque[Future[bytes]] = deque()
        try:
            if ranges is None:
                for start in starts:
                    partial.append(memoryview(read(start)))
            else:
                _read_ahead(ahead, starts, read, ranges)
            while ranges and ahead:
                chunk = ahead.popleft().result()
                _read_ahead(ahead, starts, read, ranges)
                partial.append(memoryview(chunk))
        finally:
            for future in ahead:
                future.cancel()
        if partial.done != found.size:
            raise ChangedError(f"s3://{source['bucket']}/{found.key} has another size than listed.", "Stage it again.")
        progress.finish_file()
        return partial.hasher.proof()


def _read_ahead(
    ahead: "deque[Future[bytes]]", starts: Iterator[int], read: Callable[[int], bytes], ranges: ThreadPoolExecutor
) -> None:
    while len(ahead) < _RANGES_AHEAD and (start := next(starts, None)) is not None:
        ahead.append(ranges.submit(read, start))


def _versions(client: S3Client, source: dict[str, Any], prefix: str) -> dict[tuple[str, str], str]:
    """(key, ETag) → id of the current version, where the bucket keeps versions and we may ask for them."""
    from botocore.exceptions import ClientError

    try:
        if client.get_bucket_versioning(Bucket=source["bucket"]).get("Status") != "Enabled":
            return {}
        asked = {"Bucket": source["bucket"], "Prefix": prefix, **_payer(source)}
        pages = client.get_paginator("list_object_versions").paginate(**asked)
        listed = [version for page in pages for version in page.get("Versions", [])]
    except ClientError:  # no permission to ask, or a store without versions: the ETag tells changes all the same
        return {}
    return {(version["Key"], version["ETag"]): version["VersionId"] for version in listed if version["IsLatest"]}


def _payer(source: dict[str, Any]) -> dict[str, Any]:
    return {"RequestPayer": "requester"} if source.get("requester_pays") else {}


def make_client(source: dict[str, Any]) -> S3Client:
    """A client for a place as `list_objects` takes it; credentials from the environment."""
    import boto3
    from botocore import UNSIGNED
    from botocore.config import Config

    url = source.get("endpoint_url")
    config = Config(
        connect_timeout=5,
        read_timeout=30,
        max_pool_connections=_FILES * _RANGES_AHEAD + _SMALL_AT_ONCE,
        retries={"mode": "standard", "total_max_attempts": 5},
        signature_version=UNSIGNED if source.get("anonymous") else None,
        # buckets as sub-domains need a DNS that servers other than AWS rarely have
        s3={"addressing_style": "path"} if url else {},
    )
    return boto3.Session().client("s3", endpoint_url=url, region_name=source.get("region"), config=config)


@contextmanager
def explained(source: dict[str, Any]) -> Iterator[None]:
    """Turn what botocore raises into errors with a remedy. The credentials are never in them."""
    from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError, NoRegionError
    from botocore.exceptions import ConnectionError as NoConnectionError

    where = f"s3://{source['bucket']}/{source.get('prefix') or ''}"
    try:
        yield
    except ClientError as error:
        raise _refusal(where, error.response) from error
    except NoCredentialsError as error:
        raise AccessError(
            f"There are no credentials for {where}.",
            "Say where they are kept in [buckets.NAME.credentials] (slipway.toml, or its block), or anonymous = true.",
        ) from error
    except NoRegionError as error:
        raise BadInputError(f"The region of {where} is not known.", "Name it.") from error
    except NoConnectionError as error:
        raise UnreachableError(f"{where} can not be reached: {error}", "Check endpoint_url and the network.") from error
    except BotoCoreError as error:
        raise PodError(f"{where} can not be read: {error}", "Check bucket, endpoint_url and credentials.") from error


def _refusal(where: str, answer: Any) -> PodError:
    code, status = answer["Error"]["Code"], answer["ResponseMetadata"]["HTTPStatusCode"]
    if status == 412:
        return ChangedError(f"An object of {where} was written again while it was copied.", "Stage it again.")
    if code in ("NoSuchBucket", "NoSuchKey") or status == 404:
        return NotThereError(f"There is no {where} ({code}).", "Check bucket, prefix and endpoint_url.")
    if status in (401, 403):
        return AccessError(
            f"The credentials do not allow this for {where} ({code}).", "Check the secret and the policy."
        )
    if status == 429 or status >= 500:
        return UnreachableError(
            f"The server of {where} answers {status} ({code}).", "Ask again later; what has arrived is kept."
        )
    return PodError(
        f"The server refuses {where}: {answer['Error'].get('Message', code)} ({code}).", "Check the request."
    )

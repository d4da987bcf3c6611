"""Uploads a checkpoint, or a run, to a bucket: every part proven by the store, the manifest last."""

import base64
import hashlib
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tasks.pod.area import clear, staging_area
from tasks.pod.buckets import S3Client, explained, make_client
from tasks.pod.checkpoints.fingerprint import fingerprint
from tasks.pod.errors import ChangedError, NotThereError
from tasks.pod.files import prove
from tasks.pod.layout import Layout
from tasks.pod.progress import Progress
from tasks.pod.staging import identity
from tasks.pod.walk import walk

MANIFEST = "slipway-export.json"
_PART = 16 << 20
_FILES, _PARTS = 2, 4


def export_identity(source: str, target: dict[str, Any]) -> str:
    return identity("export", source, str(target["bucket"]), str(target["prefix"]))


def export(layout: Layout, arguments: dict[str, Any]) -> dict[str, Any]:
    """Upload a directory of a run. Run as a job; asked again, what is there already is not sent again.

    Args:
        layout: the volume.
        arguments: "source" (relative to the volume), "fingerprint" (of a checkpoint, as it was when it was chosen; null
            for a run), "leave_out" (paths below the source), "target" (as `tasks.pod.buckets.list_objects` takes it).

    Returns:
        "files", "bytes", "sent_bytes" (without what was there), "manifest" (its key).

    Raises:
        NotThereError: there is no such directory.
        ChangedError: it is not, or no longer, what was chosen. No manifest is written then.
        AccessError, UnreachableError: the store refuses or does not answer.
    """
    root, target = layout.resolve(arguments["source"]), arguments["target"]
    if not root.is_dir():
        raise NotThereError(f"There is no {arguments['source']} on this volume.", "Check the run and the step.")
    left_out = tuple(arguments.get("leave_out") or ())
    _unchanged(root, arguments)
    paths = [e.path for e in walk(root) if not e.is_directory and not _is_below(e.path, left_out)]
    sizes = {path: (root / path).stat().st_size for path in paths}
    prefix = str(target["prefix"]).strip("/")
    with (
        staging_area(layout, export_identity(arguments["source"], target)) as area,
        Progress(
            area, f"{arguments['source']} to s3://{target['bucket']}/{prefix}", sum(sizes.values()), len(paths)
        ) as progress,
        explained(target),
    ):
        upload = _Upload(make_client(target), target["bucket"], progress)
        with ThreadPoolExecutor(_FILES) as pool:
            files = list(pool.map(lambda path: upload.send(root / path, path, f"{prefix}/{path}".lstrip("/")), paths))
        _unchanged(root, arguments)
        key = f"{prefix}/{MANIFEST}".lstrip("/")
        manifest = {"source": arguments["source"], "fingerprint": arguments.get("fingerprint"), "files": files}
        upload.put(key, json.dumps(manifest, indent=1).encode(), {})
        clear(area)
    return {"files": len(files), "bytes": sum(sizes.values()), "sent_bytes": upload.sent, "manifest": key}


class _Upload:
    def __init__(self, client: S3Client, bucket: str, progress: Progress) -> None:
        self._client, self._bucket, self._progress = client, bucket, progress
        self.sent = 0

    def send(self, path: Path, name: str, key: str) -> dict[str, Any]:
        proof = prove(path)
        described = {"path": name, "size": proof.size, "sha256": proof.sha256}
        if self._is_there(key, proof.size, proof.sha256):
            self._progress.add(proof.size)
        elif proof.size <= _PART:
            self.put(key, path.read_bytes(), {"sha256": proof.sha256})
            self._progress.add(proof.size)
        else:
            self._send_parts(path, key, proof.size, proof.sha256)
        if not self._is_there(key, proof.size, proof.sha256):
            raise ChangedError(f"{name} did not arrive as it was sent.", "Export it again.")
        self._progress.finish_file()
        return described

    def put(self, key: str, content: bytes, metadata: dict[str, str]) -> None:
        self._client.put_object(Bucket=self._bucket, Key=key, Body=content, ContentMD5=_md5(content), Metadata=metadata)
        self.sent += len(content)

    def _send_parts(self, path: Path, key: str, size: int, sha256: str) -> None:
        made = self._client.create_multipart_upload(Bucket=self._bucket, Key=key, Metadata={"sha256": sha256})
        where = {"Bucket": self._bucket, "Key": key, "UploadId": made["UploadId"]}

        def part(number: int) -> dict[str, Any]:
            with path.open("rb") as file:
                file.seek(number * _PART)
                content = file.read(_PART)
            answer = self._client.upload_part(**where, PartNumber=number + 1, Body=content, ContentMD5=_md5(content))
            self._progress.add(len(content))
            return {"PartNumber": number + 1, "ETag": answer["ETag"]}

        try:
            with ThreadPoolExecutor(_PARTS) as pool:
                parts = list(pool.map(part, range(-(-size // _PART))))
            self._client.complete_multipart_upload(**where, MultipartUpload={"Parts": parts})
        except BaseException:
            self._client.abort_multipart_upload(**where)  # parts of one that is never completed cost money
            raise
        self.sent += size

    def _is_there(self, key: str, size: int, sha256: str) -> bool:
        from botocore.exceptions import ClientError

        try:
            found = self._client.head_object(Bucket=self._bucket, Key=key)
        except ClientError as error:
            if error.response["ResponseMetadata"]["HTTPStatusCode"] == 404:
                return False
            raise
        return bool(found["ContentLength"] == size and found["Metadata"].get("sha256") == sha256)


def _md5(content: bytes) -> str:
    """What the store checks each part by on arrival."""
    return base64.b64encode(hashlib.md5(content, usedforsecurity=False).digest()).decode()


def _unchanged(root: Path, arguments: dict[str, Any]) -> None:
    chosen = arguments.get("fingerprint")
    if chosen and fingerprint(root) != chosen:
        raise ChangedError(f"{arguments['source']} is no longer what was chosen.", "Export it again.")


def _is_below(path: str, folders: tuple[str, ...]) -> bool:
    return any(path == folder or path.startswith(f"{folder}/") for folder in folders)

"""Staging a dataset from an S3 server on this machine, against `aws s3 cp` and `s5cmd`; prints a Markdown table.

`python -m benchmarks.buckets [MEGABYTES] [ROUNDS]`. The server is JuiceFS's gateway on a local directory: real
multipart objects, ranges and If-Match. Staging proves every byte by sha256 on its way and publishes; the others copy.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import boto3
from botocore.exceptions import BotoCoreError, ClientError

from benchmarks.measure import Sample, compare, interleaved, machine, measure
from benchmarks.tools import tool
from deployments import server
from tasks.pod.area import remove_tree

FILES, SMALL = 8, 100
BUCKET = "bench"
KEYS = {
    "AWS_ACCESS_KEY_ID": "benchmark",
    "AWS_SECRET_ACCESS_KEY": "benchmark-only",
    "AWS_REGION": "us-east-1",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
}


def main(megabytes: int = 1024, rounds: int = 3) -> None:
    print(machine())
    juicefs = tool("juicefs")
    if juicefs is None:
        sys.exit("Not measured: there is no juicefs, whose gateway is the S3 server.")
    os.environ.update(KEYS)
    with tempfile.TemporaryDirectory(dir=os.environ.get("SLIPWAY_BENCH_DISK")) as folder:
        work = Path(folder)
        with _gateway(juicefs, work) as url:
            _fill(url, work, megabytes)
            try:
                _measure(work, url, megabytes, rounds)
            finally:
                if (work / "copy").exists():
                    remove_tree(work / "copy")


def _measure(work: Path, url: str, megabytes: int, rounds: int) -> None:
    source = {"kind": "s3", "bucket": BUCKET, "prefix": "data", "endpoint_url": url}
    stage = [sys.executable, "-m", "tasks.pod.program", "datasets.stage"]
    stage.append(json.dumps({"name": "bench", "version": "1", "source": source}))
    aws, s5cmd, target = tool("aws"), tool("s5cmd"), work / "copy"
    variants: dict[str, Callable[[int], Sample]] = {}
    env = {"SLIPWAY_VOLUME": str(target), "PYTHONPATH": str(Path.cwd())}

    def take(words: list[str]) -> Callable[[int], Sample]:
        def once(number: int) -> Sample:
            if target.exists():
                remove_tree(target)
            target.mkdir()
            sample = measure(words, env=env)
            found = [path for path in target.rglob("part-*") if path.is_file()]
            if len(found) != FILES + SMALL or sum(path.stat().st_size for path in found) < megabytes * 2**20:
                raise RuntimeError(f"{words[0]} left {len(found)} files")
            return sample

        return once

    if aws:
        copy = ["s3", "cp", "--recursive", "--only-show-errors", f"s3://{BUCKET}/data", str(target)]
        variants["aws s3 cp --recursive"] = take([aws, "--endpoint-url", url, *copy])
    if s5cmd:
        variants["s5cmd cp"] = take([s5cmd, "--endpoint-url", url, "cp", f"s3://{BUCKET}/data/*", f"{target}/"])
    variants["slipway, verified"] = take(stage)
    title = f"Staging {megabytes} MiB in {FILES} large and {SMALL} small objects from an S3 server on this machine"
    compare(title, interleaved(variants, rounds), next(iter(variants)), megabytes * 2**20)


def _fill(url: str, work: Path, megabytes: int) -> None:
    client: Any = boto3.client("s3", endpoint_url=url)
    for _ in range(100):
        try:
            client.create_bucket(Bucket=BUCKET)
            break
        except (BotoCoreError, ClientError):
            time.sleep(0.2)
    large = work / "large"
    for number in range(FILES):
        with large.open("wb") as out:
            for _ in range(megabytes // FILES):
                out.write(os.urandom(2**20))
        client.upload_file(str(large), BUCKET, f"data/part-{number}.parquet.bin")
    large.unlink()
    for number in range(SMALL):
        client.put_object(Bucket=BUCKET, Key=f"data/small/part-{number}.txt", Body=os.urandom(10_000))


@contextmanager
def _gateway(juicefs: str, work: Path) -> Iterator[str]:
    meta, port = f"sqlite3://{work}/meta.db", server.free_port(0)
    env = os.environ | {
        "MINIO_ROOT_USER": KEYS["AWS_ACCESS_KEY_ID"],
        "MINIO_ROOT_PASSWORD": KEYS["AWS_SECRET_ACCESS_KEY"],
    }
    (work / "blocks").mkdir()
    made = [juicefs, "format", "--storage", "file", "--bucket", f"{work}/blocks/", "--trash-days", "0", meta, "bench"]
    subprocess.run(made, env=env, check=True, capture_output=True)
    serve = [juicefs, "gateway", meta, f"127.0.0.1:{port}", "--multi-buckets", "--keep-etag", "--no-usage-report"]
    with (work / "gateway.log").open("w") as log:
        cache = ["--cache-dir", str(work / "cache"), "--cache-size", "0"]
        process = subprocess.Popen([*serve, *cache], env=env, stdout=log, stderr=log)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


if __name__ == "__main__":
    main(*(int(word) for word in sys.argv[1:]))

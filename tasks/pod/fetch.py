"""Downloads files of a Hub repository into a staging area: in parallel, every byte proven, continued after a kill."""

import http.client
import os
import sys
import threading
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from pathlib import Path

from tasks.pod.errors import ChangedError, NoSpaceError
from tasks.pod.files import File, Proof
from tasks.pod.hub import Source, UnreachableError, ask, endpoint, retry_after, unreachable
from tasks.pod.partial import Partial
from tasks.pod.progress import Progress
from tasks.pod.ranged import Reader, StatusError
from tasks.pod.records import sync
from tasks.pod.reserve import is_full
from tasks.pod.xet import XetReader

PARALLEL = 4

_CHUNK = 1 << 18
_FRUITLESS = 5
"""Attempts in a row that brought nothing, after which the Hub counts as unreachable."""

_WORTHWHILE = 1 << 20
"""Bytes that an attempt must bring to count as progress, so that a server which cuts every answer is given up on."""


class StoppedError(Exception):
    """Another file failed: this one keeps what it has and ends."""


class Fetcher:
    """Downloads from one repository at one commit.

    Args:
        source: the repository; its revision is the commit.
        area: the staging area. Partial files are kept in `parts/`, where the next attempt finds them.
        progress: counts bytes as they become proven or arrive.
    """

    def __init__(self, source: Source, area: Path, progress: Progress) -> None:
        from huggingface_hub.constants import HF_HUB_DOWNLOAD_TIMEOUT
        from huggingface_hub.utils._headers import build_hf_headers

        self._source = source
        self._area = area
        self._progress = progress
        self._headers = {name: str(value) for name, value in build_hf_headers(library_name="slipway").items()}
        self._timeout = float(HF_HUB_DOWNLOAD_TIMEOUT)
        self._xet = XetReader(source, self._headers) if XetReader.is_available() else None
        self._stop = threading.Event()
        self._threads = threading.local()

    def fetch(self, wanted: dict[Path, File]) -> dict[Path, Proof]:
        """Download files to the paths given; each appears there whole and proven, or not at all.

        Raises:
            ChangedError: the Hub twice sent bytes that are not what its tree says.
            NoSpaceError, UnreachableError, AccessError, NotThereError.
        """
        (self._area / "parts").mkdir(exist_ok=True)
        largest_first = sorted(wanted, key=lambda target: -wanted[target].size)
        with ThreadPoolExecutor(PARALLEL) as pool:
            futures = {target: pool.submit(self._fetch_one, wanted[target], target) for target in largest_first}
            done, _ = wait(futures.values(), return_when=FIRST_EXCEPTION)
            self._stop.set()
            errors = [future.exception() for future in done if not future.cancelled()]
            for error in errors:
                if error and not isinstance(error, StoppedError):
                    pool.shutdown(cancel_futures=True)
                    raise error
        return {target: future.result() for target, future in futures.items()}

    def _fetch_one(self, file: File, target: Path) -> Proof:
        if self._stop.is_set():
            raise StoppedError
        part = self._area / "parts" / file.key.replace(":", "-")
        try:
            proof = self._bring(file, part)
            target.parent.mkdir(parents=True, exist_ok=True)
            part.chmod(0o444)
            part.rename(target)
            sync(target.parent)
        except OSError as error:
            if is_full(error):
                raise NoSpaceError(
                    f"The volume is full: {file.path} did not fit.",
                    "Grow it, prune checkpoints, or remove what is not needed; staging then continues where it was.",
                ) from error
            raise
        self._progress.finish_file()
        return proof

    def _by_xet(self, partial: Partial) -> None:
        """Read what is left of a file over Xet, where the Hub offers it; what fails is left to plain HTTP."""
        file = partial.file
        if self._xet is None or not file.xet_hash or partial.done >= file.size:
            return
        try:
            for chunk in self._xet.read(file, partial.done):
                partial.append(memoryview(chunk))
                if self._stop.is_set():
                    raise StoppedError
        except StoppedError:
            raise
        except Exception as error:  # the client's errors have no base of their own
            if isinstance(error, OSError) and is_full(error):
                raise
            self._xet = None  # it has tried more than once: the other files need not wait for that
            print(f"{file.path}: Xet failed ({error}), going on over plain HTTP", file=sys.stderr, flush=True)

    def _bring(self, file: File, part: Path) -> Proof:
        from huggingface_hub import hf_hub_url

        source = self._source
        url = hf_hub_url(
            source.repo, file.path, repo_type=source.repo_type, revision=source.revision, endpoint=endpoint()
        )
        with Partial(part, file, self._progress) as partial:
            self._by_xet(partial)
            for last in (False, True):
                self._complete(partial, url)
                proof = partial.hasher.proof()
                if file.is_proven_by(proof):
                    os.fsync(partial.descriptor)
                    return proof
                partial.restart()
                if not last:
                    print(f"{file.path}: wrong bytes, fetching it again", file=sys.stderr, flush=True)
        raise ChangedError(
            f"{file.path} of the {source} is not what its tree says: {file.size} bytes came twice with another hash.",
            "Check the Hub, mirror or proxy at HF_ENDPOINT; nothing was published.",
        )

    def _complete(self, partial: Partial, url: str) -> None:
        """Read until the file has its size, over as many connections as that takes."""
        fruitless = 0
        while partial.done < partial.file.size:
            before = partial.done
            pause = min(0.5 * 2**fruitless, 8.0)
            failure: Exception
            try:
                self._stream(partial, url)
                failure = http.client.HTTPException("the connection ended early")
            except StatusError as error:
                failure = error
                if error.status == 416:
                    partial.restart()
                elif error.status == 429:
                    pause = retry_after(error.headers.get("Retry-After"))
                elif error.status < 500:
                    # huggingface_hub knows what it means; if it does not mind, a signed address had expired
                    ask(self._source, lambda api: api.get_hf_file_metadata(url=url))
            except (OSError, http.client.HTTPException) as error:
                if isinstance(error, OSError) and is_full(error):
                    raise
                failure = error
            if partial.done >= partial.file.size:
                return
            fruitless = 0 if partial.done - before >= _WORTHWHILE else fruitless + 1
            if fruitless >= _FRUITLESS:
                raise self._give_up(partial.file, failure) from failure
            if fruitless:
                self._sleep(pause)

    def _stream(self, partial: Partial, url: str) -> None:
        with self._reader().open(url, self._headers, partial.done) as (response, start):
            if start != partial.done:
                partial.restart()
            buffer = memoryview(bytearray(_CHUNK))
            while left := partial.file.size - partial.done:
                count = response.readinto(buffer[: min(left, _CHUNK)])
                if not count:
                    return
                partial.append(buffer[:count])
                if self._stop.is_set():
                    raise StoppedError

    def _reader(self) -> Reader:
        if not hasattr(self._threads, "reader"):
            self._threads.reader = Reader(self._timeout)
        reader: Reader = self._threads.reader
        return reader

    def _sleep(self, seconds: float) -> None:
        if self._stop.wait(seconds):
            raise StoppedError

    def _give_up(self, file: File, failure: Exception) -> UnreachableError:
        if isinstance(failure, StatusError):
            return UnreachableError(
                f"The Hub at {endpoint()} answers {failure.status} for {file.path} of the {self._source}.",
                "Ask again later; what has arrived is kept.",
            )
        return unreachable(failure)


def left_to_fetch(area: Path, wanted: list[File]) -> int:
    """Bytes that are still to come, given the partial files that an earlier attempt left."""
    left = 0
    for file in wanted:
        part = area / "parts" / file.key.replace(":", "-")
        left += max(0, file.size - (part.stat().st_size if part.exists() else 0))
    return left

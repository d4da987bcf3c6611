"""Reading files of a Hub over Xet, by Xet's own client: from any byte on, so that a killed download goes on."""

import threading
from collections.abc import Iterator
from contextlib import closing
from typing import Any

from tasks.pod.files import File
from tasks.pod.hub import Source, endpoint

_BOUNDS = {
    # of all files at once: by default the client buffers gigabytes, more than a staging job may have
    "reconstruction.download_buffer_size": "128mb",
    "reconstruction.download_buffer_perfile_size": "32mb",
    "reconstruction.download_buffer_limit": "256mb",
    "reconstruction.min_prefetch_buffer": "64mb",
    # then plain HTTP goes on, with patience of its own
    "client.retry_max_attempts": 2,
    "client.retry_base_delay": "500ms",
    "client.connect_timeout": "10s",
    "client.read_timeout": "30s",
    "telemetry.enabled": False,
}


class XetReader:
    """Reads from one repository at one commit.

    Args:
        headers: of requests to the Hub, with the token; Xet's servers get a token of their own.
    """

    def __init__(self, source: Source, headers: dict[str, str]) -> None:
        self._source = source
        self._headers = headers
        self._lock = threading.Lock()
        self._group: Any = None

    @staticmethod
    def is_available() -> bool:
        """Whether the client is installed, and not turned off (HF_HUB_DISABLE_XET)."""
        from huggingface_hub.utils._runtime import is_xet_available

        return bool(is_xet_available())

    def read(self, file: File, start: int) -> Iterator[bytes]:
        """The bytes of a file from `start` on, in order and in chunks of any size.

        Raises:
            Exception: the client's own, of which it has no base class.
        """
        import hf_xet  # type: ignore[import-untyped]

        stream = self._connected().download_stream(hf_xet.XetFileInfo(file.xet_hash, file.size), start=start)
        with closing(_Cancelled(stream)):
            yield from stream

    def _connected(self) -> Any:
        with self._lock:
            if self._group is None:
                import hf_xet

                config = hf_xet.XetConfig()
                known = set(config.keys())  # another version may have others
                config = config.with_config({key: value for key, value in _BOUNDS.items() if key in known})
                of = f"{self._source.repo_type}s/{self._source.repo}/xet-read-token/{self._source.revision}"
                self._group = hf_xet.XetSession(config).new_download_stream_group(
                    token_refresh_url=f"{endpoint()}/api/{of}",
                    token_refresh_headers=self._headers,
                    custom_headers={k: v for k, v in self._headers.items() if k.lower() != "authorization"},
                )
            return self._group


class _Cancelled:
    """What is read ahead of a reader that stops is not wanted any more."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def close(self) -> None:
        self._stream.cancel()

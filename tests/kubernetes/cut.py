"""A way to a server that can be cut while it is used."""

import contextlib
import socket
import threading
from collections.abc import Iterator


class Way:
    """Passes TCP connections on, and counts what it passes.

    Args:
        to: port of 127.0.0.1 to pass them on to.
    """

    def __init__(self, to: int) -> None:
        self._to = to
        self._server = socket.create_server(("127.0.0.1", 0))
        self._open: set[socket.socket] = set()
        self.port: int = self._server.getsockname()[1]
        self.sent = self.received = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """Close all connections there are; new ones are taken."""
        for end in list(self._open):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._server.close()
        self.cut()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # it is closed
            while True:
                near, _ = self._server.accept()
                far = socket.create_connection(("127.0.0.1", self._to))
                self._open |= {near, far}
                for ends, sent in (((near, far), True), ((far, near), False)):
                    threading.Thread(target=self._pass, args=(*ends, sent), daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket, sent: bool) -> None:
        with contextlib.suppress(OSError):
            while piece := source.recv(1 << 18):
                target.sendall(piece)
                if sent:
                    self.sent += len(piece)
                else:
                    self.received += len(piece)
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            self._open.discard(end)


@contextlib.contextmanager
def way_to(port: int) -> Iterator[Way]:
    way = Way(port)
    try:
        yield way
    finally:
        way.close()

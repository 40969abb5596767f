"""A TCP proxy on loopback that a test can cut, hold and open again."""

import contextlib
import selectors
import socket
import threading
from collections.abc import Iterator
from typing import Final

CHUNK: Final = 65536


class Proxy:
    """Passes connections on to one port of 127.0.0.1. Use `proxied`."""

    def __init__(self, target_port: int) -> None:
        self._target_port = target_port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._pairs: set[tuple[socket.socket, socket.socket]] = set()
        self._lock = threading.Lock()
        self._held = threading.Event()
        self._closed = threading.Event()

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._listener.getsockname()[1])

    def cut(self) -> int:
        """Close every connection once; how many there were."""
        with self._lock:
            pairs = list(self._pairs)
        for pair in pairs:
            for end in pair:
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
        return len(pairs)

    def hold(self, *, held: bool) -> None:
        """Pass nothing on while held: connections stay open and nothing is answered."""
        if held:
            self._held.set()
        else:
            self._held.clear()

    def serve(self) -> None:
        """Accept until closed."""
        with self._listener:
            self._listener.settimeout(0.1)
            while not self._closed.is_set():
                try:
                    client, _ = self._listener.accept()
                except TimeoutError:
                    continue
                threading.Thread(target=self._join, args=(client,), daemon=True).start()

    def close(self) -> None:
        """Close every connection, and the listener within its next look."""
        self._closed.set()
        self.cut()

    def _join(self, client: socket.socket) -> None:
        try:
            server = socket.create_connection(("127.0.0.1", self._target_port), timeout=5)
        except OSError:
            client.close()
            return
        server.settimeout(None)
        pair = (client, server)
        with self._lock:
            self._pairs.add(pair)
        with contextlib.suppress(OSError):
            self._pump(*pair)
        with self._lock:
            self._pairs.discard(pair)
        for end in pair:
            end.close()

    def _pump(self, client: socket.socket, server: socket.socket) -> None:
        with selectors.DefaultSelector() as ready:
            ready.register(client, selectors.EVENT_READ, server)
            ready.register(server, selectors.EVENT_READ, client)
            while not self._closed.is_set():
                if self._held.is_set():
                    self._closed.wait(0.05)
                    continue
                for key, _ in ready.select(timeout=0.1):
                    source: socket.socket = key.fileobj  # type: ignore[assignment]
                    data = source.recv(CHUNK)
                    if not data:
                        return
                    key.data.sendall(data)


@contextlib.contextmanager
def proxied(target_port: int) -> Iterator[Proxy]:
    """A proxy to a port of 127.0.0.1 for the duration of a with block."""
    proxy = Proxy(target_port)
    serving = threading.Thread(target=proxy.serve, daemon=True)
    serving.start()
    try:
        yield proxy
    finally:
        proxy.close()
        serving.join(timeout=5)

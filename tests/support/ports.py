"""Ports for tests: nobody listens on them, and nothing else will take them before the test does.

A port of the kernel's own choice is one that any connection of the machine may get as its own end a
moment later. These lie below that range (ip_local_port_range, 32768 and up) and below the cluster's
node ports (30000 and up), and each is handed out once in about 18,000, whichever process asks.
"""

import fcntl
import os
import random
import socket
import tempfile
from pathlib import Path
from typing import Final

_RANGE: Final = range(11_800, 29_800)
_NEXT: Final = Path(tempfile.gettempdir()) / f"kindling-test-ports-{os.getuid()}"


def free_port() -> int:
    """One of them."""
    return free_ports(1)[0]


def free_ports(count: int) -> list[int]:
    """So many of them, all different."""
    found: list[int] = []
    with _NEXT.open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        said = file.read()
        number = int(said) if said.isdecimal() else random.randrange(len(_RANGE))
        while len(found) < count:
            number += 1
            port = _RANGE[number % len(_RANGE)]
            if _is_free(port):
                found.append(port)
        file.truncate(0)
        file.write(str(number % len(_RANGE)))
    return found


def _is_free(port: int) -> bool:
    """Whether it can be bound on every address."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("0.0.0.0", port))
        except OSError:
            return False
    return True

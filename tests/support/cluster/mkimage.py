#!/usr/bin/env python3
"""Make an image of one static binary, without any builder or registry.

    mkimage.py OUT.tar NAME:TAG BINARY [ARGUMENT...]

writes a docker-archive with one layer: /BINARY, /tmp, and users root and nonroot (65532). The same
input makes the same bytes.
"""

from __future__ import annotations

import hashlib
import io
import json
import platform
import sys
import tarfile
from pathlib import Path

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
PASSWD = b"root:x:0:0:root:/:/none\nnonroot:x:65532:65532:nonroot:/:/none\n"
GROUP = b"root:x:0:\nnonroot:x:65532:\n"


def add(archive: tarfile.TarFile, name: str, data: bytes | None, *, mode: int = 0o755) -> None:
    """Add a file, or a folder where `data` is None."""
    entry = tarfile.TarInfo(name)
    entry.mode = mode
    if data is None:
        entry.type = tarfile.DIRTYPE
        archive.addfile(entry)
    else:
        entry.size = len(data)
        archive.addfile(entry, io.BytesIO(data))


def layer_of(binary: Path) -> bytes:
    """The layer as an uncompressed tar."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as layer:
        add(layer, "etc", None)
        add(layer, "tmp", None, mode=0o1777)
        add(layer, "etc/passwd", PASSWD, mode=0o644)
        add(layer, "etc/group", GROUP, mode=0o644)
        add(layer, binary.name, binary.read_bytes())
    return out.getvalue()


def write_image(*, out: Path, name: str, binary: Path, arguments: list[str]) -> None:
    """Write the docker-archive `out`."""
    layer = layer_of(binary)
    digest = hashlib.sha256(layer).hexdigest()
    config = json.dumps(
        {
            "architecture": ARCHITECTURES[platform.machine()],
            "os": "linux",
            "config": {
                "Entrypoint": ["/" + binary.name],
                "Cmd": arguments or None,
                "User": "65532:65532",
                "Env": ["PATH=/"],
            },
            "rootfs": {"type": "layers", "diff_ids": ["sha256:" + digest]},
            "history": [{"created_by": "mkimage"}],
        }
    ).encode()
    config_name = hashlib.sha256(config).hexdigest() + ".json"
    layer_name = digest + "/layer.tar"
    manifest = [{"Config": config_name, "RepoTags": [name], "Layers": [layer_name]}]
    with tarfile.open(out, "w") as archive:
        add(archive, layer_name, layer, mode=0o644)
        add(archive, config_name, config, mode=0o644)
        add(archive, "manifest.json", json.dumps(manifest).encode(), mode=0o644)


def main(arguments: list[str]) -> None:
    """Run with the command line's arguments."""
    if len(arguments) < 3:
        raise SystemExit(__doc__)
    out, name, binary, *rest = arguments
    write_image(out=Path(out), name=name, binary=Path(binary), arguments=rest)


if __name__ == "__main__":
    main(sys.argv[1:])

"""Another version of an image, made in the registry: one more layer with other files in it, or the
same layers with other environment variables.

Takes a second where a rebuild takes minutes. Speaks the OCI distribution API over plain HTTP, as
the cluster's own registry does.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
import urllib.request
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any, Final
from urllib.parse import urljoin

CALL_SECONDS: Final = 60
_MANIFEST: Final = "application/vnd.oci.image.manifest.v1+json"
_LAYER: Final = "application/vnd.oci.image.layer.v1.tar+gzip"


def overlaid(reference: str, files: Mapping[str, bytes]) -> str:
    """A copy of an image in which the files (absolute path to content) are replaced.

    `reference` is HOST:PORT/NAME@DIGEST of an OCI image, and so is the result. Byte code of a
    replaced Python file is removed: images hold it unchecked, it would win over the new source.
    """
    repository, manifest, config = _read(reference)
    tar = _layer(files)
    layer = gzip.compress(tar, mtime=0)
    config["rootfs"]["diff_ids"].append(_digest(tar))
    config.setdefault("history", []).append({"created_by": "tests/support/overlay.py"})
    manifest["layers"].append(_uploaded(repository, layer, kind=_LAYER))
    return _written(reference, repository, manifest, config)


def with_environment(reference: str, variables: Mapping[str, str]) -> str:
    """A copy of an image with these variables, as somebody's own runtime image has them (a mirror
    of the hub, a proxy)."""
    repository, manifest, config = _read(reference)
    settings: dict[str, Any] = config.setdefault("config", {})
    kept = [each for each in settings.get("Env", ()) if each.partition("=")[0] not in variables]
    settings["Env"] = [*kept, *(f"{name}={value}" for name, value in variables.items())]
    return _written(reference, repository, manifest, config)


def _read(reference: str) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """Address of the image's repository, its manifest, its config."""
    image, digest = reference.split("@")
    host, _, name = image.partition("/")
    repository = f"http://{host}/v2/{name}/"
    manifest = json.loads(_call(f"{repository}manifests/{digest}", accept=_MANIFEST))
    config = json.loads(_call(f"{repository}blobs/{manifest['config']['digest']}"))
    return repository, manifest, config


def _written(
    reference: str, repository: str, manifest: dict[str, Any], config: dict[str, Any]
) -> str:
    """Push both; the reference of the copy."""
    kind = manifest["config"]["mediaType"]
    manifest["config"] = _uploaded(repository, json.dumps(config).encode(), kind=kind)
    body = json.dumps(manifest).encode()
    _call(f"{repository}manifests/{_digest(body)}", body=body, kind=_MANIFEST)
    return f"{reference.partition('@')[0]}@{_digest(body)}"


def _layer(files: Mapping[str, bytes]) -> bytes:
    """An uncompressed layer; an empty file `.wh.NAME` in one removes NAME of the layers below."""
    content = {path.lstrip("/"): text for path, text in files.items()}
    for path in [PurePosixPath(each) for each in content if each.endswith(".py")]:
        content[f"{path.parent}/__pycache__/.wh.{path.stem}.cpython-311.pyc"] = b""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for path_, text in sorted(content.items()):
            info = tarfile.TarInfo(path_)
            info.size = len(text)
            info.mode = 0o644
            tar.addfile(info, io.BytesIO(text))
    return out.getvalue()


def _uploaded(repository: str, blob: bytes, *, kind: str) -> dict[str, Any]:
    """Push a blob; its descriptor."""
    request = urllib.request.Request(f"{repository}blobs/uploads/", data=b"", method="POST")
    with urllib.request.urlopen(request, timeout=CALL_SECONDS) as answer:
        target = urljoin(repository, answer.headers["Location"])
    mark = "&" if "?" in target else "?"
    _call(f"{target}{mark}digest={_digest(blob)}", body=blob, kind="application/octet-stream")
    return {"mediaType": kind, "size": len(blob), "digest": _digest(blob)}


def _call(url: str, *, accept: str = "*/*", body: bytes | None = None, kind: str = "") -> bytes:
    """GET, or PUT of a body of that media type; raises urllib.error.HTTPError."""
    headers = {"Accept": accept} | ({"Content-Type": kind} if kind else {})
    method = "GET" if body is None else "PUT"
    request = urllib.request.Request(url, data=body, headers=headers, method=method)
    with urllib.request.urlopen(request, timeout=CALL_SECONDS) as answer:
        content: bytes = answer.read()
    return content


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"

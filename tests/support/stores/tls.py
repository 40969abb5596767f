"""A certificate for loopback and the authority that signed it."""

import ssl
import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Tls:
    """Files; a client trusts `authority` by SSL_CERT_FILE."""

    authority: Path
    certificate: Path
    key: Path

    @property
    def of_server(self) -> ssl.SSLContext:
        """To serve with it."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate, self.key)
        return context

    @property
    def of_client(self) -> ssl.SSLContext:
        """To ask a server that has it."""
        return ssl.create_default_context(cafile=str(self.authority))


def make_tls(folder: Path) -> Tls:
    """Both, good for a day."""
    folder.mkdir()
    made = Tls(folder / "ca.crt", folder / "server.crt", folder / "server.key")
    authority_key = folder / "ca.key"
    new = ("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    _openssl(
        *(*new, "-days", "1", "-subj", "/CN=authority of the tests"),
        *("-keyout", str(authority_key), "-out", str(made.authority)),
    )
    _openssl(
        *(*new, "-days", "1", "-subj", "/CN=localhost"),
        *("-CA", str(made.authority), "-CAkey", str(authority_key)),
        *("-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"),
        *("-addext", "basicConstraints=critical,CA:FALSE"),
        *("-keyout", str(made.key), "-out", str(made.certificate)),
    )
    return made


def _openssl(*arguments: str) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)

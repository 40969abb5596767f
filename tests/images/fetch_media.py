"""Let vLLM fetch media as a planned engine would; print what came of each address, as JSON.

stdin: {"domains": the allowed ones, "urls": the addresses}. Runs with the Python of the CPU image,
alone, with the engine's variables. A server of this process, whose address replaces SERVER in the
addresses, has one picture, and at /away a redirect to it. `connected` are the addresses that a
socket was connected to, `asked` the paths that the server was asked for.
"""

import asyncio
import contextlib
import http.server
import importlib
import io
import json
import sys
import threading

CONNECTED: list[str] = []
ASKED: list[str] = []


def watch(event: str, arguments: tuple[object, ...]) -> None:
    """Every attempt to connect, by whatever library."""
    if event == "socket.connect":
        CONNECTED.append(str(arguments[1]))


class Pictures(http.server.BaseHTTPRequestHandler):
    """One picture, and a redirect to it."""

    def do_GET(self) -> None:
        """Answer."""
        ASKED.append(self.path)
        if self.path == "/away":
            self.send_response(302)
            self.send_header("Location", f"http://127.0.0.1:{self.server.server_port}/picture")  # type: ignore[attr-defined]
            self.end_headers()
            return
        found = io.BytesIO()
        importlib.import_module("PIL.Image").new("RGB", (8, 8)).save(found, "PNG")
        self.send_response(200)
        self.end_headers()
        self.wfile.write(found.getvalue())

    def log_message(self, *_: object) -> None:
        """Nothing: stdout is the answer."""


async def fetched(domains: list[str], url: str) -> dict[str, object]:
    """The size of the picture, or the refusal, and what was connected to meanwhile."""
    connector = importlib.import_module("vllm.multimodal.media").MediaConnector(
        allowed_media_domains=domains
    )
    CONNECTED.clear()
    ASKED.clear()
    try:
        picture = await asyncio.wait_for(connector.fetch_image_async(url), timeout=20)
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}", **_seen()}
    picture = getattr(picture, "media", picture)
    return {"size": list(picture.size), **_seen()}


async def all_fetched(domains: list[str], urls: list[str]) -> list[dict[str, object]]:
    """One after the other, in the one loop that the engine's client belongs to."""
    return [await fetched(domains, url) for url in urls]


def _seen() -> dict[str, object]:
    return {"connected": list(CONNECTED), "asked": list(ASKED)}


def main() -> None:
    """Print one answer for each address."""
    asked = json.load(sys.stdin)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Pictures)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    urls = [url.replace("SERVER", f"localhost:{server.server_port}") for url in asked["urls"]]
    sys.addaudithook(watch)
    with contextlib.redirect_stdout(io.StringIO()):
        answers = asyncio.run(all_fetched(asked["domains"], urls))
    json.dump(answers, sys.stdout)


if __name__ == "__main__":
    main()

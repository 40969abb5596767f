"""The token services of clouds, as far as a pod's workload identity goes: STS (IRSA), the agent of
EKS Pod Identity, GKE's metadata server, Microsoft Entra ID.

Each checks what the pod presents: the signature, audience and time of its ServiceAccount's token
(a metadata server knows the pod by its address, and checks the header). What it gives is good until
it says, unless the test takes it back.
"""

import asyncio
import base64
import contextlib
import dataclasses
import hashlib
import hmac
import json
import secrets
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from aiohttp import web
from tests.support.stores.tls import Tls

ROLE: Final = "arn:aws:iam::111122223333:role/reader"
TENANT: Final = "11111111-2222-3333-4444-555555555555"
CLIENT: Final = "66666666-7777-8888-9999-000000000000"
STS_AUDIENCE: Final = "sts.amazonaws.com"
EKS_AUDIENCE: Final = "pods.eks.amazonaws.com"
AZURE_AUDIENCE: Final = "api://AzureADTokenExchange"
_SIGNING_KEY: Final = b"the cluster's issuer"


@dataclasses.dataclass(slots=True)
class Tokens:
    """What the services do, and what they have seen."""

    folder: Path
    tls: Tls
    sessions: Path
    """Where the stores look up what was given out."""
    lifetime: int = 3600
    """Seconds that a credential is good for, as its receiver is told."""
    good_for: int | None = None
    """The seconds that it is really good for, where that is less."""
    refuses: bool = False
    unheard: int = 0
    """So many of the next requests to STS find that the cluster's issuer does not answer."""
    reads: bool = True
    """Whether the identity may read."""
    port: int = 0
    plain_port: int = 0
    given: list[str] = dataclasses.field(default_factory=list)
    """Every secret that was given out, the newest last."""

    def pods_token(self, audience: str, *, seconds: int = 600) -> Path:
        """The file that the kubelet would project, with a token for `audience`."""
        path = self.folder / f"token-{audience.replace('/', '-')}"
        path.write_text(signed({"aud": audience, "exp": int(time.time()) + seconds}))
        return path

    def irsa(self, audience: str = STS_AUDIENCE) -> dict[str, str]:
        """What EKS's webhook adds to a pod whose ServiceAccount has a role."""
        return {
            "AWS_ROLE_ARN": ROLE,
            "AWS_WEB_IDENTITY_TOKEN_FILE": str(self.pods_token(audience)),
            "AWS_ENDPOINT_URL_STS": f"https://localhost:{self.port}/sts",
            "AWS_REGION": "us-east-1",
        }

    def pod_identity(self, audience: str = EKS_AUDIENCE) -> dict[str, str]:
        """What EKS's webhook adds to a pod of a Pod Identity association."""
        return {
            **self._on_the_node,
            "AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://169.254.170.23/v1/credentials",
            "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": str(self.pods_token(audience)),
            "AWS_REGION": "us-east-1",
        }

    def gke(self) -> dict[str, str]:
        """Nothing on GKE, where the metadata server is at its own address."""
        return self._on_the_node

    @property
    def _on_the_node(self) -> dict[str, str]:
        """What brings here whatever is asked by HTTP of addresses that are not loopback."""
        here = f"http://127.0.0.1:{self.plain_port}"
        return {"HTTP_PROXY": here, "http_proxy": here}

    def aks(self, audience: str = AZURE_AUDIENCE) -> dict[str, str]:
        """What AKS's webhook adds to a pod whose ServiceAccount has a client ID."""
        return {
            "AZURE_CLIENT_ID": CLIENT,
            "AZURE_TENANT_ID": TENANT,
            "AZURE_FEDERATED_TOKEN_FILE": str(self.pods_token(audience)),
            # With a slash, as AKS has it.
            "AZURE_AUTHORITY_HOST": f"https://localhost:{self.port}/",
        }

    def _session(self) -> dict[str, str]:
        """New temporary credentials of AWS."""
        access, secret, token = (
            "ASIA" + secrets.token_hex(8).upper(),
            *map(secrets.token_hex, (20, 32)),
        )
        self._give(access, Secret=secret, Token=token)
        self.given += [secret, token]
        return {"AccessKeyId": access, "SecretAccessKey": secret, "Token": token}

    def _give(self, name: str, **more: object) -> str:
        until = int(time.time()) + (self.good_for or self.lifetime)
        told = json.dumps({"Reads": self.reads, "Until": until, **more})
        (self.sessions / name).write_text(told)
        return name

    async def sts(self, request: web.Request) -> web.Response:
        """AssumeRoleWithWebIdentity."""
        if self.unheard:
            self.unheard -= 1
            return _sts_refusal(400, "IDPCommunicationError", "The provider cannot be reached")
        asked = {**request.query, **await request.post()}
        known = asked.get("RoleArn") == ROLE and asked["Action"] == "AssumeRoleWithWebIdentity"
        if self.refuses or not known:
            return _sts_refusal(403, "AccessDenied", "Not authorized to perform sts:Assume…")
        if not _presents(str(asked["WebIdentityToken"]), STS_AUDIENCE):
            return _sts_refusal(400, "InvalidIdentityToken", "Incorrect token audience")
        made = self._session()
        text = (
            "<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials>"
            f"<AccessKeyId>{made['AccessKeyId']}</AccessKeyId>"
            f"<SecretAccessKey>{made['SecretAccessKey']}</SecretAccessKey>"
            f"<SessionToken>{made['Token']}</SessionToken>"
            f"<Expiration>{self._end()}</Expiration></Credentials>"
            "</AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>"
        )
        return web.Response(text=text, content_type="text/xml")

    async def agent(self, request: web.Request) -> web.Response:
        """EKS Pod Identity on each node."""
        presented = request.headers.get("Authorization", "")
        if self.refuses or not _presents(presented, EKS_AUDIENCE):
            return web.Response(
                status=400,
                text="[req-1]: (AccessDeniedException): Unauthorized Exception! EKS does not have "
                "permissions to assume the associated role., fault: client",
            )
        account = {"Expiration": self._end(), "AccountId": "111122223333"}
        return web.json_response({**self._session(), **account})

    async def metadata(self, request: web.Request) -> web.Response:
        """GKE's metadata server: the token of the pod's ServiceAccount."""
        if request.headers.get("Metadata-Flavor") != "Google":
            return web.Response(status=403, text="Missing Metadata-Flavor:Google header.")
        if self.refuses:
            return web.Response(
                status=403,
                text="Unable to generate access token; IAM returned 403 Forbidden: Permission "
                "'iam.serviceAccounts.getAccessToken' denied on resource",
            )
        token = self._give("ya29." + secrets.token_hex(16))
        self.given.append(token)
        answer = {"access_token": token, "expires_in": self.lifetime, "token_type": "Bearer"}
        return web.json_response(answer)

    async def entra(self, request: web.Request) -> web.Response:
        """The exchange of a federated token."""
        asked = {name: str(value) for name, value in (await request.post()).items()}
        known = (asked["client_id"], request.match_info["tenant"]) == (CLIENT, TENANT)
        right = _presents(asked["client_assertion"], AZURE_AUDIENCE)
        if self.refuses or not known or not right:
            text = (
                "AADSTS700213: No matching federated identity record found for presented assertion"
            )
            return web.json_response(
                {"error": "invalid_client", "error_description": text}, status=401
            )
        now = int(time.time())
        claims = {
            "aud": "https://storage.azure.com",
            "iss": f"https://sts.windows.net/{TENANT}/",
            "nbf": now - 60,
            "iat": now,
            "exp": now + (self.good_for or self.lifetime),
            "jti": secrets.token_hex(8),
        }
        token = signed(claims)
        self.given.append(token)
        answer = {"access_token": token, "expires_in": self.lifetime, "token_type": "Bearer"}
        return web.json_response(answer)

    def _end(self) -> str:
        return datetime.fromtimestamp(time.time() + self.lifetime, UTC).strftime("%FT%TZ")


def signed(claims: dict[str, Any]) -> str:
    """A JWT of the tests' own issuer."""
    head = f"{_text({'alg': 'HS256', 'typ': 'JWT'})}.{_text(claims)}"
    return f"{head}.{_signature(head)}"


def _text(part: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=")


def _signature(head: str) -> str:
    made = hmac.new(_SIGNING_KEY, head.encode(), hashlib.sha256).digest()
    return base64.urlsafe_b64encode(made).decode().rstrip("=")


def _presents(token: str, audience: str) -> bool:
    head, _, signature = token.rpartition(".")
    if not hmac.compare_digest(signature, _signature(head)):
        return False
    body = head.partition(".")[2]
    claims = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    return bool(claims["aud"] == audience and claims["exp"] > time.time())


def _sts_refusal(status: int, code: str, says: str) -> web.Response:
    text = (
        f"<ErrorResponse><Error><Type>Sender</Type><Code>{code}</Code><Message>{says}</Message>"
        "</Error><RequestId>1</RequestId></ErrorResponse>"
    )
    return web.Response(status=status, text=text, content_type="text/xml")


@contextlib.asynccontextmanager
async def serving(folder: Path, tls: Tls, sessions: Path) -> AsyncIterator[Tokens]:
    """All of them while the context lasts: those of a node by HTTP, as they are, others by TLS."""
    tokens = Tokens(folder, tls, sessions)
    app = web.Application()
    app.router.add_post("/sts", tokens.sts)
    app.router.add_get("/v1/credentials", tokens.agent)
    account = "/computeMetadata/v1/instance/service-accounts/default/token"
    app.router.add_get(account, tokens.metadata)
    app.router.add_post("/{tenant}/oauth2/v2.0/token", tokens.entra)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls.of_server).start()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        tokens.port, tokens.plain_port = (address[1] for address in runner.addresses)
        yield tokens
    finally:
        # A client in this process keeps its connection, and would not answer the end of TLS.
        for connection in runner.server.connections if runner.server is not None else ():
            if connection.transport is not None:
                connection.transport.abort()
        await runner.cleanup()
        await asyncio.sleep(0)

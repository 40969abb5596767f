"""What a pod has around weights that are downloaded."""

from typing import Any, Final

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.builders import Cluster, catalog_spec, cpu_node, gpu_node, tiny_spec
from tests.support.manifests import merged
from tests.support.observed import PLAN

from kindling_operator.model.conditions import Reason
from kindling_operator.model.objects import ClaimView
from kindling_operator.model.plan import EnginePlan, GpuPlan
from kindling_operator.plan.memory import GIB
from kindling_operator.plan.mounts import CACHE_ROOT, cache_key
from kindling_operator.render.fetching import launch_weights
from kindling_runtime import contract
from kindling_runtime.weights.parts import unsafe

_OF_CLOUDS = ("AWS_", "GOOGLE_", "GCE_", "AZURE_", "KINDLING_DEVELOPMENT")


def cluster(spec: dict[str, Any], *, claims: tuple[str, ...] = ("cache", "weights")) -> Cluster:
    """One laptop and one H200, and bound claims."""
    views = tuple(ClaimView("ml", name, "Bound", terminating=False) for name in claims)
    return Cluster(nodes=(cpu_node(), gpu_node("gpu", "NVIDIA-H200")), claims=views).apply(spec)


def tiny(**weights: Any) -> dict[str, Any]:
    """The tiny model from the hub."""
    return merged(tiny_spec(), {"model": {"weights": {"uri": "hf://org/tiny", **weights}}})


def of_kind(spec: dict[str, Any], kind: str) -> dict[str, Any]:
    """The manifest of a kind."""
    return next(m for m in cluster(spec).manifests() if m["kind"] == kind)


def pod_of(spec: dict[str, Any]) -> dict[str, Any]:
    """The pod's spec of a model's Deployment."""
    found: dict[str, Any] = of_kind(spec, "Deployment")["spec"]["template"]["spec"]
    return found


def orders_of(spec: dict[str, Any]) -> contract.LaunchPlan:
    """The launch plan of a model."""
    return contract.decode(of_kind(spec, "ConfigMap")["data"]["plan.json"].encode())


def variables(container: dict[str, Any]) -> dict[str, Any]:
    """A container's environment, by name."""
    return {each["name"]: each.get("value", each.get("valueFrom")) for each in container["env"]}


def test_weights_that_are_there_need_no_container_before_the_engine() -> None:
    pod = pod_of(tiny_spec())

    assert "initContainers" not in pod
    assert "fsGroup" not in pod["securityContext"]
    assert orders_of(tiny_spec()).weights.fetch is None


def test_a_download_without_a_claim_goes_to_a_volume_of_the_pod_that_holds_it() -> None:
    spec = catalog_spec("flint", model={"weights": {}})
    pod, orders = pod_of(spec), orders_of(spec)
    fetch, engine = pod["initContainers"][0], pod["containers"][0]
    volume = next(v for v in pod["volumes"] if v["name"] == "cache")

    assert orders.weights.uri.startswith("hf://RecursiveSI/flint")
    assert orders.weights.fetch is not None
    assert orders.weights.path == f"{CACHE_ROOT}/weights/{orders.weights.fetch.key}"
    assert not orders.weights.fetch.shared
    assert orders.weights.use is None
    assert orders.engine.argv[2] == orders.weights.path
    assert fetch["command"] == ["kindling-runtime", "fetch", "--plan", contract.PLAN_PATH]
    assert fetch["securityContext"] == engine["securityContext"]
    room = int(volume["emptyDir"]["sizeLimit"].removesuffix("Mi")) << 20
    assert room >= orders.weights.fetch.bytes + GIB
    disk = int(engine["resources"]["requests"]["ephemeral-storage"].removesuffix("Mi")) << 20
    assert disk >= room
    assert {"name": "cache", "mountPath": CACHE_ROOT, "readOnly": True} in engine["volumeMounts"]
    assert {"name": "cache", "mountPath": CACHE_ROOT} in fetch["volumeMounts"]
    assert variables(engine)["VLLM_CACHE_ROOT"] == "/tmp/vllm"


def test_a_claim_keeps_downloads_and_kernels_and_engines_only_read_the_weights() -> None:
    spec = tiny(cacheClaim="cache", revision="3f0c")
    pod, orders = pod_of(spec), orders_of(spec)
    engine = pod["containers"][0]
    fetch = orders.weights.fetch
    assert fetch is not None

    claim = {"name": "cache", "persistentVolumeClaim": {"claimName": "cache"}}
    assert claim in pod["volumes"]
    mounts = {m["mountPath"]: m for m in engine["volumeMounts"] if m["name"] == "cache"}
    assert mounts[CACHE_ROOT]["readOnly"]
    writable = [m for m in mounts.values() if not m.get("readOnly")]
    assert {m.get("subPath") or m["subPathExpr"] for m in writable} == {
        fetch.kernels,
        f"uses/$({contract.POD_VARIABLE})",
    }
    assert orders.weights.use in mounts
    assert fetch.shared
    assert fetch.revision == "3f0c"
    assert variables(engine)["FLASH_ATTENTION_CUTE_DSL_CACHE_ENABLED"] == "1"
    kernels = next(m["mountPath"] for m in writable if "subPath" in m)
    for name in ("HOME", "VLLM_CACHE_ROOT", "TRITON_CACHE_DIR", "FLASHINFER_WORKSPACE_BASE"):
        assert variables(engine)[name].startswith(f"{kernels}/")
    assert pod["securityContext"]["fsGroup"] == pod["securityContext"]["runAsGroup"]
    # Without the claim the node's disk holds the download.
    alone = pod_of(tiny())["containers"][0]["resources"]["requests"]["ephemeral-storage"]
    assert alone != engine["resources"]["requests"]["ephemeral-storage"]


def test_a_claim_keeps_the_kernels_of_a_model_that_is_on_another_one() -> None:
    spec = merged(tiny_spec(), {"model": {"weights": {"cacheClaim": "cache"}}})
    pod, orders = pod_of(spec), orders_of(spec)

    assert orders.weights.path == "/mnt/weights/tiny"
    assert orders.weights.fetch is not None
    assert orders.weights.fetch.key == ""
    assert [c["name"] for c in pod["initContainers"]] == ["fetch"]
    paths = {m["mountPath"] for m in pod["containers"][0]["volumeMounts"]}
    assert CACHE_ROOT not in paths
    assert "/mnt/weights" in paths


def kernels_of(plan: EnginePlan) -> str:
    """The folder of the claim that keeps what the engine of this plan compiles."""
    fetch = launch_weights(plan).fetch
    assert fetch is not None
    return fetch.kernels


CACHED: Final = msgspec.structs.replace(
    PLAN,
    image=f"example.com/team/vllm@sha256:{'0' * 64}",
    gpu=GpuPlan(product="NVIDIA-H200", architecture="Hopper"),
    argv=("vllm", "serve", "/mnt/weights/tiny"),
    env={"VLLM_LOGGING_LEVEL": "INFO"},
    weights=msgspec.structs.replace(PLAN.weights, cache_claim="cache"),
)


@pytest.mark.parametrize(
    "other",
    [
        {"image": f"example.com/team/vllm@sha256:{'0' * 63}1"},
        {"gpu": GpuPlan(product="NVIDIA-B200", architecture="Hopper")},
        {"gpu": None},
        {"argv": ("vllm", "serve", "/mnt/weights/tiny", "--max-num-seqs=8")},
        {"env": {"VLLM_LOGGING_LEVEL": "DEBUG"}},
        {"env": {}},
    ],
    ids=("digest", "gpu", "cpu", "command", "environment", "no-environment"),
)
@pytest.mark.parametrize("model", ["custom", "m" * 64])  # the long one leaves no room for the GPU
def test_whatever_compiled_code_depends_on_makes_a_folder_of_its_own(
    model: str, other: dict[str, Any]
) -> None:
    one = msgspec.structs.replace(CACHED, model=model)
    assert kernels_of(one).startswith(f"kernels/{model}-")
    assert kernels_of(msgspec.structs.replace(one, **other)) != kernels_of(one)


def test_compiled_kernels_are_shared_by_what_compiles_the_same() -> None:
    def kernels(**spec: Any) -> str:
        fetch = orders_of(merged(tiny(cacheClaim="cache"), spec)).weights.fetch
        assert fetch is not None
        return fetch.kernels

    assert kernels() == kernels(replicas=2)


@pytest.mark.parametrize("image", ["example.com/team/vllm:latest", "example.com:5000/team/vllm"])
@pytest.mark.parametrize("uri", ["hf://org/tiny", "pvc://weights/tiny"])
def test_an_image_without_a_digest_leaves_no_compiled_code_in_the_claim(
    image: str, uri: str
) -> None:
    spec = merged(tiny(uri=uri, cacheClaim="cache"), {"runtime": {"image": image}})
    engine, orders = pod_of(spec)["containers"][0], orders_of(spec)
    assert orders.weights.fetch is not None
    assert orders.weights.fetch.kernels == ""

    of_claim = [mount for mount in engine["volumeMounts"] if mount["name"] == "cache"]
    writable = [mount for mount in of_claim if not mount.get("readOnly")]
    assert [mount["mountPath"] for mount in writable] == [orders.weights.use]
    assert contract.POD_VARIABLE in variables(engine)
    assert variables(engine)["HOME"] == "/tmp"
    claimed = tuple(f"{mount['mountPath']}/" for mount in of_claim)
    assert not [v for v in variables(engine).values() if str(v).startswith(claimed)]
    assert "/var/cache/kindling" not in str(engine)


def test_the_token_reaches_the_download_alone_and_by_no_command_line() -> None:
    spec = tiny(tokenSecretRef={"name": "hf", "key": "token"})
    pod = pod_of(spec)
    reference = {"secretKeyRef": {"name": "hf", "key": "token"}}

    assert variables(pod["initContainers"][0])[contract.TOKEN_VARIABLE] == reference
    assert contract.TOKEN_VARIABLE not in variables(pod["containers"][0])
    assert "secret" not in contract.encode(orders_of(spec)).decode().lower()


@pytest.mark.parametrize(
    "weights",
    [
        {"uri": "hf://org/tiny"},
        {"uri": "hf://org/tiny", "cacheClaim": "cache"},
        {"uri": "s3://bucket/tiny"},
        {"uri": "pvc://weights/tiny"},
    ],
    ids=lambda weights: "-".join(weights.values()),
)
def test_the_engine_downloads_nothing_wherever_its_weights_are(weights: dict[str, str]) -> None:
    spec = merged(tiny_spec(), {"model": {"weights": weights}})
    engine, orders = pod_of(spec)["containers"][0], orders_of(spec)

    assert orders.engine.argv[2] == orders.weights.path
    assert orders.weights.path.startswith("/mnt/")
    assert orders.engine.env["HF_HUB_OFFLINE"] == "1"
    mounted = max(
        (m for m in engine["volumeMounts"] if orders.weights.path.startswith(m["mountPath"])),
        key=lambda mount: len(mount["mountPath"]),
    )
    assert mounted["readOnly"]


def test_only_pods_that_download_may_leave_for_the_web() -> None:
    def ways_out(spec: dict[str, Any]) -> list[int]:
        rules = of_kind(spec, "NetworkPolicy")["spec"]["egress"]
        return [port["port"] for rule in rules for port in rule["ports"]]

    assert 443 not in ways_out(tiny_spec())
    assert 443 in ways_out(tiny())


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (
            {"uri": "hf://tiny"},
            "spec.model.weights.uri hf://tiny names no repository: write hf://ORG/NAME.",
        ),
        (
            {"uri": "az://weights/tiny"},
            "spec.model.weights.uri az://weights/tiny names no storage account: write"
            " az://CONTAINER@ACCOUNT/PREFIX.",
        ),
        (
            {"uri": "s3://weights/tiny", "tokenSecretRef": {"name": "hf", "key": "token"}},
            "spec.model.weights.tokenSecretRef is for hf:// and spec.model.weights.uri is"
            " s3://weights/tiny: remove it.",
        ),
    ],
)
def test_a_download_that_cannot_be_is_refused(weights: dict[str, Any], message: str) -> None:
    refused = cluster(tiny(**weights)).decide().refused

    assert refused is not None
    assert (refused.reason, refused.message) == (Reason.INVALID_SPEC, message)


@pytest.mark.parametrize("state", ["", "Lost", "Terminating"])
def test_nothing_starts_before_the_cache_is_there(state: str) -> None:
    found = cluster(tiny(cacheClaim="cache"), claims=("weights",))
    if state:
        gone = ClaimView("ml", "cache", state, terminating=state == "Terminating")
        found.claims = (*found.claims, gone)
    decision = found.decide()
    messages = [v.message for v in decision.verdicts if v.reason is Reason.CLAIM_NOT_BOUND]

    assert not decision.targets
    assert len(messages) == 1
    assert messages[0].startswith("PersistentVolumeClaim ml/cache (the cache) ")
    assert messages[0].endswith(" spec.model.weights.cacheClaim.")


def test_a_long_download_extends_what_a_rollout_may_take() -> None:
    def deadline(spec: dict[str, Any]) -> int:
        found: int = of_kind(spec, "Deployment")["spec"]["progressDeadlineSeconds"]
        return found

    here = catalog_spec("flint", model={"checkpoint": "BF16"})
    there = catalog_spec("flint", model={"checkpoint": "BF16", "weights": {"uri": "s3://b/flint"}})
    seconds = orders_of(there).weights.fetch.bytes // (100 << 20)  # type: ignore[union-attr]
    assert deadline(there) <= max(deadline(here), 45 * 60) + seconds
    assert deadline(there) >= deadline(here)


def test_config_and_tokenizer_of_another_repository_are_fetched_into_a_folder_of_their_own() -> (
    None
):
    def fetch(**model: Any) -> contract.Fetch:
        found = orders_of(catalog_spec("flint", model=model)).weights.fetch
        assert found is not None
        return found

    gguf = "hf://RecursiveSI/flint-nvfp4-gguf"
    bare = fetch(checkpoint="NVFP4", weights={})
    named = fetch(checkpoint="NVFP4", weights={"uri": gguf})

    assert bare.config_uri == "hf://RecursiveSI/flint"
    assert bare.key == named.key == cache_key(gguf, "", "hf://RecursiveSI/flint")
    assert bare.key not in {cache_key(gguf, ""), cache_key(gguf, "", "hf://RecursiveSI/other")}
    assert fetch(checkpoint="BF16", weights={}).config_uri is None
    assert fetch(checkpoint="NVFP4", weights={"uri": "s3://b/flint"}).config_uri is None


@given(st.tuples(st.text(max_size=60), st.text(max_size=60)), st.tuples(st.text(), st.text()))
def test_a_key_names_one_uri_and_revision_and_is_a_plain_file_name(
    one: tuple[str, str], other: tuple[str, str]
) -> None:
    key = cache_key(*one)
    assert (key == cache_key(*other)) == (one == other)
    assert len(key) <= 93
    assert not unsafe(key)
    assert not set(key) - set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.@-")


@pytest.mark.parametrize("uri", ["s3://b/tiny", "gs://b/tiny", "az://b@account/tiny"])
def test_a_pod_asks_a_store_as_its_service_account_and_with_no_key(uri: str) -> None:
    spec = tiny(uri=uri)
    template = of_kind(spec, "Deployment")["spec"]["template"]

    # Without the label Azure's webhook leaves the pod alone.
    marked = template["metadata"]["labels"].get("azure.workload.identity/use") == "true"
    assert marked == uri.startswith("az://")
    for container in (*template["spec"]["initContainers"], *template["spec"]["containers"]):
        assert "envFrom" not in container
        clouds = [name for name in variables(container) if name.startswith(_OF_CLOUDS)]
        assert clouds == []
    assert not [name for name in orders_of(spec).engine.env if name.startswith(_OF_CLOUDS)]

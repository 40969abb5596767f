"""The command line: files in, decisions out, exit codes, and what is said about a wrong use."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.support.builders import catalog_spec, tiny_spec
from tests.support.plan_files import HOLDER, HUGE, LAPTOP, Files, model
from tests.support.planning import node

from kindling_operator.cli import main
from kindling_operator.model.names import CHILD_KINDS, OPTIONAL_KINDS


def test_a_plan_as_a_table(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    assert files.plan(model(tiny_spec(), namespace="ml")) == 0

    text = capsys.readouterr().out
    assert text.startswith("ml/tiny: CPU, BF16, 4096 ctx.\n")
    assert "  KV cache     4096 blocks, 32 per request, 524288 tokens\n" in text
    assert "  memory of each pod: 4.5 GiB\n" in text
    assert "    Processes                      3.0 GiB  Estimated  ██████████" in text
    assert "    vllm serve /mnt/weights/tiny --served-model-name=tiny" in text
    assert all(len(line) <= 100 for line in text.splitlines())


def test_a_refusal_is_printed_with_its_reason(
    files: Files, capsys: pytest.CaptureFixture[str]
) -> None:
    assert files.plan(model(catalog_spec("inkling"), "inkling")) == 1

    head, *lines = capsys.readouterr().out.splitlines()
    assert head == "default/inkling: refused, WeightsDoNotFit"
    assert all(line.startswith("  ") and len(line) <= 100 for line in lines)
    files.plan(model(catalog_spec("inkling"), "inkling"), more=("-o", "json"))
    message = json.loads(capsys.readouterr().out)["message"]
    assert message.startswith("Inkling BF16 needs ")
    told, considered = " ".join(" ".join(lines).split()).split(" not taken ")
    assert told == message
    assert considered.startswith("(2, the nearest first) OPTION WHY NOT BF16 TP1 on 1 x ")
    assert "WeightsDoNotFit: Inkling BF16 needs" in considered


def test_a_model_that_would_wait_is_no_success(
    files: Files, capsys: pytest.CaptureFixture[str]
) -> None:
    pods = files.write("pods.yaml", {"apiVersion": "v1", "kind": "PodList", "items": [HOLDER]})

    assert files.plan(model(catalog_spec("flint"), "flint"), more=("--pods", pods)) == 1
    assert capsys.readouterr().out.startswith("default/flint: waits, InsufficientGPU\n")


def test_replicas_beyond_the_room_are_no_success(
    files: Files, capsys: pytest.CaptureFixture[str]
) -> None:
    """One GPU, three replicas: the operator makes them all, and two would wait."""
    spec = {**catalog_spec("flint"), "replicas": 3}

    assert files.plan(model(spec, "flint"), more=("-o", "json")) == 1

    found = json.loads(capsys.readouterr().out)
    assert (found["accepted"], found["reason"]) == (True, "InsufficientGPU")
    assert found["message"].startswith("1 of 3 replicas have room, and another does not: needs 1 x")


def test_models_of_one_file_are_placed_together(
    files: Files, capsys: pytest.CaptureFixture[str]
) -> None:
    """One GPU, two models: the first by name gets it."""
    models = [model(catalog_spec("flint"), name) for name in ("b", "a")]

    assert files.plan(*models) == 1

    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("default/")]
    assert lines == [
        "default/a: 1x NVIDIA-H200 in one node, BF16, TP1, 262144 ctx.",
        "default/b: waits, InsufficientGPU",
    ]


def test_several_models_end_in_a_summary_of_who_waits_for_whom(
    files: Files, capsys: pytest.CaptureFixture[str]
) -> None:
    models = [model(catalog_spec("flint"), name) for name in ("b", "a")]

    files.plan(*models, model(catalog_spec("inkling"), "c"))

    *_, summary = capsys.readouterr().out.split("\n\n")
    assert summary.splitlines() == [
        "3 models, in the order in which they are placed",
        "  MODEL      GPUS           DECISION",
        "  default/a  1 NVIDIA-H200  1x NVIDIA-H200 in one node, BF16, TP1, 262144 ctx.",
        "  default/b  -              waits, InsufficientGPU: waits for default/a",
        "  default/c  -              refused, WeightsDoNotFit",
    ]


def test_a_model_that_waits_for_nobody_of_the_file(
    files: Files, capsys: pytest.CaptureFixture[str]
) -> None:
    pods = files.write("pods.yaml", {"apiVersion": "v1", "kind": "PodList", "items": [HOLDER]})
    models = [model(catalog_spec("flint"), name) for name in ("b", "a")]

    files.plan(*models, more=("--pods", pods))

    *_, last = capsys.readouterr().out.splitlines()
    assert last == "  default/b  -     waits, InsufficientGPU: waits for the cluster"


def test_a_model_that_waits_shows_what_it_will_run(
    files: Files, capsys: pytest.CaptureFixture[str]
) -> None:
    pods = files.write("pods.yaml", {"apiVersion": "v1", "kind": "PodList", "items": [HOLDER]})

    files.plan(model(catalog_spec("flint"), "flint"), more=("--pods", pods))

    text = capsys.readouterr().out
    assert "  then         1x NVIDIA-H200 in one node, BF16, TP1, 262144 ctx\n" in text
    assert "  memory of each NVIDIA-H200: 129.2 GiB\n" in text


def test_why_each_argument_is_given_is_told_to_who_asks(
    files: Files, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = {**tiny_spec(), "serving": {"contextLength": 2048, "extraArgs": ["--seed=1"]}}
    files.plan(model(spec))
    plain = capsys.readouterr().out

    files.plan(model(spec), more=("--why",))

    lines = capsys.readouterr().out.splitlines()
    start = lines.index("  arguments")
    table = [line.split(maxsplit=1) for line in lines[start + 1 :]]
    assert [row[0] for row in table if row[0].startswith("--")] == [
        word.partition("=")[0] for word in plain.split() if word.startswith("--")
    ]
    assert ["--max-model-len", "spec.serving.contextLength"] in table
    assert ["--seed", "spec.serving.extraArgs"] in table
    assert [*lines[:start], *lines[start + len(table) + 1 :]] == plain.splitlines()


def test_a_model_that_waits_says_why_too(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    pods = files.write("pods.yaml", {"apiVersion": "v1", "kind": "PodList", "items": [HOLDER]})
    more = ("--pods", pods)

    files.plan(model(catalog_spec("flint")), more=(*more, "--why"))
    table = capsys.readouterr().out
    files.plan(model(catalog_spec("flint")), more=(*more, "-o", "json"))

    told = json.loads(capsys.readouterr().out)["arguments"]
    assert told["--attention-config"] == "the kernels that run Flint on sm90"
    assert f"--attention-config                     {told['--attention-config']}" in table


def test_json_has_what_status_has(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    assert files.plan(model(tiny_spec()), more=("-o", "json", "-n", "ml")) == 0

    found = json.loads(capsys.readouterr().out)
    assert (found["namespace"], found["name"], found["accepted"]) == ("ml", "tiny", True)
    assert (found["reason"], found["message"]) == ("SpecAccepted", "CPU, BF16, 4096 ctx.")
    assert found["plan"]["kvCache"] == {
        "blocks": 4096,
        "blocksPerRequest": 32,
        "tokens": 524_288,
        "fullContextRequests": "128.00",
    }


def test_json_of_a_refusal_has_the_options_that_were_looked_at(
    files: Files, capsys: pytest.CaptureFixture[str]
) -> None:
    """As the table has them: each with its reason, the nearest first, and how many there are."""
    assert files.plan(model(catalog_spec("inkling")), more=("-o", "json")) == 1

    found = json.loads(capsys.readouterr().out)
    assert (found["plan"], found["rejectedTotal"]) == (None, 2)
    assert [(each["option"].split()[0], each["reason"]) for each in found["rejected"]] == [
        ("BF16", "WeightsDoNotFit"),
        ("NVFP4", "NoSupportedGPU"),
    ]
    assert found["rejected"][0]["message"].startswith("Inkling BF16 needs ")


def test_json_of_many_refused_options_has_the_nearest(
    files: Files, capsys: pytest.CaptureFixture[str]
) -> None:
    cards: list[dict[str, Any]] = [{"gpu.product": f"CARD-{number:02}"} for number in range(20)]
    products = [node(f"gpu-{number}", gpus=1, **card) for number, card in enumerate(cards)]

    files.plan(model(catalog_spec("inkling")), nodes=products)
    table = capsys.readouterr().out
    files.plan(model(catalog_spec("inkling")), nodes=products, more=("-o", "json"))

    found = json.loads(capsys.readouterr().out)
    assert (len(found["rejected"]), found["rejectedTotal"]) == (20, 40)
    assert "  not taken (40, the nearest first)\n" in table
    assert table.endswith("    and 32 more; -o json has the nearest 20\n")


def test_json_of_a_spec_that_is_refused_by_itself_has_no_options(
    files: Files, capsys: pytest.CaptureFixture[str]
) -> None:
    files.plan(model({**tiny_spec(), "replicas": "many"}), more=("-o", "json"))

    found = json.loads(capsys.readouterr().out)
    assert (found["rejected"], found["rejectedTotal"]) == ([], 0)


def test_json_of_a_model_that_waits_has_the_plan_that_it_would_get(
    files: Files, capsys: pytest.CaptureFixture[str]
) -> None:
    pods = files.write("pods.yaml", {"apiVersion": "v1", "kind": "PodList", "items": [HOLDER]})

    files.plan(model(catalog_spec("flint")), more=("--pods", pods, "-o", "json"))

    found = json.loads(capsys.readouterr().out)
    assert (found["accepted"], found["reason"]) == (True, "InsufficientGPU")
    assert found["plan"]["summary"].startswith("1x NVIDIA-H200 in one node")
    assert found["plan"]["rejected"][0]["reason"] == "NotPreferred"
    assert found["arguments"]


def test_json_of_a_gpu_plan_names_the_kernels(
    files: Files, capsys: pytest.CaptureFixture[str]
) -> None:
    assert files.plan(model(catalog_spec("flint"), "flint"), more=("-o", "json")) == 0

    plan = json.loads(capsys.readouterr().out)["plan"]
    assert {"group": "full_attention", "backend": "FLASHINFER"} in plan["attentionBackends"]


def test_json_of_several_models_is_a_list(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    files.plan(model(tiny_spec(), "a"), model(catalog_spec("inkling"), "b"), more=("-o", "json"))

    found = json.loads(capsys.readouterr().out)
    assert [(each["name"], each["accepted"], each["plan"] is None) for each in found] == [
        ("a", True, False),
        ("b", False, True),
    ]


def test_yaml_is_what_would_be_applied(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    more = ("-o", "yaml", "--cpu-image", "registry.test/own")
    assert files.plan(model(tiny_spec()), more=more) == 0

    found = list(yaml.safe_load_all(capsys.readouterr().out))
    kinds = [kind.kind for kind in CHILD_KINDS if kind not in OPTIONAL_KINDS]
    assert [manifest["kind"] for manifest in found] == kinds
    assert all("ownerReferences" not in manifest["metadata"] for manifest in found)
    (engine,) = found[-1]["spec"]["template"]["spec"]["containers"]
    assert engine["image"] == "registry.test/own"


def test_files_may_be_json_and_lists(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    nodes = {"apiVersion": "v1", "kind": "List", "items": [HUGE, LAPTOP, HOLDER]}
    models = {"kind": "InferenceModelList", "items": [model(tiny_spec())]}
    models_file = files.write("models.json", models, as_json=True)
    nodes_file = files.write("nodes.json", nodes, as_json=True)

    assert main(["plan", "-f", models_file, "--nodes", nodes_file]) == 0
    assert capsys.readouterr().out.startswith("default/tiny: CPU")


def test_a_wrong_spec_is_refused_in_the_words_of_admission(
    files: Files, capsys: pytest.CaptureFixture[str]
) -> None:
    assert files.plan(model({**tiny_spec(), "replicas": "many"})) == 1
    assert capsys.readouterr().out.startswith("default/tiny: refused, InvalidSpec\n")


def test_a_file_that_is_not_there(capsys: pytest.CaptureFixture[str], files: Files) -> None:
    assert main(["plan", "-f", "/nowhere.yaml", "--nodes", "/nowhere.yaml"]) == 2
    assert capsys.readouterr().err == (
        "kindling: /nowhere.yaml cannot be read: No such file or directory\n"
    )


def test_a_file_that_is_no_yaml(
    tmp_path: Path, files: Files, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "broken.yaml"
    path.write_text("a: [1")

    assert main(["plan", "-f", str(path), "--nodes", str(path)]) == 2
    assert "broken.yaml is neither YAML nor JSON: " in capsys.readouterr().err


def test_a_file_without_models(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    assert files.plan(LAPTOP) == 2
    assert "has no InferenceModel; give the manifest that you would apply" in (
        capsys.readouterr().err
    )


def test_the_inference_model_of_another_group_is_none_of_ours(
    files: Files, capsys: pytest.CaptureFixture[str]
) -> None:
    theirs = model(tiny_spec()) | {"apiVersion": "inference.networking.x-k8s.io/v1alpha2"}

    assert files.plan(theirs) == 2
    assert "has no InferenceModel" in capsys.readouterr().err
    assert files.plan(theirs, model(tiny_spec(), namespace="ml")) == 0
    assert capsys.readouterr().out.startswith("ml/tiny: ")


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["plan"],
        ["plan", "-f", "x"],
        ["plan", "-f", "x", "--nodes", "y", "-o", "xml"],
        ["unknown"],
    ],
    ids=" ".join,
)
def test_wrong_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as raised:
        main(arguments)

    assert raised.value.code == 2
    assert "usage: kindling" in capsys.readouterr().err


def test_the_catalog_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["catalog"]) == 0
    assert capsys.readouterr().out == (
        "flint      BF16 74.3 GiB, NVFP4 21.9 GiB; 262144 tokens of context\n"
        "inkling    BF16 1773.9 GiB, NVFP4 551.3 GiB; 1048576 tokens of context\n"
        "custom     an architecture of your own, in spec.model.custom\n"
    )


def test_a_catalog_entry_shows_what_the_images_can_do_with_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["catalog", "inkling"]) == 0

    told = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert told["runtimes.cuda.sm90.NVFP4"].startswith("Unverified ")
    assert told["runtimes.cuda.otherGPUs"].startswith("Broken ")
    assert told["runtimes.cuda.MTPWithPP"].startswith("Broken ")
    assert told["runtimes.cuda.kernel.Conv"].startswith("INKLING_SCONV_SWA ")


def test_a_catalog_entry_shows_each_fact_with_its_source(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["catalog", "flint"]) == 0

    lines = capsys.readouterr().out.splitlines()
    heads = next(line for line in lines if line.startswith("architecture.attentionHeads"))
    assert heads.split() == [
        "architecture.attentionHeads",
        "32",
        *["vLLM's", "article", "on", "Flint:", "32", "query", "heads"],
    ]


def test_an_unknown_catalog_entry(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["catalog", "llama"]) == 2
    assert capsys.readouterr().err == (
        "kindling: the catalog has no 'llama'; it has flint, inkling\n"
    )


def test_sources_of_a_plan_do_not_mix(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    file = files.write("model.yaml", model(tiny_spec()))

    assert main(["plan", "-f", file, "--context", "x", "--pods", file]) == 2
    assert main(["plan", "-f", file, "--nodes", file, "--kubeconfig", file]) == 2
    assert capsys.readouterr().err == (
        "kindling: --pods is for files and --context for a cluster: give one of them\n"
        "kindling: --kubeconfig is for a cluster and --nodes for files: give one of them\n"
    )

"""`kindling catalog import`: a checkpoint's own files tell the entry, and whether ours is right."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from tests.support import published
from tests.support.manifests import merged
from tests.support.tinymodel.architectures import Architecture as Tiny
from tests.support.tinymodel.make_model import make_model

from kindling_operator import catalog
from kindling_operator.cli import main
from kindling_operator.model.architecture import CatalogEntry
from kindling_operator.model.parse import ParsedModel, parse

PUBLISHED = {"inkling": published.INKLING, "flint": published.FLINT}


def folder(path: Path, config: dict[str, Any]) -> Path:
    path.mkdir(exist_ok=True)
    (path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return path


def imported(path: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, CatalogEntry, str]:
    code = main(["catalog", "import", str(path)])
    out, err = capsys.readouterr()
    return code, msgspec.convert(yaml.safe_load(out), CatalogEntry), err


def refused(path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["catalog", "import", str(path)]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    return err.removeprefix(f"kindling: {path}: ").strip()


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_published_configs_are_what_the_catalog_says(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, entry, err = imported(folder(tmp_path / name, PUBLISHED[name]), capsys)

    assert (code, entry.name) == (0, name)
    assert err == f"kindling: compared with the catalog's {name}: all that the files tell agrees\n"
    shipped = catalog.load(name).architecture
    same = ("layers", "attention", "experts", "draft", "modalities", "replicated_embedding")
    for field in same:
        assert getattr(entry.architecture, field) == getattr(shipped, field)


DRIFT: dict[str, tuple[str, dict[str, Any], list[str]]] = {
    "more context": (
        "flint",
        {"max_position_embeddings": 524_288},
        ["architecture.contextLength: the folder has 524288, the catalog 262144"],
    ),
    "fewer experts": (
        "flint",
        {"num_experts": 128},
        [
            "architecture.experts.count: the folder has 128, the catalog 256",
            "architecture.checkpoints.BF16.bytes: the folder has 41696100352, the catalog"
            " 79746805268",
        ],
    ),
    "prediction layers of one kind": (
        "inkling",
        {"mtp_config": {"num_nextn_predict_layers": 8, "local_layer_ids": []}},
        [
            "architecture.draft.attentionGroup: the folder has full_attention, the catalog"
            " sliding_window",
            "architecture.draft.attentionGroups: the folder has nothing, the catalog"
            " sliding_window, full_attention, sliding_window, full_attention, sliding_window,"
            " sliding_window, sliding_window, sliding_window",
        ],
    ),
    "no prediction layers": (
        "inkling",
        {"mtp_config": None},
        [
            "architecture.draft.depths: the folder has nothing, the catalog 8",
            "architecture.draft.attentionGroup: the folder has nothing, the catalog sliding_window",
            "architecture.draft.attentionGroups: the folder has nothing, the catalog"
            " sliding_window, full_attention, sliding_window, full_attention, sliding_window,"
            " sliding_window, sliding_window, sliding_window",
            "architecture.draft.convGroup: the folder has nothing, the catalog short_conv",
        ],
    ),
    "another window": (
        "inkling",
        {"text_config": published.INKLING["text_config"] | {"sliding_window_size": 1024}},
        ["architecture.attention.sliding_window.window: the folder has 1024, the catalog 512"],
    ),
}


@pytest.mark.parametrize(("name", "changes", "lines"), DRIFT.values(), ids=DRIFT.keys())
def test_drift_is_told_field_by_field(
    name: str,
    changes: dict[str, Any],
    lines: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = folder(tmp_path / "weights", PUBLISHED[name] | changes)

    code, _, err = imported(path, capsys)

    assert code == 1
    *told, last = err.splitlines()
    assert told == lines
    assert last == f"kindling: compared with the catalog's {name}: facts that differ: {len(lines)}"


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "an unknown architecture": (
        published.FLINT | {"architectures": ["FlintV2ForCausalLM"]},
        "config.json is of a FlintV2ForCausalLM, which is none of FlintForCausalLM,"
        " Gemma3ForCausalLM, GptOssForCausalLM, InklingForCausalLM,"
        " InklingForConditionalGeneration, LlamaForCausalLM, MistralForCausalLM, Qwen2ForCausalLM,"
        " Qwen3ForCausalLM, Qwen3MoeForCausalLM: describe the model in spec.model.custom.",
    ),
    "an unknown field": (
        published.FLINT | {"kv_lora_rank": 512},
        "config.json has kv_lora_rank, which Kindling does not know of FlintForCausalLM, so that"
        " its memory cannot be computed: describe the model in spec.model.custom, or remove what"
        " does not matter.",
    ),
    "an unknown field of the prediction layers": (
        published.INKLING | {"mtp_config": published.INKLING["mtp_config"] | {"share": 2}},
        "config.json has mtp_config.share, which Kindling does not know: describe the model in"
        " spec.model.custom.",
    ),
    "a shape that is missing": (
        {key: value for key, value in published.FLINT.items() if key != "hidden_size"},
        "config.json has hidden_size None: a whole number is needed there.",
    ),
    "sliding layers without a window": (
        published.FLINT | {"sliding_window": None},
        "config.json has sliding layers and no sliding_window.",
    ),
    "a window and no word which layers slide": (
        {key: value for key, value in published.FLINT.items() if key != "layer_types"},
        "config.json has sliding_window and no layer_types: add the list, so that it is clear"
        " which layers slide.",
    ),
    "kinds of layers that nobody knows": (
        published.FLINT | {"layer_types": ["linear_attention"] * 49},
        "config.json has layer_types linear_attention: not known here.",
    ),
    "too few kinds of layers": (
        published.FLINT | {"layer_types": ["full_attention"]},
        "config.json has 1 layer_types and 49 layers.",
    ),
    "dense layers at the end": (
        published.FLINT | {"mlp_only_layers": [48]},
        "config.json has dense layers between sparse ones: Kindling plans those before them.",
    ),
    "numbers in half precision": (
        published.FLINT | {"torch_dtype": "float16"},
        "config.json has dtype float16: Kindling plans checkpoints in bfloat16 and NVFP4.",
    ),
    "a format that the planner does not know": (
        published.FLINT | {"quantization_config": {"quant_method": "awq"}},
        "config.json has quantization_config awq: Kindling plans checkpoints in bfloat16 and"
        " NVFP4.",
    ),
    "heads that do not divide": (
        published.FLINT | {"num_key_value_heads": 5},
        "what config.json describes does not add up: attentionHeads: `attentionHeads` 32 is not"
        " divisible by `kvHeads` 5 of group full_attention: copy both from config.json.",
    ),
    "no class": (published.FLINT | {"architectures": []}, "config.json has architectures []"),
}


@pytest.mark.parametrize(("config", "sentence"), WRONG.values(), ids=WRONG.keys())
def test_what_cannot_be_told_is_refused_in_one_sentence(
    config: dict[str, Any], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sentence in refused(folder(tmp_path / "weights", config), capsys)


def test_no_config_at_all(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "config.json cannot be read: No such file or directory." in refused(tmp_path, capsys)


def test_a_config_that_is_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "config.json").write_text("[", encoding="utf-8")

    assert "config.json is no JSON: " in refused(tmp_path, capsys)


def test_the_index_tells_the_size(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = folder(tmp_path / "flint", published.FLINT)
    index = {"metadata": {"total_size": 79_580_000_000}, "weight_map": {}}
    (path / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")

    code, entry, _ = imported(path, capsys)

    assert (code, entry.architecture.checkpoints[0].bytes) == (0, 79_580_000_000)
    assert entry.sources["architecture.checkpoints"] == "model.safetensors.index.json"


def test_an_index_without_a_size(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = folder(tmp_path / "flint", published.FLINT)
    (path / "model.safetensors.index.json").write_text("{}", encoding="utf-8")

    assert "has no total_size: download it again." in refused(path, capsys)


def test_one_gguf_file_is_the_nvfp4_checkpoint(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = folder(tmp_path / "flint", published.FLINT)
    with (path / "flint.gguf").open("wb") as file:
        file.truncate(23_514_945_946)

    code, entry, _ = imported(path, capsys)

    assert code == 0
    assert [(c.name.value, c.bytes) for c in entry.architecture.checkpoints] == [
        ("NVFP4", 23_514_945_946)
    ]


def test_several_gguf_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = folder(tmp_path / "flint", published.FLINT)
    for name in ("a.gguf", "b.gguf"):
        (path / name).touch()

    assert "vLLM reads one GGUF file alone, remove the others." in refused(path, capsys)


def test_a_file_that_is_no_safetensors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = folder(tmp_path / "flint", published.FLINT)
    (path / "model.safetensors").write_bytes(b"GGUF" * 20)

    assert "is no safetensors file: download it again." in refused(path, capsys)


@pytest.mark.parametrize("tiny", Tiny)
def test_an_entry_can_be_served_as_custom(
    tiny: Tiny, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    elements = make_model(tmp_path / "tiny-model", tiny)

    code, entry, err = imported(tmp_path / "tiny-model", capsys)

    assert (code, entry.name) == (0, "tiny-model")
    assert err == "kindling: the catalog has no such model, nothing to compare\n"
    assert entry.architecture.checkpoints[0].bytes == 2 * elements
    spec = {"model": {"name": "custom", "custom": msgspec.to_builtins(entry.architecture)}}
    body = {"metadata": {"name": "tiny", "namespace": "ml"}, "spec": spec}
    assert isinstance(parse(merged(body, {"metadata": {"uid": "u"}})), ParsedModel)


@pytest.mark.parametrize("words", [["import"], ["flint", "folder"]])
def test_wrong_usage(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["catalog", *words]) == 2
    assert "kindling catalog import DIR" in capsys.readouterr().err

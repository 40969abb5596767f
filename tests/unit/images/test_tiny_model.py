"""The tiny models: the same bytes each time, and what vLLM's loaders expect."""

import hashlib
import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest
import yaml
from safetensors import safe_open
from tests.support.manifests import EXAMPLE
from tests.support.tinymodel.architectures import VOCABULARY, Architecture, config, tensors
from tests.support.tinymodel.make_model import make_model
from tokenizers import Tokenizer

ROOT: Final = Path(__file__).parents[3]
# Of the weights of the default model; numpy promises this random stream for good.
WEIGHTS: Final = "213b4477a9c45de1521c12f7218375a280494b0828bef359b79fd9174cf4e1ce"


def digests(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


def test_two_processes_make_the_same_bytes(tmp_path: Path) -> None:
    for name, seed in (("a", "1"), ("b", "2")):
        subprocess.run(
            [sys.executable, "-m", "tests.support.tinymodel", tmp_path / name],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": seed},
            check=True,
            timeout=60,
        )
    assert digests(tmp_path / "a") == digests(tmp_path / "b")
    assert digests(tmp_path / "a")["model.safetensors"] == WEIGHTS


@pytest.mark.parametrize("architecture", list(Architecture))
def test_checkpoint_holds_the_tensors_of_its_config(
    architecture: Architecture, tmp_path: Path
) -> None:
    make_model(tmp_path, architecture)
    settings = json.loads((tmp_path / "config.json").read_text())
    with safe_open(tmp_path / "model.safetensors", framework="numpy") as file:
        found = {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118 # no mapping
    assert found == dict(tensors(settings))


def test_default_model_is_the_one_that_the_example_describes(tmp_path: Path) -> None:
    described = yaml.safe_load(EXAMPLE.read_text())["spec"]["model"]["custom"]
    count = make_model(tmp_path)
    settings = json.loads((tmp_path / "config.json").read_text())
    (attention,) = described["attention"]
    assert settings["architectures"] == [described["architecture"]]
    assert settings["hidden_size"] == described["hiddenSize"]
    assert settings["vocab_size"] == described["vocabularySize"]
    assert settings["num_attention_heads"] == described["attentionHeads"]
    assert settings["num_hidden_layers"] == described["layers"] == attention["layers"]
    assert settings["intermediate_size"] == described["intermediateSize"]
    assert settings["num_key_value_heads"] == attention["kvHeads"]
    assert settings["head_dim"] == attention["headSize"]
    assert settings["max_position_embeddings"] == described["contextLength"]
    (checkpoint,) = described["checkpoints"]
    assert checkpoint["bytes"] == 2 * count  # bfloat16


def test_every_token_that_can_be_sampled_decodes(tmp_path: Path) -> None:
    make_model(tmp_path)
    tokenizer = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    assert tokenizer.get_vocab_size() == VOCABULARY
    assert all(tokenizer.id_to_token(number) for number in range(VOCABULARY))
    text = "The server keeps a prefix of the cache."
    assert tokenizer.decode(tokenizer.encode(text).ids) == text


def test_files_can_be_read_by_another_user(tmp_path: Path) -> None:
    make_model(tmp_path)
    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {0o644}


def test_layers_are_one_letter_each() -> None:
    settings = config(Architecture.GEMMA3, max_len=4096, layers="sssff")
    assert settings["num_hidden_layers"] == len("sssff")
    assert settings["layer_types"].count("sliding_attention") == "sssff".count("s")


@pytest.mark.parametrize(
    ("architecture", "layers", "message"),
    [
        (
            Architecture.GEMMA3,
            "sxf",
            "--layers sxf has letters other than s and f: use one a layer.",
        ),
        (
            Architecture.QWEN3,
            "sf",
            "--layers sf: qwen3 has no sliding windows, use f alone.",
        ),
    ],
)
def test_layers_that_do_not_fit_are_refused(
    architecture: Architecture, layers: str, message: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=f"^{message}$"):
        make_model(tmp_path / "model", architecture, layers=layers)
    assert not (tmp_path / "model").exists()

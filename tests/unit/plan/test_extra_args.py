"""Extra arguments are judged as vLLM's parser would read them."""

import pytest
from tests.support.builders import Cluster, catalog_spec, cpu_node, gpu_node, tiny_spec

from kindling_operator.plan.extra_args import FORBIDDEN, forbidden_argument, option_of, options

SPELLINGS = {
    "plain": ("--max-model-len", "--max-model-len"),
    "with a value": ("--max-model-len=4096", "--max-model-len"),
    "with underscores": ("--max_model_len=4096", "--max-model-len"),
    "switched off": ("--no-enable-prefix-caching", "--enable-prefix-caching"),
    "a key of a config": ("--kernel-config.enable_x=False", "--kernel-config"),
    "a value with dots and dashes": ("--seed=a.b--c", "--seed"),
}


@pytest.mark.parametrize(("argument", "option"), SPELLINGS.values(), ids=SPELLINGS.keys())
def test_option_of_an_argument(argument: str, option: str) -> None:
    assert option_of(argument) == option


@pytest.mark.parametrize("option", FORBIDDEN)
def test_every_forbidden_option_is_found_in_each_spelling(option: str) -> None:
    way_out = FORBIDDEN[option]
    underscored = f"--{option[2:].replace('-', '_')}"

    for argument in (option, f"{option}=1", underscored, f"{option}.key=1", f"--no-{option[2:]}"):
        assert forbidden_argument(argument, FORBIDDEN) == (option, way_out)


@pytest.mark.parametrize("option", FORBIDDEN)
def test_ways_out_read_on_after_a_colon(option: str) -> None:
    assert FORBIDDEN[option][0].islower()
    assert not FORBIDDEN[option].endswith(".")


def test_an_abbreviation_is_read_as_what_it_abbreviates() -> None:
    assert forbidden_argument("--tensor-par=8", FORBIDDEN) == (
        "--tensor-parallel-size",
        FORBIDDEN["--tensor-parallel-size"],
    )


@pytest.mark.parametrize(
    "argument",
    [
        "--seed=7",
        "--enable-log-requests",
        "--max-num-queued-reqs=10",
        "--load-format=dummy",
    ],
)
def test_other_arguments_pass(argument: str) -> None:
    assert forbidden_argument(argument, FORBIDDEN) is None


def test_what_the_plan_renders_cannot_be_given_again() -> None:
    """A second value would win in vLLM's parser, and the plan would not be true."""
    found = Cluster(nodes=(gpu_node("gpu-0"), cpu_node()))
    four_bit = catalog_spec("flint", model={"checkpoint": "NVFP4"})
    for spec in (tiny_spec(), catalog_spec("flint"), four_bit):
        current = found.apply(spec).decide().current
        assert current is not None
        for option in sorted(options(current.plan.argv)):
            extra = {**spec, "serving": {"extraArgs": [f"{option}=x"]}}
            refused = found.apply(extra).decide().refused
            assert refused is not None, option
            assert option in refused.message

"""What an engine tells of its KV cache in its metrics."""

import pytest

from kindling_runtime.contract import EngineFacts
from kindling_runtime.enginefacts import told

LINE = (
    'vllm:cache_config_info{block_size="16",cache_dtype="auto",engine="%d",'
    'kv_cache_max_concurrency="%s",kv_cache_size_tokens="%s",num_gpu_blocks="%s"} 1.0\n'
)
NOISE = 'vllm:num_requests_running{engine="0"} 0.0\nnot a metric {{{\n'


def test_pool_and_capacity_are_read_as_vllm_logs_them() -> None:
    assert told(NOISE + LINE % (0, "12.336666", "1258944", "79000")) == EngineFacts(
        kv_blocks=79_000, kv_tokens=1_258_944, kv_concurrency="12.34", cache_dtype="auto"
    )


def test_of_several_engines_the_smallest_counts() -> None:
    text = LINE % (0, "2.0", "2000", "200") + LINE % (1, "1.0", "1000", "100")

    found = told(text)

    assert found is not None
    assert found.kv_blocks == 100


@pytest.mark.parametrize("text", ["", NOISE, "vllm:cache_config_info{broken"])
def test_an_engine_that_does_not_tell_has_no_facts(text: str) -> None:
    assert told(text) is None


def test_what_is_not_known_yet_is_none() -> None:
    assert told(LINE % (0, "None", "None", "None")) == EngineFacts(cache_dtype="auto")

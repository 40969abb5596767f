"""The engine's count of its answers at /v1/models, out of its metrics."""

import pytest

from kindling_runtime.answers import counted

# As vLLM 0.32 on CPU printed it, shortened to one status group of each handler.
METRICS = """\
# HELP vllm:generation_tokens_total Number of generation tokens processed.
# TYPE vllm:generation_tokens_total counter
vllm:generation_tokens_total{engine="0",model_name="tiny"} 12.0
# HELP http_requests_total Total number of requests by method, status and handler.
# TYPE http_requests_total counter
http_requests_total{handler="/v1/completions",method="POST",status="2xx"} 9.0
http_requests_total{handler="/v1/models",method="GET",status="2xx"} 3.0
http_requests_total{handler="/v1/models",method="GET",status="4xx"} 1.0
http_requests_total{handler="/v1/models",method="POST",status="4xx"} 5.0
# TYPE http_requests_created gauge
http_requests_created{handler="/v1/models",method="GET",status="2xx"} 1.79e+09
# TYPE http_request_size_bytes summary
http_request_size_bytes_count{handler="/v1/models"} 3.0
"""


def test_every_answer_to_a_question_for_the_models_counts_and_nothing_else() -> None:
    assert counted(METRICS) == 4


def test_before_the_first_question_the_count_is_zero() -> None:
    others = "\n".join(line for line in METRICS.splitlines() if "/v1/models" not in line)

    assert counted(others) == 0


@pytest.mark.parametrize(
    "text", ["", "vllm:generation_tokens_total 12\n", "http_requests_total{handler= 3\n"]
)
def test_an_engine_that_counts_no_requests_tells_nothing(text: str) -> None:
    assert counted(text) is None

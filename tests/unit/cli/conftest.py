"""A working folder for `kindling plan`."""

from pathlib import Path

import pytest
from tests.support.plan_files import Files


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)

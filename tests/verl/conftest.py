"""Tests of the verl backend. They run in an environment of their own: `make test-verl`."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import pytest

from rollwise.backends.verl import cpu

HERE = Path(__file__).parent
NEED_VERL = {"test_parity.py", "test_end_to_end.py", "test_images.py", "test_rollouts.py"}


if importlib.util.find_spec("verl") is not None:
    os.environ.update(cpu.environment())  # verl looks for its platform once, whichever test imports it first


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if importlib.util.find_spec("verl") is not None:
        return
    for item in items:
        if item.path.parent == HERE and item.path.name in NEED_VERL:
            item.add_marker(pytest.mark.skip(reason="verl is not installed here; `make test-verl` runs this"))

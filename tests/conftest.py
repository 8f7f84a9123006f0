from __future__ import annotations

import gc
import os
from pathlib import Path

import pytest
from hypothesis import settings

from tests.support.agents.client_packages import prepare
from tests.support.effort import repeats

HERE = Path(__file__).parent
FOLDERS = {"vllm": HERE / "gateway", "litellm_process": HERE / "proxy" / "process"}
"""Folders whose conftest.py marks all their tests."""

# When it is imported, LiteLLM otherwise fetches a table of prices, and waits ten seconds without a
# network.
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")

# Until the tests are collected: their modules import vLLM and LiteLLM, and collections of garbage
# would take a third of that time.
gc.disable()

# How long an example takes says how busy the machine is, not whether the code is right.
settings.register_profile("toolgate", deadline=None, max_examples=repeats(40, nightly=100))
settings.load_profile("toolgate")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Modules without a test of the mark that -m names are not imported, which takes half a minute
    for all of them."""
    selected = config.option.markexpr
    for mark, folder in FOLDERS.items():
        inside = collection_path.is_relative_to(folder)
        if inside and f"not {mark}" in selected:
            return True
        is_module = collection_path.suffix == ".py"
        if is_module and not inside and selected.split(" ")[0] == mark:
            return f"pytest.mark.{mark}" not in collection_path.read_text() or None
    return None


def pytest_collection_finish(session: pytest.Session) -> None:
    """Client libraries are installed while other tests run."""
    if not session.config.option.collectonly:
        prepare({item.path.stem for item in session.items})
    # Modules and collected tests live until the end. A full garbage collection, which some tests
    # ask for, takes a second less without them.
    gc.collect()
    gc.freeze()
    gc.enable()

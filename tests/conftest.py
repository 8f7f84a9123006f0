import gc
import logging
import os
from functools import cache
from pathlib import Path

import pytest
from hypothesis import settings

from tests.support.agents.client_packages import prepare
from tests.support.effort import FAST, NIGHTLY, SAMPLE, SETTING, part_of, repeats

HERE = Path(__file__).parent
FOLDERS = {
    "backend": (HERE / "backend", HERE / "models", HERE / "verify"),
    "exhaustive": tuple(HERE / name for name in ("bench", "deploy", "mutants", "release")),
    "litellm_process": (HERE / "proxy" / "process",),
    "vllm": (HERE / "gateway",),
}
"""Folders of which all tests have the mark."""

# When it is imported, LiteLLM otherwise fetches a table of prices, and waits ten seconds without a
# network.
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")

# Until the tests are collected: their modules import vLLM and LiteLLM, and collections of garbage
# would take a third of that time.
gc.disable()

# How long an example takes says how busy the machine is, not whether the code is right. New
# examples are for the nightly run: what they find says nothing about the change that is tested.
settings.register_profile(
    "toolgate", deadline=None, max_examples=repeats(30, nightly=100), derandomize=not NIGHTLY
)
settings.load_profile("toolgate")


def pytest_runtest_setup():
    """Loggers are as they begin, whatever tests and libraries have configured before."""
    logging.disable(logging.NOTSET)
    logging.root.setLevel(logging.WARNING)
    for name, logger in logging.root.manager.loggerDict.items():
        if name.startswith("toolgate") and isinstance(logger, logging.Logger):
            logger.disabled, logger.propagate = False, True
            if logger.level > logging.WARNING:
                logger.setLevel(logging.NOTSET)


def pytest_report_header():
    return f"sample of the matrices: {SAMPLE} (repeat it with {SETTING}={SAMPLE})"


def pytest_ignore_collect(collection_path, config):
    """Modules without a test of the marks that -m names are not imported, which takes half a minute
    for all of them, nor is the conftest.py of a folder of such modules."""
    selected = config.option.markexpr
    if any(f"not {mark}" in selected for mark in marks_of(collection_path)):
        return True
    required = required_marks(selected)
    if not required or collection_path.suffix not in ("", ".py"):
        return None
    inside = collection_path.rglob("*.py") if collection_path.is_dir() else [collection_path]
    return not any(may_have(path, required) for path in inside) or None


def may_have(module, required):
    """Whether a test of the module may have one of the marks."""
    return bool(marks_of(module) & required) or any(
        f"pytest.mark.{mark}" in source_of(module) for mark in required
    )


@cache
def source_of(module):
    return module.read_text()


def marks_of(path):
    """The marks of the folder in which a module is."""
    return {mark for mark, folders in FOLDERS.items() if any(map(path.is_relative_to, folders))}


def pytest_itemcollected(item):
    for mark in marks_of(item.path):
        item.add_marker(mark)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    """After -m has selected: this hook is the last one."""
    if not FAST:
        return
    kept = [*part_of(items)]
    config.hook.pytest_deselected(items=[*{*items} - {*kept}])
    items[:] = kept


def required_marks(selected):
    """The marks of which each test has one: `(a or b) and not c` → {a, b}."""
    first = selected.partition(" and ")[0].strip("()")
    return set() if first.startswith("not ") else {*first.split(" or ")} - {""}


def pytest_collection_finish(session):
    """Client libraries are installed while other tests run."""
    options = session.config.option
    if not options.collectonly and not getattr(options, "workers", 0):
        prepare({item.path.stem for item in session.items})
    # Modules and collected tests live until the end. A full garbage collection, which some tests
    # ask for, takes a second less without them.
    gc.collect()
    gc.freeze()
    gc.enable()


def pytest_unconfigure():
    """The last garbage collection sees all objects again. Otherwise triton's library reports those
    that it can't free, after pytest's last line."""
    gc.unfreeze()

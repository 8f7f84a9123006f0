"""Rules of the APIs that servers and model families keep: runs `toolgate verify` on each of them.

    python -m tests.long verify MODEL_DIR [--only toolgate --only vllm-strict] [--suite full]
    python -m tests.long verify --families shapes|all|NAME,NAME [--again]

With MODEL_DIR, the servers are Toolgate, vLLM, vLLM with strict tools, and LiteLLM in front of it.
With `--families`, they are Toolgate with a random model in the form of each family (`shapes`: one
family of each shape of calls). Reports are kept in .cache/verify, and a server with a report is not
verified again without `--again`. In the end all of them are compared. The exit status is 1 if
Toolgate broke a rule, or if a server did not start.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from tests.long.verify.servers import Starter, family, servers
from tests.long.verify.verification import NotVerified, compared, read, verify
from tests.models import ROOT
from tests.support.servers.contenders import NotStarted, exit_on_sigterm
from toolgate_core.dialects.registry import DIALECTS, SHAPES

CACHE = ROOT / ".cache" / "verify"
OTHERS = ("vllm", "vllm-strict", "litellm")
"""Servers that may break rules."""
WITH_CALLS = [name for name, dialect in DIALECTS.items() if dialect.calls]
ONE_OF_EACH_SHAPE = [
    next(name for name in WITH_CALLS if DIALECTS[name].shape == shape) for shape in SHAPES
]


def main() -> int:
    exit_on_sigterm()
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("model", type=Path, nargs="?", help="model directory")
    parser.add_argument("--only", action="append", choices=("toolgate", *OTHERS))
    parser.add_argument("--families", type=families, default=[], metavar="NAMES")
    parser.add_argument("--suite", choices=("quick", "full"), default="quick")
    parser.add_argument("--again", action="store_true", help="also servers that have a report")
    options = parser.parse_args()
    chosen: dict[str, Starter] = {name: partial(family, name) for name in options.families}
    if options.model is not None:
        known = servers(options.model.resolve())
        chosen |= {name: known[name] for name in options.only or known}
    if not chosen:
        parser.error("name a model directory or --families")
    return verify_all(chosen, options.suite, again=options.again)


def families(text: str) -> Sequence[str]:
    """The names in the option. Raises ArgumentTypeError."""
    if text in ("all", "shapes"):
        return WITH_CALLS if text == "all" else ONE_OF_EACH_SHAPE
    names = text.split(",")
    if unknown := [name for name in names if name not in WITH_CALLS]:
        raise argparse.ArgumentTypeError(f"no family is named {', '.join(unknown)}")
    return names


def verify_all(chosen: Mapping[str, Starter], suite: str, *, again: bool) -> int:
    CACHE.mkdir(parents=True, exist_ok=True)
    reports = {name: CACHE / f"{name}-{suite}.json" for name in chosen}
    missing = False
    for name, start in chosen.items():
        if reports[name].exists() and not again:
            continue
        try:
            with start() as server:
                print(f"{name}: {server.url}", flush=True)
                verify(server.url, server.model, server.key, suite, reports[name])
        except (NotStarted, NotVerified) as error:
            print(f"{name}: {error}", file=sys.stderr, flush=True)
            missing = True
    found = {name: path for name, path in reports.items() if path.exists()}
    print(compared(found))
    ours = [read(path) for name, path in found.items() if name not in OTHERS]
    return int(missing or any(map(_is_broken, ours)))


def _is_broken(report: Mapping[str, Any]) -> bool:
    return bool(report["counts"]["failed"])

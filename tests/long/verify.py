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
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tests.models import ROOT, tiny_family
from tests.support import commands
from tests.support.servers.contenders import NotStarted, exit_on_sigterm, running
from tests.support.servers.gateways import KEY, litellm_config, start
from toolgate_core.dialects.registry import DIALECTS, SHAPES

CACHE = ROOT / ".cache" / "verify"
OTHERS = ("vllm", "vllm-strict", "litellm")
"""Servers that may break rules."""
WITH_CALLS = [name for name, dialect in DIALECTS.items() if dialect.calls]
ONE_OF_EACH_SHAPE = [
    next(name for name in WITH_CALLS if DIALECTS[name].shape == shape) for shape in SHAPES
]
COMMAND = (str(Path(sys.executable).with_name("toolgate")), "verify")
UNVERIFIED = 2
"""Exit status if the endpoint could not be verified."""


class NotVerified(RuntimeError):
    """There is no report. The message is that of `toolgate verify`."""


@dataclass(frozen=True)
class Endpoint:
    url: str
    model: str
    key: str
    """Empty for servers that run without keys, so that checks of keys do not run."""


Starter = Callable[[], AbstractContextManager[Endpoint]]


def servers(model: Path) -> Mapping[str, Starter]:
    """Servers of one model, by name."""
    names = ("toolgate", "vllm", "vllm-strict")
    return {name: partial(_contender, name, model) for name in names} | {
        "litellm": partial(_litellm, model)
    }


@contextmanager
def family(name: str) -> Iterator[Endpoint]:
    """Toolgate with a random model in the form of a family."""
    model = ROOT / ".cache" / "models" / f"tiny-{name}"
    tiny_family.build(model, DIALECTS[name])
    with _contender("toolgate", model) as endpoint:
        yield endpoint


@contextmanager
def _contender(name: str, model: Path) -> Iterator[Endpoint]:
    with running(name, model, label=f"verify-{name}") as server:
        yield Endpoint(server.url, server.model_name(), server.key if name == "toolgate" else "")


@contextmanager
def _litellm(model: Path) -> Iterator[Endpoint]:
    """vLLM with strict tools behind LiteLLM's `hosted_vllm/`."""
    with ExitStack() as stack:
        upstream = stack.enter_context(_contender("vllm-strict", model))
        logs = Path(tempfile.mkdtemp(prefix="toolgate-verify-"))
        config = litellm_config({"model": upstream.url}, upstream.model)
        # By default one error of the upstream makes LiteLLM refuse further requests for seconds.
        config["router_settings"] = {"disable_cooldowns": True, "num_retries": 0}
        gateway = start("litellm", config, logs, stack, {})
        gateway.wait()
        yield Endpoint(gateway.url, "model", KEY)


def verify(url: str, model: str, key: str, suite: str, report: Path) -> dict[str, Any]:
    """Verify all APIs of a server, and return the report, which is also written. Raises
    NotVerified."""
    command = [
        *(*COMMAND, url, "--model", model),
        *("--api", "all", "--suite", suite, "--timeout", "120", "--json", str(report)),
    ]
    environment = {**os.environ, "TOOLGATE_VERIFY_KEY": key}
    # An empty variable counts as unset, so the key of another server would be sent.
    environment.pop("TOOLGATE_API_KEY", None)
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode == UNVERIFIED:
        raise NotVerified(done.stderr.strip()[-500:] or done.stdout.strip()[-500:])
    print(done.stdout[-1500:], flush=True)
    return read(report)


def read(report: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(report.read_text())
    return found


def compared(reports: Mapping[str, Path]) -> str:
    """The page that compares reports by the names of their servers."""
    options = [part for name, path in reports.items() for part in ("--compare", f"{name}={path}")]
    return subprocess.run([*COMMAND, *options], check=True, capture_output=True, text=True).stdout


def main() -> int:
    exit_on_sigterm()
    parser = commands.parser_of(__doc__)
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
    for name, started in chosen.items():
        if reports[name].exists() and not again:
            continue
        try:
            with started() as server:
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

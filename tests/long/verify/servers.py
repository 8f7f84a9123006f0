"""The servers that are verified."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.models import ROOT, tiny_family
from tests.support.servers.contenders import running
from tests.support.servers.gateways import KEY, litellm_config, start
from toolgate_core.dialects.registry import DIALECTS


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

"""Gateways without the rest of a stack: ours, and LiteLLM as its users run it before vLLM."""

import os
import sys
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
import yaml

from toolgate_proxy.stack.processes import Child, free_port

KEY = "sk-bench"
HEADERS = {"Authorization": f"Bearer {KEY}"}
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Gateway:
    name: str
    url: str
    child: Child
    key: str = KEY

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.key}"}

    def with_key(self, key: str) -> "Gateway":
        return replace(self, key=key)

    def memory_mb(self) -> int:
        """Resident memory of its process."""
        status = Path(f"/proc/{self.child.pid}/status").read_text()
        (line,) = (line for line in status.splitlines() if line.startswith("VmRSS"))
        return int(line.split()[1]) // 1024

    def cpu_seconds(self) -> float:
        """Of its process, user and system."""
        fields = Path(f"/proc/{self.child.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def wait(self, patience: float = 180) -> None:
        """Until it answers. Raises TimeoutError after `patience` seconds."""
        give_up = time.monotonic() + patience
        while time.monotonic() < give_up:
            self.child.check()
            try:
                url = f"{self.url}/v1/models"
                if httpx.get(url, headers=HEADERS, timeout=5, trust_env=False).is_success:
                    return
            except httpx.TransportError:
                pass  # not listening yet
            time.sleep(0.3)
        raise TimeoutError(self.name)


def start(
    name: str, config: Mapping[str, Any], logs: Path, held: ExitStack, more: Mapping[str, str]
) -> Gateway:
    """Ours when it is called `toolgate`, else LiteLLM's own; ended with `held`."""
    path = logs / f"{name}.yaml"
    path.write_text(yaml.safe_dump(dict(config)))
    port = free_port()
    environment = {
        "TOOLGATE_MASTER_KEY": KEY,
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "LITELLM_LOG": "ERROR",
        **more,
    }
    ours = [sys.executable, "-m", "toolgate_proxy", "proxy"]
    theirs = [str(Path(sys.executable).with_name("litellm"))]
    command = ours if name == "toolgate" else theirs
    options = ["--config", str(path), "--host", "127.0.0.1", "--port", str(port)]
    child = Child(name, [*command, *options], environment, logs / f"{name}.log")
    held.callback(child.stop)
    return Gateway(name, f"http://127.0.0.1:{port}", child)


def stock_config(upstreams: Mapping[str, str], model: str) -> dict[str, Any]:
    """LiteLLM's `hosted_vllm/` before `model` of each upstream, by the name it has here."""
    params = {
        name: {"model": f"hosted_vllm/{model}", "api_base": f"{url}/v1", "api_key": "x"}
        for name, url in upstreams.items()
    }
    return {
        "model_list": [{"model_name": n, "litellm_params": given} for n, given in params.items()],
        "general_settings": {"master_key": KEY},
    }

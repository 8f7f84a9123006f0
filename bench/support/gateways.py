"""Gateways without backends: Toolgate's, and plain LiteLLM with `hosted_vllm/` models."""

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

from toolgate_proxy.ops.stack.processes import Child, free_port

KEY = "sk-bench"
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
        """Resident memory of the gateway's process."""
        status = Path(f"/proc/{self.child.pid}/status").read_text()
        (line,) = (line for line in status.splitlines() if line.startswith("VmRSS"))
        return int(line.split()[1]) // 1024

    def cpu_seconds(self) -> float:
        """User and system time of the gateway's process."""
        fields = Path(f"/proc/{self.child.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def wait(self, timeout: float = 180) -> None:
        """Wait until the gateway responds. Raises TimeoutError after `timeout` seconds."""
        wait_until_ready(self.child, f"{self.url}/v1/models", KEY, timeout)


def wait_until_ready(child: Child, url: str, key: str, timeout: float) -> None:
    """Wait until a server responds at the URL. Raises TimeoutError after `timeout` seconds."""
    headers = {"Authorization": f"Bearer {key}"}
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        child.check()
        try:
            if httpx.get(url, headers=headers, timeout=5, trust_env=False).is_success:
                return
        except httpx.TransportError:
            pass  # not listening yet
        time.sleep(0.3)
    raise TimeoutError(f"{url} did not respond within {timeout:.0f} s.")


def start(
    name: str, config: Mapping[str, Any], logs: Path, stack: ExitStack, env: Mapping[str, str]
) -> Gateway:
    """Start Toolgate's gateway if `name` is `toolgate`, else LiteLLM. `stack` stops it."""
    path = logs / f"{name}.yaml"
    path.write_text(yaml.safe_dump(dict(config)))
    port = free_port()
    environment = {
        "TOOLGATE_MASTER_KEY": KEY,
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "LITELLM_LOG": "ERROR",
        **env,
    }
    toolgate = [sys.executable, "-m", "toolgate_proxy", "proxy"]
    litellm = [str(Path(sys.executable).with_name("litellm"))]
    command = toolgate if name == "toolgate" else litellm
    options = ["--config", str(path), "--host", "127.0.0.1", "--port", str(port)]
    child = Child(name, [*command, *options], environment, logs / f"{name}.log")
    stack.callback(child.stop)
    return Gateway(name, f"http://127.0.0.1:{port}", child)


def litellm_config(upstreams: Mapping[str, str], model: str) -> dict[str, Any]:
    """LiteLLM's configuration. `upstreams`: vLLM's URL for each model name; all serve `model`."""
    params = {
        name: {"model": f"hosted_vllm/{model}", "api_base": f"{url}/v1", "api_key": "x"}
        for name, url in upstreams.items()
    }
    return {
        "model_list": [{"model_name": n, "litellm_params": given} for n, given in params.items()],
        "general_settings": {"master_key": KEY},
    }

"""Fields and events of the Responses and the Messages API: vLLM, LiteLLM and Toolgate.

    python -m bench api-comparison --model MODEL_DIR [--api responses|messages] [--only SERVER]
    python -m bench api-comparison --report responses > table.md

The same random model is behind all servers: vLLM's own endpoint, LiteLLM's gateway that converts
requests to vLLM's chat completions, and Toolgate. Results are written to
`.cache/api-comparison/API-SERVER.json`.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bench.support.contenders import exit_on_sigterm, running
from bench.support.data import ROOT
from bench.support.gateways import KEY, litellm_config, start

from . import messages_cases, responses_cases
from .case import run
from .client import Client

OUT = ROOT / ".cache" / "api-comparison"
SERVERS = ("vllm", "litellm", "toolgate")
TITLES = {"vllm": "vLLM", "litellm": "LiteLLM's conversion", "toolgate": "Toolgate"}
APIS = {"responses": responses_cases, "messages": messages_cases}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", type=Path, help="model directory")
    parser.add_argument("--api", choices=APIS, action="append")
    parser.add_argument("--only", choices=SERVERS, action="append")
    parser.add_argument("--report", choices=APIS, help="only print the table of the last results")
    options = parser.parse_args()
    if options.report:
        print(table(options.report))
        return
    exit_on_sigterm()
    OUT.mkdir(parents=True, exist_ok=True)
    wanted = options.only or SERVERS
    for name, (url, key, model) in started(options.model.resolve(), wanted):
        for api in options.api or APIS:
            headers = {"authorization": f"Bearer {key}", "x-api-key": key}
            if api == "messages":
                headers["anthropic-version"] = "2023-06-01"
            client = Client(url, APIS[api].PATH, model, headers)
            found = run(APIS[api].cases(), client)
            (OUT / f"{api}-{name}.json").write_text(json.dumps(found, indent=1))
            print(f"{name} {api}: {sum(v == 'yes' for v in found.values())} of {len(found)}")
    for api in options.api or APIS:
        print(f"\n{table(api)}")


def started(model: Path, wanted: object) -> Iterator[tuple[str, tuple[str, str, str]]]:
    """Each server: its URL, key and model. vLLM runs behind LiteLLM, too."""
    assert isinstance(wanted, list | tuple)
    if {"vllm", "litellm"} & {*wanted}:
        with running("vllm-strict", model) as vllm:
            name = vllm.model_name()
            if "vllm" in wanted:
                yield "vllm", (vllm.url, vllm.key, name)
            if "litellm" in wanted:
                with litellm(vllm.url, name) as url:
                    yield "litellm", (url, KEY, name)
    if "toolgate" in wanted:
        with running("toolgate", model) as toolgate:
            yield "toolgate", (toolgate.url, toolgate.key, toolgate.model_name())


@contextmanager
def litellm(upstream: str, model: str) -> Iterator[str]:
    config = litellm_config({model: upstream}, model)
    for each in config["model_list"]:
        each["litellm_params"]["use_chat_completions_api"] = True
    with ExitStack() as stack:
        logs = Path(tempfile.mkdtemp(prefix="toolgate-api-comparison-"))
        gateway = start("hosted_vllm", config, logs, stack, {})
        gateway.wait()
        yield gateway.url


def table(api: str) -> str:
    """The outcomes of the servers as Markdown."""
    results: Mapping[str, Mapping[str, str]] = {
        name: json.loads(path.read_text())
        for name in SERVERS
        if (path := OUT / f"{api}-{name}.json").exists()
    }
    names = [f"{case.group}|{case.name}" for case in APIS[api].cases()]
    lines = [["", *(TITLES[each] for each in results)], ["---"] * (len(results) + 1)]
    lines += [
        [name.replace("|", ": ", 1), *(found.get(name, "") for found in results.values())]
        for name in names
    ]
    totals = [sum(found.get(name) == "yes" for name in names) for found in results.values()]
    lines.append([f"of {len(names)}", *map(str, totals)])
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


if __name__ == "__main__":
    main()

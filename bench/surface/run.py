"""Each request parameter, compared between Toolgate and vLLM's own server.

    python -m bench surface --model MODEL_DIR       run both servers, then print the table
    python -m bench surface --report [FILE]         the table of the last results, into FILE

Each value is sent in a streamed and a non-streamed request. Results are written to
`.cache/surface/<contender>.json`.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from bench.support.contenders import CONTENDERS, NotStarted, Server, exit_on_sigterm, running
from bench.support.data import ROOT
from bench.surface import chat, extras, messages, sampling
from bench.surface.cases import Case
from bench.surface.probe import ChatResponse, Prober
from bench.surface.report import document
from toolgate_proxy.demo.model import closers

OUT = ROOT / ".cache" / "surface"


def all_cases(model: Path) -> list[Case]:
    bias = closers(model)
    config = json.loads((model / "config.json").read_text())
    ends = config["eos_token_id"]
    end = {str(token): 100.0 for token in (ends if isinstance(ends, list) else [ends])}
    return [
        *sampling.cases(end),
        *chat.cases(bias),
        *messages.cases(),
        *extras.cases(),
    ]


def outcome(case: Case, send: Prober) -> tuple[str, str]:
    """Send one case. Returns the kind of outcome, and the error message, if any."""
    body = case.body if isinstance(case.body, dict) else case.body(send)
    response = send(body)
    message = response.broken or str((response.error or {}).get("message", ""))
    if response.status == 200 and not response.broken:
        if case.effect is None:
            return "taken", ""
        return ("acts" if _has_effect(case, send, response) else "ignored"), ""
    if 400 <= response.status < 500 and not response.broken:
        return f"{response.status}{'' if _clear(case, response) else ', unclear'}", message
    return f"fails ({response.status or 'no response'})", message


def _has_effect(case: Case, send: Prober, response: ChatResponse) -> bool:
    assert case.effect is not None
    try:
        return case.effect(send, response)
    except (KeyError, IndexError, TypeError):
        return False  # the response lacks the expected field


def _clear(case: Case, response: ChatResponse) -> bool:
    """Whether the error is in OpenAI's format and names the parameter."""
    error = response.error or {}
    if not {"message", "type", "param", "code"} <= error.keys() or not error["message"]:
        return False
    name = case.parameter.split(" ")[0]
    return name in f"{error['param']} {error['message']}"


def probe(server: Server, cases: list[Case]) -> list[dict[str, Any]]:
    model = server.model_name()
    probers = {stream: Prober(server, model, stream=stream) for stream in (False, True)}
    rows: list[dict[str, Any]] = []
    for case in cases:
        found = {stream: outcome(case, probers[stream]) for stream in case.stream_values}
        outcomes = list(dict.fromkeys(kind for kind, _ in found.values()))
        message = next((message for _, message in found.values() if message), "")
        rows.append(
            {
                "parameter": case.parameter,
                "value": case.value,
                "invalid": case.invalid,
                "outcomes": outcomes,
                "message": message,
            }
        )
        print(f"{case.parameter} {case.value}: {outcomes} {message[:100]}")
        if not server.alive():
            print("THE SERVER DIED")
            rows[-1]["outcomes"] = ["dies"]
            break
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--contender", action="append", choices=CONTENDERS)
    parser.add_argument("--model", type=Path, help="model directory")
    parser.add_argument("--report", nargs="?", const="-", help="only write the table, to this file")
    options = parser.parse_args()
    OUT.mkdir(parents=True, exist_ok=True)
    if options.model:
        exit_on_sigterm()
        model = options.model.resolve()
        for contender in options.contender or ("vllm-strict", "toolgate"):
            try:
                with running(contender, model) as server:
                    rows = probe(server, all_cases(model))
            except NotStarted as error:
                print(error, file=sys.stderr)
                return 1
            (OUT / f"{contender}.json").write_text(json.dumps(rows, indent=1, ensure_ascii=False))
    text, worse = document(OUT)
    if options.report in (None, "-"):
        print(text)
    else:
        Path(options.report).write_text(text)
    return 1 if worse else 0

"""Parameter by parameter: what vLLM's own server does with it, and what ours does.

    python -m bench.surface.run --model MODEL_DIR            both servers, then the table
    python -m bench.surface.run --report [FILE]  the table of the last results, into FILE

Each value is sent as it is, streamed and not. Results go to `.cache/surface/<contender>.json`.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from bench.support.contenders import CONTENDERS, NotStarted, Server, leave_on_sigterm, running
from bench.surface import chat as surface_chat
from bench.surface import extras as surface_extras
from bench.surface import messages as surface_messages
from bench.surface import sampling as surface_sampling
from bench.surface.cases import Case
from bench.surface.probe import Prober, Seen
from bench.surface.report import document
from toolgate_proxy.demo.run import closers

ROOT = Path(__file__).resolve().parents[2]
OUT = ROOT / ".cache" / "surface"


def all_cases(model: Path) -> list[Case]:
    bias = closers(model)
    config = json.loads((model / "config.json").read_text())
    ends = config["eos_token_id"]
    end = {str(token): 100.0 for token in (ends if isinstance(ends, list) else [ends])}
    return [
        *surface_sampling.cases(end),
        *surface_chat.cases(bias),
        *surface_messages.cases(),
        *surface_extras.cases(),
    ]


def outcome(case: Case, ask: Prober) -> tuple[str, str]:
    """What became of it, and the error's words where there was one."""
    body = case.body if isinstance(case.body, dict) else case.body(ask)
    seen = ask(body)
    said = seen.broken or str((seen.error or {}).get("message", ""))
    if seen.status == 200 and not seen.broken:
        if case.effect is None:
            return "taken", ""
        return ("acts" if _holds(case, ask, seen) else "ignored"), ""
    if 400 <= seen.status < 500 and not seen.broken:
        return f"{seen.status}{'' if _clear(case, seen) else ', unclear'}", said
    return f"fails ({seen.status or 'no answer'})", said


def _holds(case: Case, ask: Prober, seen: Seen) -> bool:
    assert case.effect is not None
    try:
        return case.effect(ask, seen)
    except (KeyError, IndexError, TypeError):
        return False  # what it looks for is not there


def _clear(case: Case, seen: Seen) -> bool:
    """In OpenAI's form, naming the parameter, by `param` or in words."""
    error = seen.error or {}
    if not {"message", "type", "param", "code"} <= error.keys() or not error["message"]:
        return False
    name = case.parameter.split(" ")[0]
    return name in f"{error['param']} {error['message']}"


def probe(server: Server, cases: list[Case]) -> list[dict[str, Any]]:
    model = server.model_name()
    askers = {stream: Prober(server, model, stream=stream) for stream in (False, True)}
    rows: list[dict[str, Any]] = []
    for case in cases:
        found = {stream: outcome(case, askers[stream]) for stream in case.forms}
        outcomes = list(dict.fromkeys(kind for kind, _ in found.values()))
        said = next((said for _, said in found.values() if said), "")
        rows.append(
            {
                "parameter": case.parameter,
                "value": case.value,
                "wrong": case.wrong,
                "outcomes": outcomes,
                "said": said,
            }
        )
        print(f"{case.parameter} {case.value}: {outcomes} {said[:100]}")
        if not server.alive():
            print("THE SERVER DIED")
            rows[-1]["outcomes"] = ["dies"]
            break
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--contender", action="append", choices=CONTENDERS)
    parser.add_argument("--model", type=Path, help="model directory")
    parser.add_argument("--report", nargs="?", const="-", help="only the table, to this file")
    options = parser.parse_args()
    OUT.mkdir(parents=True, exist_ok=True)
    if options.model:
        leave_on_sigterm()
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


if __name__ == "__main__":
    sys.exit(main())

"""Speculative decoding with enforcement: a second backend beside the stack's, which drafts from the
prompt and from what the grammars force. The masks hold, and the greedy answers are those of the
backend that drafts nothing."""

from __future__ import annotations

import json
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import jsonschema
import pytest

from tests import tools
from tests.models import tiny_model
from toolgate_core import keys, wire
from toolgate_core.dialect import DIALECTS
from toolgate_core.plan import Tool, parse_tools
from toolgate_core.segmenter import ArgumentsDelta, CallStart, Segmenter
from toolgate_proxy.processes import Child, free_port

from .conftest import START_SECONDS, Stack

DRAFTS = {
    "method": "ngram",
    "num_speculative_tokens": 6,
    "prompt_lookup_max": 4,
    "prompt_lookup_min": 2,
}

# A random model ends no string: these end by themselves.
BOOK = tools.tool(
    "book_table",
    {
        "day": {"type": "string", "enum": ["monday", "tuesday", "wednesday"]},
        "guests": {"type": "integer", "minimum": 1, "maximum": 12},
        "outside": {"type": "boolean"},
    },
    required=["day", "guests", "outside"],
)
LIGHT = tools.tool(
    "set_light",
    {"room": {"type": "string", "enum": ["kitchen", "bedroom"]}, "on": {"type": "boolean"}},
    required=["room", "on"],
)
OFFERED = [BOOK, LIGHT]
SCHEMAS = {t["function"]["name"]: t["function"]["parameters"] for t in OFFERED}


@pytest.fixture(scope="module")
def drafting(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    port, key = free_port(), uuid.uuid4().hex
    command = [sys.executable, "-m", "toolgate_backend.launch", str(tiny_model())]
    command += ["--port", str(port), "--served-model-name", "tiny", "--max-num-seqs", "16"]
    command += ["--speculative-config", json.dumps(DRAFTS)]
    log: Path = tmp_path_factory.mktemp("drafting") / "backend.log"
    child = Child("backend", command, {"VLLM_API_KEY": key, "TOOLGATE_ADAPTER": "auto"}, log)
    headers = {"authorization": f"Bearer {key}"}
    base = f"http://127.0.0.1:{port}"
    try:
        with httpx.Client(base_url=base, headers=headers, timeout=60, trust_env=False) as client:
            _wait(client, child)
            yield client
    finally:
        child.stop()


def _wait(client: httpx.Client, child: Child) -> None:
    give_up = time.monotonic() + START_SECONDS
    while time.monotonic() < give_up:
        child.check()
        try:
            if client.get("/v1/toolgate/info").status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.2)
    raise TimeoutError


def load(client: httpx.Client, offered: list[Tool]) -> tuple[wire.Info, dict[str, str]]:
    """The tools' grammars, loaded: keys by name."""
    info = wire.Info.model_validate_json(client.get("/v1/toolgate/info").content)
    found = {
        tool.name: keys.grammar_key(
            tool.hash,
            dialect=info.dialect,
            tokenizer=info.tokenizer,
            grammar_format=info.grammar_format,
        )
        for tool in offered
    }
    sources = tuple(
        wire.GrammarSource(key=found[tool.name], name=tool.name, parameters=tool.parameters)
        for tool in offered
    )
    message = wire.LoadGrammars(grammars=sources).model_dump_json()
    answer = client.put("/v1/toolgate/grammars", content=message).raise_for_status()
    verdicts = wire.GrammarVerdicts.model_validate_json(answer.content).grammars
    assert all(verdict.status == "ready" for verdict in verdicts)
    return info, found


def generate(
    client: httpx.Client, offered: list[dict[str, Any]], text: str, **options: Any
) -> tuple[list[int], list[str], str]:
    """ids, texts, finish_reason of one enforced answer."""
    parsed = parse_tools(offered)
    _, found = load(client, parsed)
    enforcement = wire.Enforcement(
        choice=options.pop("choice", "required"),
        candidates=tuple(wire.Candidate(name=name, key=key) for name, key in found.items()),
        max_calls=options.pop("max_calls", 2),
        reasoning="off",
    )
    request = wire.GenerateRequest(
        request_id=uuid.uuid4().hex,
        model="tiny",
        prompt=wire.ChatPrompt(messages=({"role": "user", "content": text},), tools=tuple(offered)),
        sampling=wire.Sampling(**{"max_tokens": 160, "temperature": 0.0, **options}),
        enforcement=enforcement,
        stream=False,
    )
    url, content = "/v1/toolgate/generate", request.model_dump_json()
    answer = client.post(url, content=content).raise_for_status()
    events = wire.stream_events.validate_json(answer.content)
    [end] = [event for event in events if isinstance(event, wire.EndEvent)]
    tokens = [event for event in events if isinstance(event, wire.TokensEvent)]
    ids = [token for event in tokens for token in event.ids]
    texts = [each for event in tokens for each in event.texts]
    return ids, texts, end.finish_reason


def calls(client: httpx.Client, ids: list[int], texts: list[str]) -> list[tuple[str, str]]:
    info = wire.Info.model_validate_json(client.get("/v1/toolgate/info").content)
    segmenter = Segmenter(DIALECTS[info.dialect], info.marks, required=True)
    found: list[tuple[str, str]] = []
    for event in [*segmenter.feed(ids, texts), *segmenter.finish("stop")]:
        if isinstance(event, CallStart):
            found.append((event.name, ""))
        elif isinstance(event, ArgumentsDelta):
            found[-1] = (found[-1][0], found[-1][1] + event.text)
    return found


def test_drafts_go_through_vllms_own_grammars(drafting: httpx.Client) -> None:
    info = wire.Info.model_validate_json(drafting.get("/v1/toolgate/info").content)
    assert info.adapter == "structured_output"


@pytest.mark.parametrize("choice", ["required", "auto"])
@pytest.mark.parametrize("text", ["A table.", "Light on!", "Book book book book book."])
def test_greedy_answers_are_the_same_with_drafts_and_without(
    drafting: httpx.Client, backend: httpx.Client, stack: Stack, choice: str, text: str
) -> None:
    headers = {"authorization": f"Bearer {stack.backend_key}"}
    with httpx.Client(
        base_url=stack.backend_url, headers=headers, timeout=60, trust_env=False
    ) as plain:
        expected = generate(plain, OFFERED, text, choice=choice)
    assert generate(drafting, OFFERED, text, choice=choice) == expected
    assert expected[0]


@pytest.mark.parametrize("seed", range(8))
def test_the_masks_hold_at_every_draft(drafting: httpx.Client, seed: int) -> None:
    ids, texts, finish = generate(drafting, OFFERED, "Go.", temperature=1.0, seed=seed)
    assert finish == "stop"
    found = calls(drafting, ids, texts)
    assert 1 <= len(found) <= 2
    for name, arguments in found:
        jsonschema.validate(json.loads(arguments), SCHEMAS[name])


def test_drafts_save_steps(drafting: httpx.Client) -> None:
    before = counted(drafting, "accepted")
    generate(drafting, [LIGHT], "The light in the kitchen, please.")
    assert counted(drafting, "accepted") > before


def counted(client: httpx.Client, what: str) -> float:
    name = f"vllm:spec_decode_num_{what}_tokens_total"
    lines = client.get("/metrics").text.splitlines()
    values = [float(line.rpartition(" ")[2]) for line in lines if line.startswith(name)]
    assert values, f"vLLM has no counter {name}"
    return sum(values)


def test_parameters_that_vllm_does_not_take_beside_drafts_are_refused(
    drafting: httpx.Client,
) -> None:
    with pytest.raises(httpx.HTTPStatusError) as refused:
        generate(drafting, [LIGHT], "Hi.", logit_bias={5: 1.0})
    assert refused.value.response.status_code == 400

"""The demo: its model, its cases and comparison with the model alone, the tool loop, and what it
prints at its end, which can be pasted."""

import io
import json
import os
import subprocess
import sys
from collections import Counter
from contextlib import ExitStack
from types import SimpleNamespace

import httpx
import pytest
from openai import OpenAI
from rich.console import Console
from typer.testing import CliRunner

from tests.proxy.kit import beside
from tests.support.effort import rotating
from tests.support.installed import needs_vllm
from tests.support.servers.loopback import Handler, handling
from toolgate_proxy.ops.cli import app
from toolgate_proxy.ops.demo import comparison, model
from toolgate_proxy.ops.demo import run as demo_run
from toolgate_proxy.ops.demo.cases import REQUESTS, ChoiceOutput, cases, properties
from toolgate_proxy.ops.demo.comparison import SAMPLES
from toolgate_proxy.ops.demo.run import Demo, environment, python, uses_results
from toolgate_proxy.ops.extras import install_command
from toolgate_proxy.ops.stack.stack import StackOptions

BEIJING, SHANGHAI = ('{"city": "Beijing"}', '{"city": "Shanghai"}')
ROWS = beside(__file__)


def output(row):
    calls = [tuple(each) for each in row.get("calls", [])]
    return ChoiceOutput(**{"finish_reason": "tool_calls", **row, "calls": calls})


SENT = {(each.title, str(each.request["tool_choice"])): each.request for each in cases()}
REQUIRED = SENT["parallel_tool_calls=False", "required"]
NONE = SENT['tool_choice="none"', "none"]


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.title)
def test_only_correct_outputs_are_right_answers(case):
    assert case.understood(output(ROWS["right"][case.title]))
    assert not any(case.understood(output(wrong)) for wrong in ROWS["wrong"])


def test_violated_properties_are_named():
    for row, violated in ROWS["violations"]:
        found = properties(REQUIRED, output(row))
        assert {name for name, holds in found.items() if not holds} == {*violated}, row


def test_a_property_of_what_the_output_does_not_have_is_left_out():
    silent = properties(REQUIRED, output({"content": "Hello.", "finish_reason": "stop"}))
    assert "all calls are valid" not in silent
    assert silent["no markup in the content"]
    one = output(ROWS["right"]["parallel_tool_calls=False"])
    assert "no markup in the content" not in properties(REQUIRED, one)
    assert not properties(NONE, one)["no call"]


@pytest.fixture
def serve():
    """Serve answers in the place of the gateway: `answer` returns the choices of a chat completion,
    and `events` are those of a response without enforcement. The stack has all requests."""
    with ExitStack() as servers:

        def start(answer=lambda _: [], events=lambda _: [], status=200):
            requests = []

            class Gateway(Handler):
                def do_POST(self):
                    body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                    key = self.headers["authorization"]
                    requests.append({"path": self.path, "key": key, **body})
                    if self.path == "/toolgate/unconstrained":
                        lines = "".join(f"data: {json.dumps(each)}\n\n" for each in events(body))
                        self.answer(status, lines.encode(), "text/event-stream")
                        return
                    choices = [
                        {"index": at, "finish_reason": "stop", "message": message}
                        for at, message in enumerate(answer(body))
                    ]
                    made = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1}
                    made |= {"model": body["model"], "choices": choices}
                    self.answer(status, json.dumps(made).encode())

            url = servers.enter_context(handling(Gateway))
            return SimpleNamespace(
                url=url, master_key="secret", model="m", key_file=None, requests=requests
            )

        yield start


def message(*arguments, name="get_weather", content=None):
    calls = [
        {"id": f"call_{at}", "type": "function", "function": {"name": name, "arguments": each}}
        for at, each in enumerate(arguments)
    ]
    return {"role": "assistant", "content": content} | ({"tool_calls": calls} if calls else {})


def test_the_tool_loop_sends_back_the_calls_and_must_use_their_results(serve):
    content = "For Beijing, it is 21 celsius and clear. For Shanghai, it is 25 celsius and cloudy."
    assert uses_results(content)
    assert not uses_results(content.replace("25", "24"))
    assert not uses_results(content.rstrip("."))
    answers = {1: message(BEIJING, SHANGHAI)}
    stack = serve(lambda body: [answers.get(len(body["messages"]), message(content=content))])
    output = io.StringIO()
    assert Demo(stack, str(model.directory()), Console(file=output, width=100)).loop() == 0
    assert "✓ the response uses both results" in output.getvalue()
    results = [each for each in stack.requests[1]["messages"] if each["role"] == "tool"]
    assert [each["tool_call_id"] for each in results] == ["call_0", "call_1"]
    assert [json.loads(each["content"])["temperature"] for each in results] == [21, 25]


VALID, INVALID = '{"code": "OPS-318"}', '{"code": "OPS-318", "due": "tomorrow"}'
SEED = 3
EVERY = len(REQUESTS) * SAMPLES


def judgement(*breaks, cut=False):
    return {"judgement": {"breaks": breaks, "calls": 1, "cut": cut}}


def judged(invalid):
    """Return the events of samples, of which the first ones are invalid."""
    begin, end = INVALID.index('"tomorrow"'), len(INVALID) - 1
    broken = {"begin": begin, "end": end, "pointer": "/due", "message": "not a date."}

    def events(body):
        breaks = [broken] * (body["seed"] < SEED + invalid)
        return [{"text": INVALID[:9]}, {"text": INVALID[9:]}, judgement(*breaks)]

    return events


def compare(stack):
    """The number of failures, the output, and the samples."""
    output = io.StringIO()
    with OpenAI(base_url=f"{stack.url}/v1", api_key="sk-1", max_retries=0) as client:
        samples = comparison.sample(stack, client, {"model": "m", "seed": SEED})
    failed = comparison.show(samples, Console(file=output, width=120))
    return failed, output.getvalue(), samples


@pytest.mark.exhaustive
@rotating("invalid", [0, 3, SAMPLES], one_in=3)
def test_both_ways_sample_the_same_and_breaks_of_the_model_alone_are_counted_and_shown(
    serve, invalid
):
    stack = serve(lambda body: [message(VALID, name="open_ticket")] * body["n"], judged(invalid))
    failed, output, samples = compare(stack)
    valid = EVERY - invalid * len(REQUESTS)
    summary = f"alone {valid}/{EVERY} valid · Toolgate {EVERY}/{EVERY} valid"
    assert (failed, comparison.summary(samples)) == (0, summary)
    line = f'✗ alone ({invalid} of {SAMPLES}): "tomorrow": not a date.'
    assert output.count(line) == (len(REQUESTS) if invalid else 0)
    assert summary in output
    left_out = ("path", "key", "seed", "n", "toolgate")
    sampled = Counter(
        json.dumps({name: each[name] for name in sorted(each) if name not in left_out})
        for each in stack.requests
    )
    assert [*sampled.values()] == [SAMPLES + 1] * len(REQUESTS)
    assert {each["temperature"] for each in stack.requests} == {1}
    assert {each["seed"] for each in stack.requests} == {*range(SEED, SEED + SAMPLES)}


@pytest.mark.exhaustive
def test_invalid_and_missing_calls_of_the_gateway_are_failures(serve):
    first = [INVALID, '{"code"', None]

    def answer(body):
        calls = [*first, *[VALID] * (body["n"] - len(first))]
        return [message(*([each] if each else []), name="open_ticket") for each in calls]

    failed, output, _ = compare(serve(answer, judged(0)))
    assert failed == len(first) * len(REQUESTS)
    for words in ("/properties/due", "there is no call", "the call is not JSON"):
        assert words in output
    assert f"✗ Toolgate (1 of {SAMPLES}): /properties/due" in output


@pytest.mark.parametrize(
    ("events", "status", "problem"),
    [
        ([judgement(cut=True)], 200, "max_tokens ended the response"),
        ([{"error": {"message": "no"}}], 200, httpx.HTTPError),
        ([], 200, httpx.HTTPError),
        ([], 404, httpx.HTTPStatusError),
    ],
)
def test_an_output_without_an_end_is_a_problem(serve, events, status, problem):
    stack = serve(events=lambda _: events, status=status)
    if isinstance(problem, str):
        assert comparison.unconstrained(stack, {"messages": []}) == ("", problem)
    else:
        with pytest.raises(problem):
            comparison.unconstrained(stack, {"messages": []})
    assert stack.requests[0]["key"] == "Bearer secret"


@pytest.fixture
def kept(tmp_path):
    """A file with a kept key, in a folder whose name must be quoted."""
    file = tmp_path / "a key" / "master_key"
    file.parent.mkdir()
    file.write_text("sk-kept\n")
    return file


@pytest.mark.exhaustive
@rotating("in_file", [True, False], one_in=2)
def test_the_printed_python_program_runs(serve, kept, in_file):
    stack = serve(lambda _: [message(BEIJING)])
    stack.key_file = kept if in_file else None
    command = [sys.executable, "-c", python(stack)]
    given = {**os.environ, "TOOLGATE_MASTER_KEY": "sk-set"}
    ran = subprocess.run(command, capture_output=True, text=True, check=True, env=given)
    assert "get_weather" in ran.stdout
    [request] = stack.requests
    assert request["key"] == f"Bearer {'sk-kept' if in_file else 'sk-set'}"
    assert request["tool_choice"] == "required"


def test_the_printed_variables_have_the_key_and_the_url(kept):
    stack = SimpleNamespace(url="http://127.0.0.1:4000", model="m", key_file=kept)
    script = f'{environment(stack)}\necho "$OPENAI_BASE_URL $OPENAI_API_KEY"'
    ran = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout == "http://127.0.0.1:4000/v1 sk-kept\n"


def test_a_demo_that_ends_prints_no_snippet_of_a_server_that_is_gone(monkeypatch):
    stack = SimpleNamespace(
        url="http://127.0.0.1:4000", model="m", key_file=None, master_key="sk", watch=lambda: None
    )
    monkeypatch.setattr(demo_run.Demo, "run", lambda _: 0)
    for once in (True, False):
        output = io.StringIO()
        console = Console(file=output, width=200)
        monkeypatch.setattr(demo_run, "run", lambda _, show, it=console: show(stack, it))
        assert demo_run.demo(StackOptions(str(model.directory())), once=once) == 0
        assert ("4000" in output.getvalue()) is not once


@needs_vllm
def test_the_demo_serves_the_installed_model_or_another_one(monkeypatch):
    given = []
    monkeypatch.setattr(demo_run, "demo", lambda options, **_: given.append(options) or 0)
    directory = model.directory()
    names = {path.name for path in directory.iterdir()}
    assert {"config.json", "model.safetensors", "tokenizer.json", "README.md"} <= names
    assert model.is_shipped(str(directory))
    assert not model.is_shipped(".cache/models/tiny")
    assert CliRunner().invoke(app, ["demo", "--once"]).exit_code == 0
    monkeypatch.setitem(sys.modules, "toolgate_demo_model", None)
    result = CliRunner().invoke(app, ["demo"])
    assert result.exit_code == 2
    assert f"run {install_command('demo')}, or choose" in result.output
    assert "--model DIR" in result.output
    assert CliRunner().invoke(app, ["demo", "--model", "some/dir"]).exit_code == 0
    shown = [(each.model, each.name) for each in given]
    assert shown == [(str(directory), "toolgate-demo"), ("some/dir", "dir")]

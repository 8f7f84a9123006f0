"""Running and reading: scenarios, limits, confirmation, the probe, tools of the user, the page."""

import json
import re
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
import yaml

from tests.verify.faults.changes import arguments, no_calls, setting
from tests.verify.faults.table import fault_of
from tests.verify.harness import TARGET, answering, client_of, run_without_a_fault, verify
from tests.verify.reference_server.app import KEY, MODEL, ReferenceServer
from toolgate_verify.checks import all_checks, select
from toolgate_verify.checks.user_tools import checks_of, checks_of_samples
from toolgate_verify.engine.run import estimate, run, scenarios_of
from toolgate_verify.engine.session import probe
from toolgate_verify.engine.target import base_url
from toolgate_verify.exchange import Exchange, Request
from toolgate_verify.reading import read
from toolgate_verify.reading.answer import Call
from toolgate_verify.report.record import replay, report
from toolgate_verify.report.sample_metrics import SampleMetrics, metrics
from toolgate_verify.terms import Api, Severity, Suite, Verdict
from toolgate_verify.tools.everyday import EVERYDAY
from toolgate_verify.tools.user_tools import NoTools, read_samples, read_tools


def test_a_run_sends_what_the_estimate_states():
    made, requests = run_without_a_fault()
    assert requests == made.requests == estimate(all_checks()).requests


async def test_checks_of_one_scenario_share_its_requests():
    checks = select([Api.CHAT], only=["text", "usage"])
    assert len(scenarios_of(checks)) == 1
    made = await verify(checks)
    assert made.requests == 2


async def test_no_more_requests_than_the_limit():
    server = ReferenceServer()
    checks = select([Api.CHAT], Suite.QUICK)
    made = await run(client_of(server, max_requests=21), checks)
    assert server.requests <= 21
    verdicts = {result.verdict for result in made.results}
    assert verdicts == {Verdict.PASS, Verdict.SKIP}
    skipped = [each for each in made.results if each.verdict == Verdict.SKIP]
    assert all("--max-requests" in each.message for each in skipped)


async def test_a_difference_counts_if_it_occurs_twice(tmp_path):
    """Rules of equality at temperature 0: rounding differs between batches. A report has both
    runs."""
    [check] = select(only=["chat.text.same"])
    fault = fault_of(check)
    assert fault is not None
    twice = await verify([check], fault, check.scenario.name)
    assert (twice.results[0].verdict, twice.results[0].runs) == (Verdict.FAIL, 2)
    assert twice.requests == 4

    server = ReferenceServer(fault, check.scenario.name)

    async def once(scope, receive, send):
        server.scenario = check.scenario.name if server.requests < 2 else ""
        await server(scope, receive, send)

    made = await run(client_of(once), [check])
    assert (made.results[0].verdict, made.results[0].runs) == (Verdict.PASS, 2)
    for confirmed in (twice, made):
        path = tmp_path / "report.json"
        path.write_text(json.dumps(report(confirmed, TARGET, {})))
        again, _ = replay(path, [check])
        assert again.results[0].verdict == confirmed.results[0].verdict
        assert again.results[0].runs == 2


async def test_a_server_that_does_not_answer_fails_the_checks():
    async def broken(_, __, ___):
        raise httpx.ConnectError("connection refused")

    made = await run(client_of(broken), select([Api.CHAT], only=["text.content"]))
    assert made.results[0].verdict == Verdict.FAIL
    assert "connection refused" in made.results[0].message


async def test_a_refused_feature_is_no_failure():
    [check] = select(only=["chat.choice.allowed_tools"])
    refuses = answering(400, b'{"error": {"message": "no"}}')
    made = await run(client_of(refuses), [check])
    assert made.results[0].verdict == Verdict.REFUSED


async def test_the_check_of_keys_needs_a_key():
    checks = select([Api.CHAT], only=["errors.wrong_key"])
    client = client_of(ReferenceServer())
    client.target = replace(TARGET, key="")
    made = await run(client, checks)
    assert made.results[0].verdict == Verdict.SKIP
    assert made.requests == 0


@pytest.mark.parametrize("api", Api)
async def test_the_check_of_keys_needs_a_server_that_checks_keys(api):
    server = ReferenceServer()

    async def open_to_all(scope, receive, send):
        headers = [(b"authorization", f"Bearer {KEY}".encode())]
        await server({**scope, "headers": headers}, receive, send)

    [check] = select([api], only=["errors.wrong_key"])
    made = await run(client_of(open_to_all), [check])
    assert made.results[0].verdict == Verdict.SKIP
    assert "does not check keys" in made.results[0].message
    assert made.requests == 2


async def test_fields_that_the_server_does_not_know_are_left_out():
    server, seen = ReferenceServer(), list[str]()

    async def old(scope, receive, send):
        body = json.loads((await receive())["body"])
        seen.append(body.get("reasoning_effort", "absent"))
        if body.get("reasoning_effort") == "none":
            await answering(400, b"{}")(scope, receive, send)
        else:
            await server(scope, receive, send)

    client = client_of(old)
    assert await probe(client, [Api.CHAT]) == {}
    made = await run(client, select([Api.CHAT], only=["text", "reasoning.apart"]))
    assert {each.verdict for each in made.results} == {Verdict.PASS}
    assert seen == ["none", "absent", "absent", "absent", "medium", "medium"]


async def test_an_api_that_is_missing_is_reported():
    found = await probe(client_of(answering(404, b"not here")), [Api.MESSAGES])
    assert found == {Api.MESSAGES: "status 404: not here"}


@pytest.mark.parametrize(
    ("url", "base"),
    [
        ("http://a:1", "http://a:1/v1"),
        ("http://a:1/v1/", "http://a:1/v1"),
        ("http://a/v1/chat/completions", "http://a/v1"),
        ("https://a/openai/v1/messages", "https://a/openai/v1"),
    ],
)
def test_base_urls(url, base):
    assert base_url(url) == base


def test_selection_by_beginnings_of_ids():
    assert {check.family for check in select(only=["schema"])} == {"schema"}
    assert [check.id for check in select(only=["chat.choice.named"])] == ["chat.choice.named"]
    quick, full = select(suite=Suite.QUICK), select(suite=Suite.FULL)
    assert {check.id for check in quick} < {check.id for check in full}
    with pytest.raises(ValueError, match="no check of these APIs is named 'colour'"):
        select(only=["colour"])


def test_every_check_states_its_rule_and_source():
    for check in all_checks():
        assert check.title, check.id
        assert check.rule.endswith((".", "…")), check.id
        assert check.source.url.startswith("https://"), check.id
        assert check.severity in Severity, check.id


def test_examples_of_tools_are_valid_and_wrong_ones_are_not():
    from tests.verify.reference_server.reply import TOOLS
    from toolgate_verify.checks.common import violation

    for tool in TOOLS:
        assert not violation(tool.parameters, tool.example), tool.name
        if tool.wrong is not None:
            assert violation(tool.parameters, tool.wrong), tool.name


async def test_the_users_own_tools_are_called(tmp_path):
    path = tmp_path / "tools.json"
    schema = EVERYDAY[0].parameters
    openai = {"type": "function", "function": {"name": "light", "parameters": schema}}
    path.write_text(json.dumps([openai, {"name": "lamp", "input_schema": schema}]))
    made = await verify(checks_of(read_tools(path), [Api.CHAT, Api.MESSAGES]))
    assert len(made.results) == 8
    assert {result.verdict for result in made.results} == {Verdict.PASS}


@pytest.mark.parametrize("text", ["", "{}", "[]", '[{"type": "function"}]', '["x"]'])
def test_a_file_without_tools_is_refused(tmp_path, text):
    path = tmp_path / "tools.json"
    path.write_text(text)
    with pytest.raises(NoTools, match=r"tools\.json"):
        read_tools(path)


LINE = {
    "model": "another",
    "messages": [{"role": "user", "content": "Switch on the light."}],
    "max_tokens": 100,
    "tools": [
        {"type": "function", "function": {"name": "lamp", "parameters": EVERYDAY[0].parameters}}
    ],
}


async def _of_samples(tmp_path, fault=None):
    path = tmp_path / "samples.jsonl"
    lines = [LINE, {**LINE, "expected_tool_call": False}, {**LINE, "tools": []}]
    path.write_text("\n".join(json.dumps(line) for line in lines))
    return await verify(checks_of_samples(read_samples(path)), fault, "chat.sample.00001")


async def test_recorded_requests_are_sent_and_judged(tmp_path):
    made = await _of_samples(tmp_path)
    assert [each.verdict for each in made.results] == [Verdict.PASS, Verdict.FAIL, Verdict.PASS]
    assert made.results[1].message == "a call was made"
    sent = made.evidence["chat.sample.00002"].exchanges[0].request.body or {}
    assert sent["model"] == MODEL
    assert "expected_tool_call" not in sent


async def test_rates_of_recorded_requests(tmp_path):
    made = await _of_samples(tmp_path)
    assert metrics(made.evidence) == SampleMetrics(3, 3, 2, 2, 0)
    wrong = await _of_samples(tmp_path, arguments({"room": "cellar"}))
    assert metrics(wrong.evidence) == SampleMetrics(3, 3, 2, 1, 0)
    silent = await _of_samples(tmp_path, setting(calls=[], text="", reasoning="So.", finish="stop"))
    assert metrics(silent.evidence) == SampleMetrics(3, 3, 1, 1, 1)


async def test_answers_are_compared_with_those_of_another_endpoint(tmp_path):
    official = (await _of_samples(tmp_path)).evidence
    other = (await _of_samples(tmp_path, no_calls())).evidence
    same, less = metrics(official, official), metrics(other, official)
    assert same is not None
    assert less is not None
    assert (same.similarity, same.same_prompt_tokens) == (1.0, 1.0)
    assert less.similarity == pytest.approx(2 / 3)
    assert "trigger similarity 66.7%" in less.line


OTHER_CALLS = yaml.safe_load(Path(__file__).with_name("other_calls.yaml").read_text())


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("row", OTHER_CALLS.values(), ids=OTHER_CALLS)
def test_a_call_in_another_form_is_read(row, stream):
    events = "".join(f"data: {json.dumps(each)}\n\n" for each in row["events"])
    text = events if stream else json.dumps(row["body"])
    answer = read(Api(row["api"]), Exchange(Request("/", {"stream": stream}), 200, {}, text))
    assert answer.calls == [Call(**row["call"])]
    assert answer.finish == "calls"


PAGE = (Path(__file__).parents[2] / "docs" / "guide" / "verify.md").read_text()
FAMILIES = {check.family for check in all_checks()}


def _described(heading):
    """The names before the colon, in the list of a section."""
    section = PAGE.split(f"## {heading}\n")[1].split("\n## ")[0]
    rows = [line.split(": ")[0] for line in section.splitlines() if line.startswith("- ")]
    return {name for row in rows for name in re.findall(r"`([a-z_.]+)`", row)}


def test_every_family_is_described():
    assert _described("What is checked") == FAMILIES

"""What a request may ask for: keys, admission, instances and sampling parameters."""

import time

import pytest
from pydantic import SecretStr
from starlette.testclient import TestClient
from vllm.entrypoints.cli.serve import make_arg_parser
from vllm.entrypoints.openai.api_server import build_app
from vllm.sampling_params import SamplingParams
from vllm.utils.argparse_utils import FlexibleArgumentParser

from tests.support.apis.value_examples import valid
from toolgate_backend.endpoint import routes
from toolgate_backend.endpoint.admission import InFlightRequests
from toolgate_backend.endpoint.sampling import check_prompt_logprobs, sampling_params
from toolgate_backend.enforcement.spec import Spec
from toolgate_backend.settings import Settings
from toolgate_core import wire
from toolgate_core.error_body import from_body
from toolgate_core.errors import BackendUnavailable, InvalidRequest
from toolgate_proxy.api.shared.parameter import RESPONSES_TABLE

# --- access ---
KEY, TOKEN = "the-key-of-the-backend", "the-token-of-scrapers"
PROBES = {"/health", "/ping"}


def opened(app, key):
    """The paths whose routes do not refuse a key."""
    client = TestClient(app, raise_server_exceptions=False)
    routes = [*app.routes]
    return {
        route.path
        for route in routes
        for method in {*(getattr(route, "methods", None) or ["GET"]), "OPTIONS"}
        if client.request(method, route.path, headers={"Authorization": key}).status_code != 401
    }


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("flags", "variable"), [(["--api-key", "other", KEY], "x"), ([], KEY), ([], "")]
)
def test_every_route_except_probes_requires_the_key(monkeypatch, flags, variable):
    monkeypatch.setattr(routes, "settings", lambda: Settings(metrics_token=SecretStr(TOKEN)))
    monkeypatch.setenv("VLLM_PLUGINS", "toolgate")
    monkeypatch.setenv("VLLM_API_KEY", variable)
    args = make_arg_parser(FlexibleArgumentParser()).parse_args(flags)
    app = build_app(args, ("generate",), None)
    every = {route.path for route in app.routes}
    assert {"/invocations", "/tokenize", "/scale_elastic_ep", "/v1/toolgate/generate"} < every
    assert opened(app, f"bearer {KEY}") == every
    for key in ["", f"Bearer {KEY[:-1]}", KEY, *(["Bearer x"] if flags else [])]:
        assert opened(app, key) == (PROBES if flags or variable else every)
    if flags:
        assert opened(app, f"Bearer {TOKEN}") == PROBES | {"/metrics"}


# --- admission ---
def test_requests_over_the_limit_are_rejected_with_retry_after():
    hand = InFlightRequests(2)
    with hand.track():
        with hand.track():
            with pytest.raises(BackendUnavailable) as refused, hand.track():
                pass
            assert hand.count == 2
        with hand.track():
            pass
    assert hand.count == 0
    crossed = from_body(503, refused.value.body())
    assert isinstance(crossed, BackendUnavailable)
    assert crossed.retry_after


def test_a_backend_that_shuts_down_refuses_new_requests_and_finishes_the_active_one():
    requests = InFlightRequests(2)
    with requests.track():
        requests.close()
        with pytest.raises(BackendUnavailable, match="shutting down") as refused, requests.track():
            pass
        assert refused.value.retry_after
        began = time.monotonic()
        requests.wait_until_idle(0.2)
        assert time.monotonic() - began >= 0.2
    requests.wait_until_idle(60)
    with pytest.raises(BackendUnavailable):
        requests.require_open()


# --- sampling ---
def made(vocabulary, spec, **sampling):
    return sampling_params(
        wire.Sampling(**sampling), spec, vocabulary, {}, budget=9, stream=True, hooked=False
    )


def test_every_sampling_field_exists_in_vllm():
    assert wire.Sampling.model_fields.keys() <= {*SamplingParams.__struct_fields__}


# The budget bounds the tokens.
ROWS = (row for name, row in RESPONSES_TABLE.items() if name != "max_output_tokens")
FIELDS = [(r, r.to.partition(".")[2] or r.name) for r in ROWS if r.to.startswith("sampling")]


@pytest.mark.parametrize(("row", "field"), FIELDS, ids=[field for _, field in FIELDS])
def test_valid_values_are_passed_to_vllm(vocabulary, row, field):
    """The bounds of the gateway's parameters are within vLLM's bounds."""
    assert row.type
    for value in valid(row.type):
        parsed = row.type.parse(value, row.name)
        if (field, parsed) == ("top_p", 0):
            continue  # the gateway sends `top_k` instead
        params = sampling_params(
            wire.Sampling(**{field: parsed}),
            None,
            vocabulary,
            {},
            budget=2**31 - 1,
            stream=True,
            hooked=False,
        )
        if isinstance(parsed, bool | int | float):
            assert getattr(params, field) == parsed


@pytest.mark.parametrize(("alternatives", "tokens"), [(0, 50_000), (1, 25_000), (20, 2_380)])
def test_prompt_logprobs_are_bounded_by_alternatives_and_tokens(alternatives, tokens):
    asked = wire.Sampling(prompt_logprobs=alternatives)
    check_prompt_logprobs(asked, tokens)
    check_prompt_logprobs(wire.Sampling(), 10**9)
    with pytest.raises(InvalidRequest) as refused:
        check_prompt_logprobs(asked, tokens + 1)
    assert refused.value.param == "prompt_logprobs"


def test_allowed_token_ids_are_passed_for_plain_content(vocabulary):
    params = made(vocabulary, Spec("none"), allowed_token_ids=(300, 301))
    assert [*params.allowed_token_ids] == [300, 301]


@pytest.mark.parametrize(
    "spec",
    [
        Spec("auto", keys=("k",)),
        Spec("required", keys=("k",)),
        Spec("none", content="k"),
        Spec("none", reasoning="open"),
        Spec("none", reasoning="must"),
        Spec("none", reasoning="may", reasoning_budget=5),
    ],
    ids=str,
)
def test_allowed_token_ids_are_rejected_with_enforcement(vocabulary, spec):
    with pytest.raises(InvalidRequest) as refused:
        made(vocabulary, spec, allowed_token_ids=(300,))
    assert refused.value.param == "allowed_token_ids"


def test_allowed_token_ids_must_include_a_text_token(vocabulary):
    with pytest.raises(InvalidRequest):
        made(vocabulary, Spec("none"), allowed_token_ids=(*vocabulary.marks.end_of_turn,))


def test_repetition_detection_and_logprob_token_ids_are_passed(vocabulary):
    found = {"max_pattern_size": 3, "min_count": 4}
    params = made(vocabulary, Spec("none"), repetition_detection=found)
    assert params.repetition_detection.max_pattern_size == 3
    params = made(vocabulary, Spec("none"), logprobs=2, logprob_token_ids=(5,))
    assert params.logprobs is None

"""Engine steps, with vLLM's engine loop in a process of its own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import get_args

import pytest

from bench.engine_steps import run
from bench.engine_steps.blocks import Kind, Options
from bench.engine_steps.process import in_new_process, measure, write
from tests.models import tiny_model
from tests.support.shared_data import BFCL, SHARED

STREAMS = 4
pytestmark = [
    pytest.mark.exhaustive,
    pytest.mark.skipif(
        not (SHARED / "data" / BFCL).exists(), reason="needs the BFCL data below $TOOLGATE_SHARED"
    ),
]


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("natural", ["--threads", "--displace", "1", "--forward", "0.5"]),
        pytest.param("random", [], marks=pytest.mark.slow),
    ],
)
def test_all_kinds_are_measured_and_their_tokens_checked(
    text: str,
    options: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name in run.ENVIRONMENT:
        monkeypatch.setenv(name, run.ENVIRONMENT[name])
    file = tmp_path / "found.json"
    arguments = [str(tiny_model()), "--streams", str(STREAMS), "--rounds", "1", "--steps", "20"]
    arguments += ["--text", text, "--json", str(file), *options]
    monkeypatch.setattr("sys.argv", ["engine-steps", *arguments])
    assert run.main() == 0
    found = json.loads(file.read_text())
    assert [each["kind"] for each in found] == list(get_args(Kind))
    for each in found:
        assert (each["streams"], each["text"]) == (STREAMS, text)
        assert 1 < each["tokens"] <= STREAMS
        assert each["checked"] > 3 * 2 * 20  # of three kinds, in a cold and a warm block each
    free, strict, *ours = found
    assert (free["us"], free["strict_ratio"], strict["strict_ratio"]) == (0, None, 1)
    for each in ours:
        assert each["strict_ratio"] == each["us"] / strict["us"]
    assert [each["sections"]["worker"] > 0 for each in found] == [False, False, False, True]
    assert len(capsys.readouterr().out.splitlines()) == 2 + len(found)


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param("strict", marks=pytest.mark.slow),
        "structured_output",
        pytest.param("logits_processor", marks=pytest.mark.slow),
    ],
)
def test_a_token_that_a_mask_forbids_is_an_error(kind: Kind) -> None:
    """The check itself: a token in the middle of each response is replaced by a mark."""
    model = str(tiny_model())
    responses = [
        [*response[:9], response[0], *response[10:]] for response in write(model, "natural", 20)
    ]
    options = Options(model, ["free", kind], rounds=1, steps=20)
    with pytest.raises(AssertionError, match=rf"token 10 of {kind}-\d+ is masked"):
        in_new_process(measure, options, "natural", STREAMS, responses)

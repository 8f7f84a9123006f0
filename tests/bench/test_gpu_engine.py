"""Whole engines: the order of blocks, the table of measured ones, and a run on a CPU."""

import json

import pytest

from bench.engine_steps.blocks import SECTIONS, Block, Kind
from bench.gpu_engine import run
from bench.gpu_engine.engines import ENGINES, BlockOfRequests, blocks
from bench.gpu_engine.report import Found, records, table
from tests.models import tiny_model
from tests.support.installed import needs
from tests.support.shared_data import BFCL

STREAMS = 2


def block(rate: float, us: float, tokens: float = 8.0) -> Block:
    sections = dict.fromkeys(SECTIONS, us / len(SECTIONS))
    return Block(tokens, sections, us, us + 1, 10.0, 20.0, rate)


def of(kind: Kind, number: int, engine: str = "structured_output") -> BlockOfRequests:
    return BlockOfRequests(engine, kind, 16, "natural", number)


def test_what_matters_most_comes_first():
    names = ["structured_output", "logits_processor"]
    made = list(blocks(names, (64, 16), ("natural", "random"), 2))
    assert len(made) == len(set(made))
    kinds = [kind for name in names for kind in ENGINES[name].kinds]
    cold, first = made[: len(kinds)], made[len(kinds) : 2 * len(kinds)]
    assert [each.kind for each in cold] == [each.kind for each in first] == kinds
    assert {(each.round, each.streams, each.text) for each in cold} == {(0, 64, "natural")}
    assert {(each.round, each.streams, each.text) for each in first} == {(1, 64, "natural")}
    assert [each.round for each in made] == sorted(each.round for each in made)
    profiled = [each for each in made if each.profiled]
    assert [each.kind for each in profiled] == ["structured_output", "logits_processor"]
    assert made[made.index(profiled[-1]) + 1].round == 2


def test_rows_are_compared_with_free_and_strict_of_the_same_engine():
    found: Found = {
        of("free", 0): block(1000, 30),
        of("structured_output", 0): block(500, 60),
        of("free", 1): block(1000, 30),
        of("strict", 1): block(800, 50),
        of("structured_output", 1): block(900, 34, tokens=32.0),
        of("free", 1, "logits_processor"): block(2000, 30),
        of("logits_processor", 1, "logits_processor"): block(1000, 40),
    }
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table(found).splitlines()]
    rows = {(cells[2], cells[3]): cells[4:] for cells in lines[2:]}
    assert rows["structured_output", "free"][:2] == ["1,000", ""]
    ours = rows["structured_output", "structured_output"]
    assert ours == [
        *("900", "**0.90**", "10.00", "**1.00**", "20.00"),
        *("0.50", "4.0", "0.20", "4.0", "30.0", "1"),
    ]
    assert rows["logits_processor", "logits_processor"][1] == "**0.50**"
    assert rows["logits_processor", "logits_processor"][7] == "0.50"  # strict's of the other engine
    assert {each["kind"] for each in records(found)} >= {"free", "strict"}


@pytest.mark.vllm
@pytest.mark.slow  # three starts of vLLM, for a benchmark
@needs(BFCL)
def test_all_kinds_write_the_same_responses_and_an_engine_that_fails_is_reported(
    tmp_path, monkeypatch, capsys
):
    """The V2 model runner, which drafts need, does not run on a CPU."""
    arguments = [str(tiny_model()), "--out", str(tmp_path), "--streams", str(STREAMS)]
    arguments += ["--rounds", "1", "--steps", "20", "--text", "natural", "--stack", "no"]
    monkeypatch.setattr("sys.argv", ["gpu-engine", *arguments])
    assert run.main() == 1
    results = json.loads((tmp_path / "blocks.json").read_text())
    assert list(results["failed"]) == ["forced_drafts"]
    measured = {(each["engine"], each["kind"], each["round"]): each for each in results["blocks"]}
    for engine, *kinds in (
        ("structured_output", "free", "strict", "structured_output"),
        ("logits_processor", "free", "logits_processor"),
    ):
        for kind in kinds:
            for number in range(2):
                assert measured[engine, kind, number]["tokens_per_second"] > 0
    worker = measured["logits_processor", "logits_processor", 1]["by_section"]["worker"]
    assert worker > measured["structured_output", "free", 1]["by_section"]["worker"] == 0
    assert "| 2 | natural | logits_processor | logits_processor |" in capsys.readouterr().out
    assert json.loads((tmp_path / "machine.json").read_text())["torch"]

"""Whole engines: the order of blocks, their table, what is packed, and a rehearsal on a CPU."""

import json
import struct
from zipfile import ZipFile

import pytest

from bench.engine_steps.blocks import SECTIONS, Block, Kind
from bench.gpu_engine import bare
from bench.gpu_engine.engines import DEFAULT, ENGINES, BlockOfRequests, blocks
from bench.gpu_engine.fat_binary import keep_kernels
from bench.gpu_engine.pack import LIBRARIES, contents, write
from bench.gpu_engine.packages import ARCHIVE
from bench.gpu_engine.report import Found, table
from tests.support.installed import needs
from tests.support.shared_data import BFCL

STREAMS = 2


def block(rate: float, us: float, tokens: float = 8.0) -> Block:
    sections = dict.fromkeys(SECTIONS, us / len(SECTIONS))
    return Block(tokens, 8.0, sections, us, us + 1, 10.0, 20.0, rate)


def of(kind: Kind, number: int, engine: str = "structured_output") -> BlockOfRequests:
    return BlockOfRequests(engine, kind, 16, "natural", number)


def test_what_matters_most_comes_first():
    names = ["structured_output", "default", "logits_processor"]
    made = list(blocks(names, (64, 16), ("natural", "reference"), 2))
    assert len(made) == len(set(made))
    kinds = [*ENGINES["structured_output"].kinds]
    assert [(each.kind, each.round, each.streams, each.text) for each in made[:6]] == [
        (kind, number, 64, "natural") for number in (0, 1) for kind in kinds
    ]
    started = [each.engine for each in made if not each.profiled and each.round < 2]
    assert started == sorted(started, key=names.index)
    profiled = [each for each in made if each.profiled]
    assert [each.kind for each in profiled] == ["structured_output", "logits_processor"]
    assert made.index(profiled[0]) == len(started)
    assert {each.round for each in made[len(started) + len(profiled) :]} == {2}


def test_rows_are_compared_with_free_and_strict_of_the_same_engine():
    found: Found = {
        of("free", 0): block(1000, 30),
        of("structured_output", 0): block(500, 60),
        of("free", 1): block(1000, 30),
        of("strict", 1): block(800, 50),
        of("structured_output", 1): block(900, 34, tokens=32.0),
        of("free", 1, DEFAULT): block(1200, 30),
        of("free", 1, "logits_processor"): block(2000, 30),
        of("logits_processor", 1, "logits_processor"): block(1000, 40),
    }
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table(found).splitlines()]
    rows = {(cells[2], cells[3]): cells[4:] for cells in lines[2:]}
    assert rows["structured_output", "free"][:3] == ["1,000", "", "**0.83**"]
    assert rows[DEFAULT, "free"][:3] == ["1,200", "", ""]
    ours = rows["structured_output", "structured_output"]
    assert ours == [
        *("900", "**0.90**", "**0.75**", "10.00", "**1.00**", "20.00"),
        *("0.50", "4.0", "0.20", "4.0", "30.0", "1"),
    ]
    assert rows["logits_processor", "logits_processor"][1] == "**0.50**"
    assert rows["logits_processor", "logits_processor"][8] == "0.50"  # strict's of the other engine


def container(*entries: tuple[int, int, bytes]) -> bytes:
    """What nvcc writes, of kinds, architectures and codes."""
    written = b""
    for kind, architecture, code in entries:
        written += struct.pack("<HHIQ12xI32x", kind, 0, 64, len(code), architecture) + code
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(written)) + written


def test_kernels_of_other_gpus_are_removed():
    before = b"elf" + container((2, 80, b"a" * 9), (1, 90, b"b" * 9), (2, 90, b"c" * 9)) + b"text"
    before += container((1, 80, b"d" * 9), (1, 90, b"e" * 9), (1, 100, b"f" * 9))
    before += container((2, 90, b"g" * 9), (2, 90, b"h" * 9))
    library = bytearray(before)
    keep_kernels(library, 90, lambda code: b"g" not in code)
    for letter in b"abdfg":
        before = before.replace(bytes([letter] * 9), bytes(9))
    assert library == before


def test_of_vllm_only_modules_and_needed_libraries_are_packed(tmp_path):
    wheel = tmp_path / "vllm-1.whl"
    files = ["vllm/a.py", "vllm/b.json", "vllm/_other_C.so", "vllm-1.dist-info/METADATA"]
    with ZipFile(wheel, "w") as written:
        for name in [*files, LIBRARIES[0]]:
            written.writestr(name, container((2, 80, b"a" * 9)))
    found = dict(contents(wheel, 90))
    assert [*found] == [files[0], files[3], LIBRARIES[0]]
    assert found[LIBRARIES[0]] == container((2, 80, bytes(9)))


@pytest.mark.vllm
@pytest.mark.slow  # four starts of vLLM, for a benchmark
@needs(BFCL)
@needs("qwen3-tokenizer")
def test_a_rehearsal_on_a_cpu_measures_all_engines(tmp_path, monkeypatch):
    """With packages that a bare machine has, and the V2 model runner."""
    write(tmp_path / ARCHIVE, [], 90)
    arguments = [str(tmp_path), "--rehearsal", "--out", str(tmp_path / "out"), "--seconds", "3000"]
    arguments += ["--streams", str(STREAMS), "--rounds", "1", "--steps", "10"]
    monkeypatch.setattr("sys.argv", ["gpu-engine-bare", *arguments])
    assert bare.main() == 0
    machine, *lines = map(json.loads, (tmp_path / "out" / "blocks.jsonl").read_text().splitlines())
    assert machine["torch"]
    measured = {(each["engine"], each["kind"], each["text"], each["round"]) for each in lines}
    assert measured == {
        (block.engine, block.kind, block.text, block.round)
        for block in blocks([*ENGINES], [STREAMS], ["natural", "reference"], 1)
    }
    drafted = [each for each in lines if each["engine"] == "forced_drafts"]
    assert max(each["tokens"] for each in drafted if each["kind"] != "free") > STREAMS
    table = (tmp_path / "out" / "table.md").read_text()
    assert f"| {STREAMS} | natural | logits_processor | logits_processor |" in table

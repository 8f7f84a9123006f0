"""The engines that are measured, and the blocks of requests that each of them gets."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from bench.engine_steps.blocks import Kind, Text

DRAFTS = 8
"""Maximum number of draft tokens of forced text in a step of a sequence."""
DRAFTS_OF_TEXT = {"method": "ngram_gpu", "num_speculative_tokens": 3, "prompt_lookup_max": 3}
PROFILED_STREAMS = 64
DEFAULT = "default"
"""vLLM's engine without the plug-in."""


@dataclass(frozen=True)
class EngineSetup:
    """An engine in a process of its own."""

    name: str
    kinds: Sequence[Kind]
    """In the order in which they are measured. The last one is profiled."""
    environment: Mapping[str, str] = field(default_factory=dict)
    processor: bool = False
    """Whether it has Toolgate's logits processor."""
    drafts: int = 0
    """Of forced text."""
    flags: Sequence[str] = ()
    """Further ones of vLLM's."""

    @property
    def on_v2(self) -> bool:
        """Whether it has vLLM's V2 model runner, on a GPU."""
        return "VLLM_USE_V2_MODEL_RUNNER" not in self.environment


ENGINES = {
    each.name: each
    for each in (
        EngineSetup("structured_output", ("free", "strict", "structured_output")),
        EngineSetup(DEFAULT, ("free",)),
        EngineSetup(
            "forced_drafts",
            ("free", "structured_output"),
            {"TOOLGATE_FORCED_DRAFTS": str(DRAFTS)},
            drafts=DRAFTS,
        ),
        EngineSetup("logits_processor", ("free", "logits_processor"), processor=True),
        EngineSetup(
            "logits_processor_drafts",
            ("free", "logits_processor"),
            processor=True,
            flags=("--speculative-config", json.dumps(DRAFTS_OF_TEXT)),
        ),
        EngineSetup(
            "logits_processor_v1",
            ("free", "logits_processor"),
            {"VLLM_USE_V2_MODEL_RUNNER": "0"},
            processor=True,
        ),
    )
}
"""The most important ones first."""


@dataclass(frozen=True)
class BlockOfRequests:
    """What is measured at a time."""

    engine: str
    kind: Kind
    streams: int
    text: Text
    round: int
    """0 is the first contact of an engine with this kind of requests."""
    profiled: bool = False


def blocks(
    names: Sequence[str], streams: Sequence[int], texts: Sequence[Text], rounds: int
) -> Iterator[BlockOfRequests]:
    """In the order of their importance, as time may run out: of one engine after the other the
    first contact and a round with all numbers of streams and each text; then profiles, and further
    rounds of all engines."""

    def each_kind(name: str, count: int, text: Text, number: int) -> Iterator[BlockOfRequests]:
        for kind in ENGINES[name].kinds:
            yield BlockOfRequests(name, kind, count, text, number)

    for name in names:
        yield from each_kind(name, streams[0], texts[0], 0)
        for text in texts:
            for count in streams:
                yield from each_kind(name, count, text, 1)
    for name in names:
        kind, count = ENGINES[name].kinds[-1], min(PROFILED_STREAMS, max(streams))
        if kind != "free":
            yield BlockOfRequests(name, kind, count, texts[0], 1, profiled=True)
    for number in range(2, rounds + 1):
        for text in texts:
            for count in streams:
                for name in names:
                    yield from each_kind(name, count, text, number)

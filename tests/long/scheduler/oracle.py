"""What a simulated engine is made of, and the oracle of its masks."""

import json
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import jsonschema
import numpy as np
import numpy.typing as npt

from tests.support.dialects.model import calls_in
from toolgate_backend.endpoint.token_stream import TextDecoder
from toolgate_backend.enforcement.automaton import Automaton
from toolgate_backend.enforcement.spec import Spec
from toolgate_backend.tokens import masks
from toolgate_backend.tokens.vocabulary import Vocabulary
from toolgate_core.deltas import CallEnd
from toolgate_core.dialects.registry import DIALECTS
from toolgate_core.segmenter import Segmenter


class Violation(AssertionError):
    """An invariant does not hold."""


class Oracle:
    def __init__(
        self,
        vocabulary: Vocabulary,
        automaton: Callable[[Spec], Automaton],
        tools: dict[str, dict[str, Any]],
    ) -> None:
        self._vocabulary, self._automaton = vocabulary, automaton
        self._schemas = {tool["name"]: tool["parameters"] for tool in tools.values()}
        self._specs: dict[str, Spec] = {}
        self._machines: dict[str, tuple[Automaton, list[int]]] = {}
        self.counts: Counter[str] = Counter()

    def start(self, request: str, spec: Spec) -> None:
        self._specs[request] = spec

    def forget(self, request: str) -> None:
        self._specs.pop(request, None)
        self._machines.pop(request, None)

    def check(self, request: str, output: list[int], allowed: npt.NDArray[np.bool_]) -> None:
        """Raises Violation if `allowed` is not the mask of `request` after `output`."""
        self.counts["masks"] += 1
        machine = self._at(request, output)
        if machine is None or machine.is_terminated():
            return
        words = np.zeros((self._vocabulary.size + 31) // 32, dtype=np.int32)
        machine.fill_bitmask(words)
        expected = masks.unpack(words)
        found = np.flatnonzero(allowed)
        if not np.array_equal(expected[expected < len(allowed)], found):
            texts = self._vocabulary.token_bytes
            differing = [texts[token] for token in sorted({*expected.tolist()} ^ {*found.tolist()})]
            raise Violation(
                f"request {request} after {len(output)} tokens ({machine.state.phase.name}, "
                f"{len(machine.call_tokens)} tokens of a call): {len(found)} tokens are "
                f"allowed, its own mask allows {len(expected)}; they differ in {differing[:20]}"
            )

    def _at(self, request: str, output: list[int]) -> Automaton | None:
        """The automaton after `output`; None for a request of vLLM's own, and after the end."""
        spec = self._specs.get(request)
        if spec is None:
            return None
        known = self._machines.get(request)
        if known is None or known[1] != output[: len(known[1])]:
            known = self._machines[request] = (self._automaton(spec), [])
        machine, accepted = known
        for token in output[len(accepted) :]:
            if machine.is_terminated():
                return None
            if not machine.accept_tokens([token]):
                raise Violation(f"request {request}: token {token} was sampled but is not allowed")
            accepted.append(token)
        return machine

    def finished(self, request: str, output: list[int], reason: str) -> None:
        """Raises Violation unless each whole call of a finished response is valid."""
        spec = self._specs[request]
        decoder = TextDecoder(self._vocabulary)
        texts = [decoder.decode(token) for token in output]
        segmenter = Segmenter(
            DIALECTS["qwen3"],
            self._vocabulary.marks,
            schemas=self._schemas,
            required=spec.choice == "required",
            reasoning_open=spec.reasoning == "open",
        )
        events = segmenter.feed(output, texts) + segmenter.finish(reason, None, decoder.rest())
        calls = calls_in(events)
        whole = sum(isinstance(event, CallEnd) for event in events)
        self.counts[f"finished {reason}"] += 1
        self.counts["calls"] += whole
        if reason == "stop" and whole != len(calls):
            raise Violation(f"request {request}: a call is not whole at the end of the turn")
        if reason == "stop" and spec.choice == "required" and not calls:
            raise Violation(f"request {request}: no call, but one was required")
        for name, arguments in calls[:whole]:
            try:
                jsonschema.validate(json.loads(arguments), self._schemas[name])
            except (ValueError, jsonschema.ValidationError) as error:
                raise Violation(f"request {request}: {name}({arguments}): {error}") from None


Adapter = Literal["logits_processor", "logits_processor_v2", "structured_output"]
Shape = Literal["none", "forced", "ngram", "suffix", "mtp", "eagle"]
"""`forced` are Toolgate's drafts of forced text under async scheduling. `ngram` and `suffix` draft
from the text, 0 to k tokens. `mtp` and `eagle` always draft k tokens, as a model does, right or
wrong."""


@dataclass(frozen=True)
class Profile:
    seed: int
    adapter: Adapter
    shape: Shape
    drafts: int
    """Maximum number of draft tokens in a step."""
    async_scheduling: bool
    rows: int
    """Maximum number of sequences in the batch."""
    blocks: int
    """Blocks of the KV cache, of 16 tokens. Few blocks make the scheduler preempt."""
    batched_tokens: int
    agreement: float
    """Probability that the model wants what was drafted."""
    abort: float
    """Probability of an abort in a step."""


def profile_of(seed: int, shape: Shape | None = None) -> Profile:
    """The engine of a seed. With `forced`, the same engine with drafts of forced text."""
    found = _chosen(seed)
    if shape != "forced":
        return found
    return replace(
        found,
        adapter="structured_output",
        shape="forced",
        drafts=found.drafts or 8,
        async_scheduling=True,
    )


def _chosen(seed: int) -> Profile:
    rng = random.Random(f"profile-{seed}")
    adapter: Adapter = rng.choice(
        ("structured_output", "structured_output", "logits_processor", "logits_processor_v2")
    )
    shape: Shape = "none"
    if adapter != "logits_processor":  # vLLM's V1 model runner has none with drafts
        shape = rng.choice(("none", "ngram", "suffix", "mtp", "eagle"))
    drafts = 0 if shape == "none" else rng.choice((1, 2, 4, 8))
    rows = rng.choice((1, 2, 3, 4, 8, 8, 16, 64))
    return Profile(
        seed=seed,
        adapter=adapter,
        shape=shape,
        drafts=drafts,
        async_scheduling=rng.random() < 0.5,
        rows=rows,
        blocks=24 + rows * rng.choice((3, 6, 24)),
        batched_tokens=max(rows * (1 + drafts) * 2, rng.choice((32, 64, 512))),
        agreement=rng.choice((0.0, 0.3, 0.7, 0.95)),
        abort=rng.choice((0.0, 0.02, 0.2)),
    )


CALLS = (
    '{"name": "get_weather", "arguments": {"city": "Oslo", "unit": "celsius"}}',
    '{"name": "return_json", "arguments": {"answer": "none", "confidence": 0.5}}',
    '{"name": "set_tags", "arguments": {"tags": ["a", "b", "c"]}}',
    '{"name": "set_range", "arguments": {"low": 3, "steps": [true, false], "note": null}}',
    '{"name": "set_headers", "arguments": {"headers": {"a": "b"}, "code": "AB-123"}}',
)
ENDING = frozenset(b'"}],<>/\n')


class FakeModel:
    def __init__(
        self, vocabulary: Vocabulary, oracle: Oracle, profile: Profile, rng: random.Random
    ) -> None:
        self.vocabulary = vocabulary
        self._oracle, self._profile, self._rng = oracle, profile, rng
        marks = vocabulary.marks.tokens
        self._marks = [*marks.values(), *vocabulary.marks.end_of_turn]
        end = vocabulary.marks.end_of_turn[0]
        self._scripts: list[list[int]] = []
        for first in CALLS:
            script = [*vocabulary.encode("Let me see.\n"), marks["</think>"]]
            script += vocabulary.encode("\n\n")
            for call in (first, CALLS[0]):
                script += [marks["<tool_call>"], *vocabulary.encode(f"\n{call}\n")]
                script += [marks["</tool_call>"], *vocabulary.encode("\n")]
            self._scripts.append([*script[:-1], end])
        texts = vocabulary.token_bytes
        self._ending = np.array([bool(text) and set(text) <= ENDING for text in texts])
        self._ending[self._marks] = True

    def sample(
        self, request: str, output: list[int], drafts: list[int], logits: npt.NDArray[Any]
    ) -> list[int]:
        """Choose a token at each position until a draft is rejected; the chosen ones, marked as the
        best in `logits`."""
        chosen: list[int] = []
        for position in range(len(drafts) + 1):
            before = output + chosen
            allowed = np.isfinite(logits[position])
            self._oracle.check(request, before, allowed)
            draft = drafts[position] if position < len(drafts) else None
            token = self._choose(before, draft, allowed)
            logits[position, token] = 1000.0
            chosen.append(token)
            if token != draft:
                break
        return chosen

    def _choose(
        self, output: Sequence[int], draft: int | None, allowed: npt.NDArray[np.bool_]
    ) -> int:
        rng = self._rng
        if (
            draft is not None
            and draft >= 0
            and allowed[draft]
            and rng.random() < self._profile.agreement
        ):
            return draft
        if rng.random() < 0.7:
            following = self._follow(output, 1)
            if following and allowed[following[0]]:
                return following[0]
        ids = np.flatnonzero(allowed)
        ending = ids[self._ending[ids]]
        pool = ending if len(ending) and rng.random() < 0.6 else ids
        return int(pool[rng.randrange(len(pool))])

    def _follow(self, output: Sequence[int], count: int) -> list[int]:
        """The tokens that follow the last one or two tokens of the output in a script."""
        script = self._scripts[self._rng.randrange(len(self._scripts))]
        last = tuple(output[-2:])
        for length in (2, 1):
            tail = list(last[-length:])
            for at in range(len(script) - length):
                if tail and script[at : at + length] == tail:
                    return script[at + length : at + length + count]
        return script[:count]

    def draft(self, request: str, output: list[int], profile: Profile) -> list[int]:
        """As many tokens as the shape of drafts has. Some are wrong on purpose: random tokens,
        marks of calls and of the end of the turn, padding."""
        rng = self._rng
        count = profile.drafts
        if profile.shape == "suffix":
            count = rng.randint(0, count)
        kind = rng.random()
        if kind < 0.15:
            tokens = [rng.randrange(self.vocabulary.size) for _ in range(count)]
        elif kind < 0.3:
            tokens = [rng.choice(self._marks) for _ in range(count)]
        else:
            tokens = self._follow(output, count)
            if tokens and rng.random() < 0.3:
                tokens[rng.randrange(len(tokens))] = rng.choice(self._marks)
        if profile.shape == "ngram" and rng.random() < 0.3:
            tokens = tokens[: rng.randint(0, len(tokens))]
        if profile.shape in ("mtp", "eagle"):  # a model always drafts all of them
            tokens += [rng.randrange(self.vocabulary.size) for _ in range(count - len(tokens))]
        return tokens

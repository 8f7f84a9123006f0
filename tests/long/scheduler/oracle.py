"""What must hold in each row: the mask is that of the row's own request, computed independently.

The oracle has one automaton for each request, which only ever accepts: no drafts, no rollback, no
rows. A mask that differs belongs to another request, or to another position of this one.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

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

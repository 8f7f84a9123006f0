"""Time that enforcement adds to an engine step on a GPU: automata, masks and sampling of a batch.

    python -m bench gpu-steps MODEL_DIR [--batches 16 64 256] [--forward-ms 10] [--blocks 12]

Needs a GPU, torch, xgrammar and llguidance, but not vLLM: on a machine without it,
`PYTHONPATH=backend:core`. Each sequence has an automaton and 8 tools of BFCL, has to make a call,
and starts again when its response is complete. A step is a forward pass (matrix products), the
sampling of one token of each sequence from random logits, and the copy of the tokens to the host.
In steps with enforcement, the automata accept the tokens of the step before and compute their masks
during the forward pass, and the masks are applied to the logits, as by the adapter
logits_processor. Everything runs in one thread.

Blocks of steps with and without enforcement alternate. Prints Markdown: how much longer a step is,
as median, minimum and maximum of the differences of the medians of blocks, the processor time of
masks and of their application, and the number of tokens and complete responses. It is an error if
an automaton refuses a token that was sampled. The exit status is 2 if there is no GPU.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable

import torch

from bench.micro.gpu_masks import STEPS, Blocks, added, p99, simulated_forward
from bench.micro.masks import JSON_CLOSERS, compile_tools
from bench.support.vocabularies import vocabulary_of
from toolgate_backend.adapters.apply_masks import make_applier
from toolgate_backend.enforcement.automaton import Automaton
from toolgate_backend.enforcement.spec import Spec
from toolgate_backend.enforcement.static_masks import StaticMasks
from toolgate_backend.grammars.compiled_grammar import MeasuredGrammar
from toolgate_backend.tokens.vocabulary import Vocabulary

TOOLS = 8
CLOSER_BIAS = 6.0
"""Added to the logits of tokens that end strings, objects and calls, so that calls end."""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("model", help="directory of a model with the vocabulary")
    parser.add_argument("--batches", type=int, nargs="+", default=(16, 64, 256))
    parser.add_argument("--forward-ms", type=float, default=10)
    parser.add_argument("--blocks", type=int, default=12, help=f"of {STEPS} steps, of each kind")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print("gpu_steps: no CUDA device found. Run it on a machine with a GPU.", file=sys.stderr)
        return 2
    vocabulary = vocabulary_of(options.model)
    grammars = compile_tools(vocabulary, TOOLS)
    forward, took = simulated_forward(options.forward_ms)
    print(
        f"{torch.cuda.get_device_name()}; torch {torch.__version__}; {vocabulary.size:,} entries; "
        f"a forward pass of {took:.1f} ms; {options.blocks * STEPS} steps each.\n"
    )
    print("| batch | step without, µs | added, median (blocks) | added at p99 ", end="")
    print(
        "| masks, µs p50 / p99 | apply, µs p50 / p99 | tokens | responses |\n" + "| --- " * 8 + "|"
    )
    for size in options.batches:
        batch = Batch(vocabulary, grammars, size, torch.device("cuda"))
        free, enforced = measure(batch, forward, options.blocks)
        print(f"| {size} | {' | '.join(cells(batch, free, enforced))} |", flush=True)
    return 0


class Batch:
    """Sequences that are generated together."""

    def __init__(
        self,
        vocabulary: Vocabulary,
        grammars: list[MeasuredGrammar],
        size: int,
        device: torch.device,
    ) -> None:
        self._static, self._grammars = StaticMasks(vocabulary), grammars
        keys = tuple(str(at) for at in range(len(grammars)))
        self._spec = Spec("required", keys, max_calls=1, reasoning="closed")
        self._automata = [self._automaton() for _ in range(size)]
        self._applier = make_applier(device, vocabulary.size, pin_memory=device.type == "cuda")
        self._random = torch.randn(size, vocabulary.size, device=device)
        marks = {*vocabulary.marks.tokens.values(), *vocabulary.marks.end_of_turn}
        texts = enumerate(vocabulary.token_bytes)
        closers = sorted(marks | {token for token, text in texts if text in JSON_CLOSERS})
        self._random[:, closers] += CLOSER_BIAS
        self._logits = torch.empty_like(self._random)
        self._sampled: list[int] = []
        self.tokens = self.responses = 0
        self.masks: list[float] = []
        """µs to accept tokens and to compute masks, of each step with enforcement."""
        self.apply: list[float] = []
        """µs to launch the application of the masks."""

    def step(self, forward: Callable[[], None], *, enforced: bool) -> None:
        """Returns when the tokens are on the host."""
        forward()
        self._logits.copy_(self._random)
        if enforced:
            began = time.perf_counter()
            self._accept()
            rows = [each.next_row() for each in self._automata]
            computed = time.perf_counter()
            self._applier.apply(self._logits, range(len(rows)), rows)
            self.masks.append((computed - began) * 1e6)
            self.apply.append((time.perf_counter() - computed) * 1e6)
        noise = torch.empty_like(self._logits).exponential_()
        sampled = self._logits.softmax(-1).div_(noise).argmax(-1).tolist()
        if enforced:
            self._sampled = sampled

    def _accept(self) -> None:
        """Raises RuntimeError if an automaton refuses a token."""
        for row, token in enumerate(self._sampled):
            if not self._automata[row].accept_tokens([token]):
                raise RuntimeError(f"The automaton of row {row} refuses the sampled token {token}.")
            if self._automata[row].is_terminated():
                self._automata[row] = self._automaton()
                self.responses += 1
        self.tokens += len(self._sampled)

    def _automaton(self) -> Automaton:
        return Automaton(self._static, self._spec, self._grammars)


def measure(batch: Batch, forward: Callable[[], None], blocks: int) -> tuple[Blocks, Blocks]:
    """Blocks without and with enforcement, after one of each for first uses."""
    found: dict[bool, Blocks] = {False: [], True: []}
    for number in range(-1, blocks):
        for enforced in (number % 2 == 0, number % 2 == 1):
            steps = []
            for _ in range(STEPS):
                began = time.perf_counter()
                batch.step(forward, enforced=enforced)
                steps.append((time.perf_counter() - began) * 1e6)
            if number >= 0:
                found[enforced].append(steps)
        if number < 0:
            batch.masks.clear()
            batch.apply.clear()
    return found[False], found[True]


def cells(batch: Batch, free: Blocks, enforced: Blocks) -> list[str]:
    return [
        *added(free, enforced, digits=0),
        f"{statistics.median(batch.masks):,.0f} / {p99(batch.masks):,.0f}",
        f"{statistics.median(batch.apply):,.0f} / {p99(batch.apply):,.0f}",
        f"{batch.tokens:,}",
        f"{batch.responses:,}",
    ]


if __name__ == "__main__":
    sys.exit(main())

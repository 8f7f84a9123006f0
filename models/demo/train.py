"""Trains the demo model from scratch: `python -m models.demo.train OUT`, see `make demo-model`.

Writes OUT/checkpoint.pt every few minutes and at the end. A run is a function of its seed and of the
number of steps; with `--minutes` the number of steps follows from the machine's speed.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer
from torch.nn import functional as F

from . import corpus
from .muon import Muon
from .network import Network, Sizes
from .tokenizer import train as train_tokenizer

MUON_RATE, ADAM_RATE = 0.02, 3e-3
BATCH_TOKENS = 8192
COPY_SHARE, SHORT_SHARE = 0.05, 0.10
"""Of the training: copying, then short conversations, then all."""
WARM_STEPS, COOL_SHARE = 50, 0.45
SAVE_SECONDS = 240.0
TOKENIZER_TEXTS = 12_000


def schedule(progress: float, step: int) -> float:
    """Factor of the learning rates: warm-up, constant, cosine down to 2 %."""
    warm = min(1.0, (step + 1) / WARM_STEPS)
    cool = max(0.0, (progress - (1 - COOL_SHARE)) / COOL_SHARE)
    return warm * (0.02 + 0.98 * (0.5 + 0.5 * math.cos(math.pi * min(1.0, cool))))


def stream(samples: list[corpus.Sample], seed: int) -> Iterator[corpus.Batch]:
    rng = np.random.default_rng(seed)
    while True:
        yield from corpus.batches(samples, BATCH_TOKENS, 0, rng)


def loss_of(network: Network, run: torch.nn.Module, batch: corpus.Batch) -> torch.Tensor:
    ids, trained = torch.from_numpy(batch[0]), torch.from_numpy(batch[1])
    with torch.autocast("cpu", torch.bfloat16):
        hidden = run(ids[:, :-1])
        wanted = trained[:, 1:]
        logits = network.logits(hidden[wanted])
    return F.cross_entropy(logits.float(), ids[:, 1:][wanted])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=29.0, help="in all")
    parser.add_argument("--samples", type=int, default=140_000)
    parser.add_argument("--eager", action="store_true", help="do not compile")
    arguments = parser.parse_args()
    out: Path = arguments.out
    out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(arguments.seed)
    began = time.monotonic()

    key = f"{corpus.fingerprint()} {arguments.seed} {arguments.samples}"
    tokenizer_file = out / "tokenizer.json"
    if not ((out / "key.txt").exists() and (out / "key.txt").read_text() == key):
        made = corpus.texts(arguments.seed, TOKENIZER_TEXTS)
        train_tokenizer(text.text for text in made).save(str(tokenizer_file))
        (out / "key.txt").write_text(key)
    size = Tokenizer.from_file(str(tokenizer_file)).get_vocab_size()

    def made_of(number: int, short: bool) -> list[corpus.Sample]:
        name = "short.npz" if short else "samples.npz"
        seed = arguments.seed
        return corpus.kept(
            out / name,
            key,
            lambda: corpus.make(str(tokenizer_file), seed, number, short=short),
        )

    samples = made_of(arguments.samples, short=False)
    short = made_of(arguments.samples // 10, short=True)
    tokens = sum(len(sample.ids) for sample in samples)
    print(
        f"{len(samples)} conversations, {tokens / 1e6:.1f}M tokens, {time.monotonic() - began:.0f} s",
        flush=True,
    )

    network = Network(Sizes(vocabulary=size))
    print(f"{sum(p.numel() for p in network.parameters()) / 1e6:.2f}M parameters", flush=True)
    run = network if arguments.eager else torch.compile(network, dynamic=False)
    matrices = [p for n, p in network.named_parameters() if p.ndim == 2 and "embed" not in n]
    others = [p for n, p in network.named_parameters() if p.ndim != 2 or "embed" in n]
    optimizers: list[torch.optim.Optimizer] = [
        Muon(matrices, MUON_RATE),
        torch.optim.AdamW(others, ADAM_RATE, betas=(0.9, 0.98), weight_decay=0.0),
    ]
    rates = [MUON_RATE, ADAM_RATE]
    sources = [
        stream(corpus.copying(size, arguments.seed, 40_000), 1),
        stream(short, 2),
        stream(samples, 3),
    ]

    for length in corpus.LENGTHS:  # compiles
        blank = np.zeros((BATCH_TOKENS // length, length + 1), np.int64)
        loss_of(network, run, (blank, blank == 0)).backward()
        network.zero_grad(set_to_none=True)
        print(f"compiled for {length} tokens, {time.monotonic() - began:.0f} s", flush=True)

    total = arguments.minutes * 60 - (time.monotonic() - began)
    began = saved = time.monotonic()
    seen, step, shown = 0, 0, 0.0
    while (progress := (time.monotonic() - began) / total) < 1:
        which = 0 if progress < COPY_SHARE else 1 if progress < COPY_SHARE + SHORT_SHARE else 2
        batch = next(sources[which])
        factor = schedule(progress, step)
        loss = loss_of(network, run, batch)
        if not math.isfinite(loss.item()):
            sys.exit(f"step {step}: the loss is {loss.item()}")
        loss.backward()
        torch.nn.utils.clip_grad_norm_(others, 1.0)
        for optimizer, rate in zip(optimizers, rates, strict=True):
            for group in optimizer.param_groups:
                group["lr"] = rate * factor
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        seen += batch[0].size
        step += 1
        shown = 0.97 * shown + 0.03 * loss.item() if step > 1 else loss.item()
        if step % 50 == 0:
            spent = time.monotonic() - began
            print(
                f"step {step} stage {which} loss {shown:.4f} {seen / 1e6:.1f}M {seen / spent / 1e3:.1f}k/s {spent:.0f}s",
                flush=True,
            )
        if time.monotonic() - saved > SAVE_SECONDS:
            torch.save(network.state_dict(), out / "checkpoint.pt")
            saved = time.monotonic()
    torch.save(network.state_dict(), out / "checkpoint.pt")
    print(f"{seen / 1e6:.1f}M tokens in {step} steps", flush=True)


if __name__ == "__main__":
    main()

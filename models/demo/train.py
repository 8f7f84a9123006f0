"""Trains the demo model from scratch: `python -m models.demo.train OUT`, see `make demo-model`.

One process with one thread for each processor, each with batches of its own: operations are too
small here for threads to share. Writes OUT/checkpoint.pt every few minutes and at the end. How many
steps there are follows from the minutes given and the machine.
"""

from __future__ import annotations

import argparse
import math
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
import torch.distributed
from tokenizers import Tokenizer
from torch.nn import functional as F

from . import corpus
from .batches import LENGTHS, Batch, batches
from .corpus import LONGEST
from .muon import Muon
from .network import Network, Sizes
from .tokenizer import train as train_tokenizer

MUON_RATE, ADAM_RATE = 0.02, 3e-3
BATCH_TOKENS = 4096
"""Of each process."""
COPY_SHARE, SHORT_SHARE = 0.05, 0.10
"""Of the training: copying, then short conversations, then all."""
WARM_STEPS, COOL_SHARE = 50, 0.45
SAVE_SECONDS = 180.0
TOKENIZER_TEXTS = 12_000


@dataclass(frozen=True)
class Plan:
    out: Path
    seed: int
    samples: int
    seconds: float
    compiled: bool
    resumed: bool = False
    """From the checkpoint: a second leg, of whole conversations alone."""

    @property
    def tokenizer_file(self) -> Path:
        return self.out / "tokenizer.json"

    def conversations(self, *, short: bool) -> list[corpus.Sample]:
        number = self.samples // 10 if short else self.samples
        return corpus.kept(
            self.out / ("short.npz" if short else "samples.npz"),
            f"{corpus.fingerprint()} {self.seed} {number}",
            lambda: corpus.make(str(self.tokenizer_file), self.seed, number, short=short),
        )


def schedule(progress: float, step: int) -> float:
    """Factor of the learning rates: warm-up, constant, cosine down to 2 %."""
    warm = min(1.0, (step + 1) / WARM_STEPS)
    cool = max(0.0, (progress - (1 - COOL_SHARE)) / COOL_SHARE)
    return warm * (0.02 + 0.98 * (0.5 + 0.5 * math.cos(math.pi * min(1.0, cool))))


def stream(samples: list[corpus.Sample], seed: int) -> Iterator[Batch]:
    rng = np.random.default_rng(seed)
    while True:
        yield from batches(samples, BATCH_TOKENS, 0, rng)


def loss_of(network: Network, run: torch.nn.Module, batch: Batch) -> torch.Tensor:
    ids, trained = torch.from_numpy(batch[0]), torch.from_numpy(batch[1])
    with torch.autocast("cpu", torch.bfloat16):
        hidden = run(ids[:, :-1])
        wanted = trained[:, 1:]
        logits = network.logits(hidden[wanted])
    return F.cross_entropy(logits.float(), ids[:, 1:][wanted])


def prepare(plan: Plan) -> None:
    """The tokenizer and the conversations, kept in files for all processes."""
    plan.out.mkdir(parents=True, exist_ok=True)
    made = corpus.texts(plan.seed, TOKENIZER_TEXTS)
    train_tokenizer(text.text for text in made).save(str(plan.tokenizer_file))
    plan.conversations(short=True)
    tokens = sum(len(sample.ids) for sample in plan.conversations(short=False))
    print(f"{plan.samples} conversations, {tokens / 1e6:.1f}M tokens", flush=True)


def work(rank: int, world: int, plan: Plan) -> None:
    started = time.monotonic()
    torch.set_num_threads(1)
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{plan.out.resolve()}/meeting", rank=rank, world_size=world
    )
    torch.manual_seed(plan.seed)  # the same weights everywhere
    size = Tokenizer.from_file(str(plan.tokenizer_file)).get_vocab_size()
    network = Network(Sizes(vocabulary=size))
    if plan.resumed:
        network.load_state_dict(torch.load(plan.out / "checkpoint.pt", weights_only=True))
    compiled = torch.compile(network, dynamic=False)
    matrices = [p for n, p in network.named_parameters() if p.ndim == 2 and "embed" not in n]
    others = [p for n, p in network.named_parameters() if p.ndim != 2 or "embed" in n]
    muon = Muon(matrices, rank, world, torch.distributed.all_reduce)
    adam = torch.optim.AdamW(others, ADAM_RATE, betas=(0.9, 0.98), weight_decay=0.0)
    share = plan.seed * 100 + rank + 50 * plan.resumed
    stages = [
        stream(corpus.copying(size, share, 40_000), share),
        stream(plan.conversations(short=True)[rank::world], share),
        stream(plan.conversations(short=False)[rank::world], share),
    ]
    parameters = list(network.parameters())
    if plan.compiled:
        for length in LENGTHS[:-1]:  # not for the longest: few are so long
            blank = np.zeros((BATCH_TOKENS // length, length + 1), np.int64)
            loss_of(network, compiled, (blank, blank == 0)).backward()
            network.zero_grad(set_to_none=True)
    began = saved = time.monotonic()
    seconds = plan.seconds - (began - started)
    progress, step, seen, shown = 0.0, 0, 0, 0.0
    while progress < 1:
        stage = (progress >= COPY_SHARE) + (progress >= COPY_SHARE + SHORT_SHARE)
        stage = 2 if plan.resumed else stage
        batch = next(stages[stage])
        fast = plan.compiled and batch[0].shape[1] < LONGEST
        loss = loss_of(network, compiled if fast else network, batch)
        loss.backward()
        # Gradients, the loss and the first process's clock in one sum: all processes stay in step.
        clock = (time.monotonic() - began) / seconds if rank == 0 else 0.0
        extra = torch.tensor([loss.item() / world, clock])
        summed = torch.cat([*(p.grad.flatten() / world for p in parameters), extra])
        torch.distributed.all_reduce(summed)
        if not bool(summed.isfinite().all()):
            raise FloatingPointError(f"step {step}: a gradient or the loss is not finite")
        gradients = summed[:-2].split([p.numel() for p in parameters])
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.grad = gradient.view_as(parameter)
        torch.nn.utils.clip_grad_norm_(others, 1.0)
        factor = schedule(progress, step)
        muon.step(MUON_RATE * factor)
        for group in adam.param_groups:
            group["lr"] = ADAM_RATE * factor
        adam.step()
        adam.zero_grad(set_to_none=True)
        network.zero_grad(set_to_none=True)
        average, progress = summed[-2].item(), summed[-1].item()
        seen, step = seen + world * batch[0].size, step + 1
        shown = average if step == 1 else 0.97 * shown + 0.03 * average
        if rank == 0 and step % 50 == 0:
            spent = time.monotonic() - began
            rate = f"{seen / 1e6:.1f}M {seen / spent / 1e3:.1f}k/s {spent:.0f}s"
            print(f"step {step} stage {stage} loss {shown:.4f} {rate}", flush=True)
        if rank == 0 and (progress >= 1 or time.monotonic() - saved > SAVE_SECONDS):
            torch.save(network.state_dict(), plan.out / "checkpoint.pt")
            saved = time.monotonic()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=29.0, help="in all")
    parser.add_argument("--samples", type=int, default=80_000)
    parser.add_argument("--compiled", action="store_true", help="by torch.compile")
    parser.add_argument("--resume", action="store_true", help="go on from the checkpoint")
    given = parser.parse_args()
    began = time.monotonic()
    plan = Plan(
        given.out, given.seed, given.samples, given.minutes * 60, given.compiled, given.resume
    )
    if not given.resume:
        prepare(plan)
    plan = replace(plan, seconds=plan.seconds - (time.monotonic() - began))
    (plan.out / "meeting").unlink(missing_ok=True)
    world = os.cpu_count() or 1
    torch.multiprocessing.spawn(work, (world, plan), nprocs=world)


if __name__ == "__main__":
    main()

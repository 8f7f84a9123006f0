"""Trains the demo model from scratch: `python -m trainer.train OUT`, see `make demo-model`.

One process with one thread for each processor, each with batches of its own: the operations are too
small here for threads to share. Everything is counted in steps, so that a run is a function of its
seed, the number of processes and the processor's precision, and takes the time it takes. It is saved
every few minutes, and the same command goes on from there after it was stopped.
"""

from __future__ import annotations

import argparse
import os
import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed
import torch.multiprocessing
from safetensors.torch import load_file
from tokenizers import Tokenizer
from torch.nn import functional as F

from . import corpus
from .batches import FINE_LENGTHS, LENGTHS, Batch
from .corpus import LONGEST
from .curriculum import Curriculum
from .muon import Muon
from .network import Network, fast
from .tokenizer import spelt
from .tokenizer import train as train_tokenizer

STEP_TOKENS = 4096
"""Of all processes together, the padding included."""
STEPS = 14_000
MUON_RATE, ADAM_RATE = 0.02, 3e-3
WARM_STEPS = 50
RATES = ((0.08, 1.0), (0.3, 0.5), (1.0, 0.005))
"""Shares of the steps, and of the rates then. In batches this small the loss follows the rate for
thousands of steps: only with little of it is what is rare learned."""
RATES_ON = ((0.0, 0.2), (1.0, 0.005))
"""The same for a training that begins with weights."""
SAVE_SECONDS = 120.0
TOKENIZER_TEXTS = 24_000


@dataclass(frozen=True)
class Plan:
    out: Path
    seed: int
    samples: int
    steps: int
    minutes: float
    compiled: bool
    weights: Path | None = None
    """An exported model to begin with, instead of with nothing; its tokenizer too."""

    @property
    def tokenizer_file(self) -> Path:
        return self.out / "tokenizer.json"

    @property
    def key(self) -> str:
        """Of the conversations: other ones are made when it changes."""
        begun = f" {self.weights}" if self.weights else ""
        return f"{corpus.fingerprint()} {self.seed} {self.samples}{begun}"

    def conversations(self, short: bool) -> list[corpus.Sample]:
        number = self.samples // 10 if short else self.samples
        return corpus.kept(
            self.out / ("short.npz" if short else "samples.npz"),
            self.key,
            lambda: corpus.make(str(self.tokenizer_file), self.seed, number, short=short),
        )

    def factor(self, step: int) -> float:
        """Of the learning rates: warm-up, constant, then down."""
        warm = min(1.0, (step + 1) / WARM_STEPS)
        shares, factors = zip(*(RATES_ON if self.weights else RATES), strict=True)
        return warm * float(np.interp(step / self.steps, shares, factors))


def prepare(plan: Plan) -> None:
    """The tokenizer and the conversations, kept in files for all processes."""
    plan.out.mkdir(parents=True, exist_ok=True)
    mark = plan.out / "tokenizer.key"
    if not mark.exists() or mark.read_text() != plan.key:
        for old in plan.out.glob("checkpoint*.pt"):
            old.unlink()
        if plan.weights:
            shutil.copyfile(plan.weights / "tokenizer.json", plan.tokenizer_file)
        else:
            made = corpus.texts(plan.seed, min(TOKENIZER_TEXTS, plan.samples))
            learned = train_tokenizer([*(text.text for text in made), *spelt()])
            learned.save(str(plan.tokenizer_file))
        mark.write_text(plan.key)
    plan.conversations(True)
    tokens = sum(len(sample.ids) for sample in plan.conversations(False))
    print(f"{plan.samples} conversations, {tokens / 1e6:.1f}M tokens", flush=True)


def loss_of(network: Network, run: torch.nn.Module, batch: Batch) -> torch.Tensor:
    ids, trained = torch.from_numpy(batch[0]), torch.from_numpy(batch[1])
    with fast():
        hidden = run(ids[:, :-1])
        wanted = trained[:, 1:]
        logits = network.logits(hidden[wanted])
    return F.cross_entropy(logits.float(), ids[:, 1:][wanted])


class Trainer:
    """One of `world` processes. The weights are the same in all of them, after every step."""

    def __init__(self, rank: int, world: int, plan: Plan) -> None:
        self.rank, self.world, self.plan = rank, world, plan
        torch.manual_seed(plan.seed)
        self.tokenizer = Tokenizer.from_file(str(plan.tokenizer_file))
        self.network = Network.of(self.tokenizer)
        if plan.weights:
            self.network.take(load_file(plan.weights / "model.safetensors"))
        self.compiled = torch.compile(self.network, dynamic=False)
        named = list(self.network.named_parameters())
        matrices = [p for name, p in named if p.ndim == 2 and "embed" not in name]
        self.others = [p for name, p in named if p.ndim != 2 or "embed" in name]
        self.muon = Muon(matrices, rank, world, torch.distributed.all_reduce)
        self.adam = torch.optim.AdamW(self.others, ADAM_RATE, betas=(0.9, 0.98), weight_decay=0.0)
        self.done, self.shown = 0, 0.0
        self.curriculum = Curriculum(
            self.tokenizer,
            plan.conversations,
            seed=plan.seed,
            steps=plan.steps,
            tokens=STEP_TOKENS,
            rank=rank,
            world=world,
            begun=plan.weights is not None,
            lengths=LENGTHS if plan.compiled else FINE_LENGTHS,
        )
        if self._file(rank).exists():
            state: dict[str, Any] = torch.load(self._file(rank), weights_only=True)
            self.network.load_state_dict(state["network"])
            self.adam.load_state_dict(state["adam"])
            self.muon.load(state["muon"])
            self.done, self.shown = int(state["step"]), float(state["shown"])
            self.curriculum.load(state["curriculum"])
        self._require_one_step()

    def _file(self, rank: int) -> Path:
        return self.plan.out / f"checkpoint.{rank}.pt"

    def _require_one_step(self) -> None:
        steps = torch.zeros(self.world)
        steps[self.rank] = self.done
        torch.distributed.all_reduce(steps)
        if bool((steps != self.done).any()):
            raise RuntimeError(
                f"the processes' checkpoints are of steps {steps.int().tolist()}: delete "
                f"{self.plan.out}/checkpoint.*.pt and train again"
            )

    def save(self) -> None:
        state = {
            "network": self.network.state_dict(),
            "adam": self.adam.state_dict(),
            "muon": self.muon.buffers(),
            "step": self.done,
            "shown": self.shown,
            "curriculum": self.curriculum.state(),
        }
        written = self._file(self.rank).with_suffix(".new")
        torch.save(state, written)
        if self.rank == 0:
            torch.save(state["network"], self.plan.out / "checkpoint.pt")
        torch.distributed.barrier()  # all of them are of one step, or none is replaced
        written.replace(self._file(self.rank))

    def compile(self) -> None:
        for length in LENGTHS[:-1]:  # not for the longest: few are so long
            blank = np.zeros((STEP_TOKENS // self.world // length, length + 1), np.int64)
            loss_of(self.network, self.compiled, (blank, blank == 0)).backward()
            self.network.zero_grad(set_to_none=True)

    def step(self, batch: Batch, stop: bool, save: bool) -> tuple[float, bool, bool]:
        """The loss over all processes, and whether any of them wants to stop, or to save."""
        fast = self.plan.compiled and batch[0].shape[1] < LONGEST
        loss = loss_of(self.network, self.compiled if fast else self.network, batch)
        loss.backward()
        parameters = list(self.network.parameters())
        extra = torch.tensor([loss.item() / self.world, float(stop), float(save)])
        summed = torch.cat([*(p.grad.flatten() / self.world for p in parameters), extra])
        torch.distributed.all_reduce(summed)
        if not bool(summed.isfinite().all()):
            raise FloatingPointError(f"step {self.done}: a gradient or the loss is not finite")
        gradients = summed[: -len(extra)].split([p.numel() for p in parameters])
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.grad = gradient.view_as(parameter)
        torch.nn.utils.clip_grad_norm_(self.others, 1.0)
        factor = self.plan.factor(self.done)
        self.muon.step(MUON_RATE * factor)
        for group in self.adam.param_groups:
            group["lr"] = ADAM_RATE * factor
        self.adam.step()
        self.network.zero_grad(set_to_none=True)
        self.done += 1
        mean, stopping, saving = summed[-len(extra) :].tolist()
        return mean, stopping > 0, saving > 0

    def run(self) -> None:
        began = saved = time.monotonic()
        if self.plan.compiled:
            self.compile()
        first, stage, stop = self.done, None, False
        trained = time.monotonic()
        while self.done < self.plan.steps and not stop:
            if (now := self.curriculum.stage(self.done)) != stage:
                stage, source = now, self.curriculum.batches(now, self.done)
            out_of_time = time.monotonic() - began > 60 * self.plan.minutes
            due = time.monotonic() - saved > SAVE_SECONDS
            loss, stop, due = self.step(next(source), out_of_time, due)
            self.shown = loss if self.shown == 0 else 0.97 * self.shown + 0.03 * loss
            self.curriculum.note(self.done - 1, loss)
            if self.rank == 0 and self.done % 50 == 0:
                spent = time.monotonic() - trained
                rate = (self.done - first) * STEP_TOKENS / spent / 1e3
                print(
                    f"step {self.done} loss {self.shown:.4f} {rate:.1f}k/s {spent:.0f} s",
                    flush=True,
                )
            if due:
                self.save()
                saved = time.monotonic()
        self.save()


def work(rank: int, world: int, plan: Plan) -> None:
    torch.set_num_threads(1)
    meeting = f"file://{plan.out.resolve()}/meeting"
    torch.distributed.init_process_group("gloo", meeting, rank=rank, world_size=world)
    Trainer(rank, world, plan).run()
    torch.distributed.destroy_process_group()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--samples", type=int, default=240_000)
    parser.add_argument("--minutes", type=float, default=1e9, help="stop then; go on another time")
    parser.add_argument("--eager", action="store_true", help="without torch.compile")
    parser.add_argument("--weights", type=Path, help="begin with this exported model")
    given = parser.parse_args()
    plan = Plan(
        given.out, given.seed, given.samples, given.steps, given.minutes, not given.eager, given.weights
    )  # fmt: skip
    prepare(plan)
    (plan.out / "meeting").unlink(missing_ok=True)
    world = os.cpu_count() or 1
    torch.multiprocessing.spawn(work, (world, plan), nprocs=world)
    done = int(torch.load(plan.out / "checkpoint.0.pt", weights_only=True)["step"])
    print(f"{done} of {plan.steps} steps", flush=True)
    if done < plan.steps:
        raise SystemExit(f"stopped after {done} steps; the same command goes on")


if __name__ == "__main__":
    main()

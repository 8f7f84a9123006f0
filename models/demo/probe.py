"""Whether answers come out exactly, without decoding: `python -m models.demo.probe RUN`.

Under greedy decoding an answer is exact if, and only if, each of its tokens is the likeliest after
the ones before. For the training's own watch; `make eval-demo-model` asks the served model.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import torch
from tokenizers import Tokenizer

from .corpus import encode
from .dialogue import Dialogue, render
from .export import load
from .handwritten import conversations
from .network import Network
from .samples import MIX, Source


@torch.no_grad()
def exact(network: Network, tokenizer: Tokenizer, dialogue: Dialogue) -> tuple[bool, str]:
    """Whether the last answer comes out, and what comes in its place up to the first difference."""
    text = render(replace(dialogue, last_only=True))
    (sample,) = encode(tokenizer, [text])
    ids = torch.from_numpy(sample.ids.astype("int64"))[None]
    with torch.autocast("cpu", torch.bfloat16):
        best = network.logits(network(ids[:, :-1])).argmax(-1)[0]
    wanted = torch.from_numpy(sample.trained)[1:]
    right = best == ids[0, 1:]
    if bool(right[wanted].all()):
        return True, ""
    first = int((wanted & ~right).nonzero()[0])
    return False, tokenizer.decode(
        ids[0, max(0, first - 12) : first + 1].tolist(), False
    ) + " ⟶ " + tokenizer.decode(best[first : first + 1].tolist(), False)


def cases(number: int) -> dict[str, list[Dialogue]]:
    found: dict[str, list[Dialogue]] = {}
    for category in MIX:
        source = Source(990_000, held=True)
        found[category] = [source.draw(category) for _ in range(number)]
    source = Source(991_000, held=True, unseen=True)
    found["unseen tools"] = [source.draw("call", "en") for _ in range(2 * number)]
    found["handwritten"] = [each.dialogue() for each in conversations() if each.calls]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("--number", type=int, default=60, help="conversations of each kind")
    parser.add_argument("--show", type=int, default=3, help="misses of each kind")
    arguments = parser.parse_args()
    network, tokenizer = load(arguments.run)
    for name, dialogues in cases(arguments.number).items():
        judged = [(dialogue, *exact(network, tokenizer, dialogue)) for dialogue in dialogues]
        print(f"{name}: {sum(right for _, right, _ in judged)}/{len(judged)}")
        for dialogue, _, said in [each for each in judged if not each[1]][: arguments.show]:
            user = next(turn for turn in reversed(dialogue.turns) if hasattr(turn, "text"))
            print(f"    {getattr(user, 'text', '')!r}\n        {said!r}")


if __name__ == "__main__":
    main()

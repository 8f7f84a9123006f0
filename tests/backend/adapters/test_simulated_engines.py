"""vLLM's real scheduler and batch, with adversarial drafts: each row has its own request's mask."""

from dataclasses import replace

import numpy as np
import pytest

from tests.long.scheduler.engine import vocabulary
from tests.long.scheduler.oracle import Profile, Violation
from tests.long.scheduler.runner import Runner
from tests.long.scheduler.simulation import Simulation
from tests.support.effort import rotating
from toolgate_backend.adapters import mask_worker

# --- simulated engines ---
BASE = Profile(
    seed=1,
    adapter="structured_output",
    shape="none",
    drafts=0,
    async_scheduling=False,
    rows=6,
    blocks=22,
    batched_tokens=128,
    agreement=0.7,
    abort=0.05,
)


@pytest.mark.exhaustive
@rotating(
    "profile",
    [
        replace(BASE, adapter="logits_processor"),
        replace(BASE, adapter="logits_processor", async_scheduling=True),
        replace(BASE, adapter="logits_processor_v2", async_scheduling=True),
        replace(BASE, adapter="logits_processor_v2", shape="suffix", drafts=4),
        replace(BASE, adapter="logits_processor_v2", shape="mtp", drafts=4, async_scheduling=True),
        replace(BASE, shape="suffix", drafts=4),
        replace(BASE, shape="mtp", drafts=4, async_scheduling=True),
        replace(BASE, shape="forced", drafts=8, async_scheduling=True),
    ],
    one_in=3,
    ids=lambda profile: f"{profile.adapter}-{profile.shape}-{profile.async_scheduling}",
)
def test_masks_follow_their_requests(profile):
    """Raises Violation otherwise, and if a finished call is invalid."""
    counts = Simulation(profile).run(200)
    assert counts["preempted"]
    assert counts["aborted"]
    assert counts["moves"]
    assert counts["calls"]
    assert bool(counts["drafts accepted"]) == (profile.drafts > 0)


def test_rows_of_other_requests_are_noticed(monkeypatch):
    """The check itself: exchange the rows of logits."""
    placed = mask_worker.places_of
    monkeypatch.setattr(mask_worker, "places_of", lambda *given: np.roll(placed(*given), 1))
    with pytest.raises(Violation, match="its own mask allows"):
        Simulation(BASE).run(50)


def test_other_drafts_than_the_scheduler_s_are_noticed(monkeypatch):
    """The check itself: a worker that verifies the same text in other tokens."""
    placed = Runner._placed_drafts
    texts = vocabulary().token_bytes
    single = {text: token for token, text in enumerate(texts) if len(text) == 1}

    def own(self, request, scheduled):
        first, *others = placed(self, request, scheduled) or [-1]
        return [single.get(texts[first][:1], first), *others] if first >= 0 else []

    monkeypatch.setattr(Runner, "_placed_drafts", own)
    profile = replace(BASE, shape="forced", drafts=8, async_scheduling=True, agreement=1.0)
    with pytest.raises(Violation, match=r"its own mask allows|is not allowed"):
        Simulation(profile).run(200)


def test_the_same_seed_is_the_same_run():
    def run():
        return Simulation(replace(BASE, shape="ngram", drafts=2, abort=0.0, rows=2)).run(40)

    assert run() == run()

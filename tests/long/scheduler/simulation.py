"""vLLM's scheduler with adversarial drafts, preemption, aborts and moving rows, and a fake model.

    python -m tests.long scheduler --seeds 200 --steps 5000 --out FILE   # 1,000,000 steps
    python -m tests.long scheduler --seed 13 --steps 5000                # one of them again
    python -m tests.long scheduler --shape forced --seeds 200            # drafts of forced text
    python -m tests.long scheduler --seed 13 --hash-seed 7               # in another order of sets

Each seed is an engine of its own: an adapter, a shape of drafts, sync or async scheduling, 1 to 64
rows, scarce blocks. Real parts of vLLM: Scheduler and AsyncScheduler with their KV-cache manager,
StructuredOutputManager, InputBatch with BatchUpdate, the application of masks, the rejection
sampler's CPU kernels. Ours: logits, drafts, and the order of calls of the V1 model runner. At every
position that is sampled, the mask of the row is compared with that of an automaton of the same
request that never drafts and never moves. Every finished response is segmented, and its calls are
validated.

With --out, the outcome of each seed is a line of FILE, and seeds that it has are not run again. The
exit status is 1 if an invariant was violated.
"""

import os
import random
import time
from collections import Counter, deque
from functools import partial
from typing import Any

from vllm import SamplingParams
from vllm.sampling_params import StructuredOutputsParams
from vllm.v1.request import Request, RequestStatus

from tests.long.outcomes import (
    HASH_SEED,
    Outcome,
    Runs,
    parser_of,
    require_hash_seed,
    seeds_of,
    side_by_side,
)
from tests.long.scheduler import engine
from tests.long.scheduler.oracle import FakeModel, Oracle, Profile, Shape, Violation, profile_of
from tests.long.scheduler.runner import Runner
from toolgate_backend.adapters import vllm_host
from toolgate_backend.adapters.engine_sequences import engine_sequences
from toolgate_backend.adapters.row_numbers import RowNumbers
from toolgate_backend.enforcement.automaton import Automaton
from toolgate_backend.enforcement.spec import Spec

REASONS = {
    RequestStatus.FINISHED_STOPPED: "stop",
    RequestStatus.FINISHED_LENGTH_CAPPED: "length",
}
NATIVE_SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}


class Simulation:
    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._rng = random.Random(f"run-{profile.seed}")
        self._tools = engine.loaded_tools()
        sequences = engine_sequences(engine._base_config())
        # Small tables begin anew often. Without one, masks are bitmasks.
        slots = profile.rows * (1 + profile.drafts) + self._rng.randint(0, 40)
        sequences.step_masks.numbers = RowNumbers(slots) if self._rng.random() < 0.8 else None
        turns, store = sequences.turns, sequences.store
        vocabulary = engine.vocabulary()
        self._marks = vocabulary.marks

        def automaton(spec: Spec) -> Automaton:
            grammars, content = spec.grammars_in(store)
            turns.model.prepare_prefixes(grammars)
            return Automaton(turns, spec, grammars, content)

        self._oracle = Oracle(vocabulary, automaton, self._tools)
        fake = FakeModel(vocabulary, self._oracle, profile, self._rng)
        config = engine.config_of(profile)
        self._manager = engine.make_manager(config)
        self._scheduler = engine.make_scheduler(profile, config, self._manager)
        self._runner = Runner(profile, fake, self._rng)
        self._requests: dict[str, Request] = {}
        self._queue: deque[tuple[Any, Any]] = deque()
        self._made = 0
        self.counts: Counter[str] = Counter()

    def run(self, steps: int) -> Counter[str]:
        try:
            for _ in range(steps):
                self._arrive()
                self._step()
        finally:
            self._runner.batch.logitsprocs = None
            if self._profile.adapter == "logits_processor":
                engine.processor()._sequences.clear()
        self.counts["moves"] = self._runner.moves
        return self.counts + self._oracle.counts

    def _arrive(self) -> None:
        wanted = self._profile.rows * 3 // 2 + 1
        while len(self._requests) < wanted and self._rng.random() < 0.6:
            for params, spec in self._new():
                self._made += 1
                name = f"r{self._made}"
                prompt = [self._rng.randrange(300, 2000) for _ in range(self._rng.randint(1, 60))]
                request = Request(name, prompt, params, None, block_hasher=engine.block_hasher())
                if spec is not None:
                    self._oracle.start(name, spec)
                if self._profile.adapter == "structured_output":
                    self._manager.grammar_init(request)
                self._requests[name] = request
                self._scheduler.add_request(request)
                self.counts["requests"] += 1

    def _new(self) -> list[tuple[SamplingParams, Spec | None]]:
        """The choices of one request."""
        rng, marks = self._rng, self._marks
        budget = rng.randint(60, 200)
        keys = tuple(rng.sample(sorted(self._tools), rng.randint(1, len(self._tools))))
        structured = None
        if self._profile.adapter == "structured_output":
            structured = vllm_host.structured_outputs_params()
            structured._backend = "xgrammar"
            if rng.random() < 0.1:  # a neighbour with vLLM's own grammar
                own = StructuredOutputsParams(json=NATIVE_SCHEMA)
                own._backend = "xgrammar"
                return [(self._params(budget, structured_outputs=own), None)]
        elif rng.random() < 0.1:  # a neighbour without constraints
            return [(self._params(min(budget, 20)), None)]
        stops = [mark for mark in (marks.failure, marks.cut) if mark is not None]
        made: list[tuple[SamplingParams, Spec | None]] = []
        first = rng.randrange(2**30)
        spec = Spec(
            choice=rng.choice(("required", "required", "auto", "none")),
            keys=keys,
            max_calls=rng.choice((1, 2, None)),
            reasoning=rng.choice(("open", "must", "may", "closed")),
            reasoning_budget=rng.choice((None, 10)),
            budget=budget,
            repetition_tokens=rng.choice((0, 24)),
            id_seed="bench",
            first_seed=first,
        )
        if spec.choice == "none":
            spec = Spec(**{**spec.__dict__, "keys": (), "max_calls": None})
        for number in range(rng.choice((1, 1, 1, 2, 3))):
            own_spec = Spec(**{**spec.__dict__, "choice_number": number, "first_seed": None})
            params = self._params(
                budget, structured_outputs=structured, stop_token_ids=stops, spec=own_spec
            )
            made.append((params, own_spec))
        return made

    def _params(self, budget: int, spec: Spec | None = None, **more: Any) -> SamplingParams:
        extra = spec.to_extra_args() if spec is not None else None
        params = SamplingParams(
            max_tokens=budget, temperature=0.0, extra_args=extra, detokenize=False, **more
        )
        ends = self._marks.end_of_turn
        params.update_from_generation_config({"eos_token_id": list(ends)}, ends[0])
        return params

    def _step(self) -> None:
        """As EngineCore.step, or step_with_batch_queue under async scheduling."""
        if not self._scheduler.has_requests():
            return
        scheduled = self._scheduler.schedule()
        self.counts["steps"] += 1
        self.counts["preempted"] += len(scheduled.preempted_req_ids or ())
        self._runner.execute(scheduled)
        if self._profile.shape == "forced":
            self._count_forced(scheduled)
        ran = scheduled.total_num_scheduled_tokens > 0
        if not self._profile.async_scheduling:
            if ran:
                output = self._runner.sample(self._scheduler.get_grammar_bitmask(scheduled))
                drafts = self._runner.propose()
                self._update(scheduled, output)
                if drafts is not None:
                    self.counts["drafted"] += sum(map(len, drafts.draft_token_ids))
                    self._scheduler.update_draft_token_ids(drafts)
            else:
                self._update(scheduled, None)
            return
        waits = ran and scheduled.pending_structured_output_tokens
        if ran and not waits:
            self._queue.append((scheduled, self._sample(scheduled)))
            if len(self._queue) < 2:
                return
        if self._queue:
            self._update(*self._queue.popleft())
        if waits:
            if self._pending_drafts is not None:
                self._scheduler.update_draft_token_ids_in_output(self._pending_drafts, scheduled)
            self._queue.append((scheduled, self._sample(scheduled)))
        elif not ran:
            self._update(scheduled, None)

    def _count_forced(self, scheduled: Any) -> None:
        """Only sequences with Toolgate's grammar have drafts, and none is padding yet."""
        for name, drafts in scheduled.scheduled_spec_decode_tokens.items():
            if name not in self._oracle._specs or min(drafts) < 0:
                raise Violation(f"request {name} was scheduled with the drafts {drafts}")
            self.counts["drafted"] += len(drafts)

    _pending_drafts: Any = None

    def _sample(self, scheduled: Any) -> Any:
        output = self._runner.sample(self._scheduler.get_grammar_bitmask(scheduled))
        self._pending_drafts = self._runner.propose()
        if self._pending_drafts is not None:
            self.counts["drafted"] += sum(map(len, self._pending_drafts.draft_token_ids))
        return output

    def _update(self, scheduled: Any, output: Any) -> None:
        if self._requests and self._rng.random() < self._profile.abort:
            name = self._rng.choice(sorted(self._requests))
            self._scheduler.finish_requests(name, RequestStatus.FINISHED_ABORTED)
            self._gone(name)
            self.counts["aborted"] += 1
        if output is None:
            return
        self.counts["tokens"] += sum(map(len, output.sampled_token_ids))
        for request, tokens in zip(output.req_ids, output.sampled_token_ids, strict=True):
            if scheduled.scheduled_spec_decode_tokens.get(request):
                self.counts["drafts accepted"] += max(0, len(tokens) - 1)
        self._scheduler.update_from_output(scheduled, output)
        for name, request in list(self._requests.items()):
            if request.is_finished():
                self._judge(name, request)
                self._gone(name)

    def _judge(self, name: str, request: Request) -> None:
        output = list(request.output_token_ids)
        if request.status not in REASONS:
            raise Violation(f"request {name} ended with {request.status.name}")
        if name in self._oracle._specs:
            # Without constraints, the model may write that token.
            if self._marks.failure in output:
                raise Violation(f"request {name} ended with the failure token")
            self._oracle.finished(name, output, REASONS[request.status])
        else:
            self.counts["native finished"] += 1

    def _gone(self, name: str) -> None:
        self._requests.pop(name, None)
        self._oracle.forget(name)


def simulate(seed: int, steps: int, shape: Shape | None = None) -> Outcome:
    outcome = Outcome(seed, labels={"steps": str(steps), "shape": shape or "any"})
    began = time.perf_counter()
    simulation = Simulation(profile_of(seed, shape))
    try:
        simulation.run(steps)
    except Violation as violation:
        outcome.violations.append(str(violation))
    outcome.counts = simulation.counts + simulation._oracle.counts
    outcome.seconds = time.perf_counter() - began
    return outcome


def main() -> int:
    parser = parser_of(__doc__)
    parser.add_argument("--seeds", type=int, default=20, help="number of engines")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--steps", type=int, default=500, help="steps of each engine")
    parser.add_argument(
        "--shape", choices=["forced"], help="all engines with drafts of forced text"
    )
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--hash-seed", default=HASH_SEED, help="PYTHONHASHSEED; 0 by default")
    options = parser.parse_args()
    # vLLM iterates over sets of request ids. Threads of small tensor operations only wait for each
    # other.
    require_hash_seed(options.hash_seed, VLLM_LOGGING_LEVEL="ERROR", OMP_NUM_THREADS="1")
    runs = Runs(options.out, steps=str(options.steps), shape=options.shape or "any")
    work = partial(simulate, steps=options.steps, shape=options.shape)
    for outcome in side_by_side(work, runs.missing(seeds_of(options)), options.processes):
        runs.add(outcome)
    return runs.report("engines")

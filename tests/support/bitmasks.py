"""Bitmasks as vLLM's model runners take them."""

import numpy as np

from toolgate_backend.adapters import vllm_host

FIXED_SINCE = (0, 33)
"""From this release on, each request has as many rows as one can have with all drafts."""


def as_bitmask(rows, positions, most):
    """The rows of requests that each have a number of positions, at most `most`."""
    left = iter(rows)
    is_fixed = tuple(map(int, vllm_host.version().split(".")[:2])) >= FIXED_SINCE
    made = []
    for count in positions:
        made += [next(left).words for _ in range(count)]
        made += [np.full_like(made[-1], -1)] * (most - count) * is_fixed
    return np.stack(made)


def positions_of(requests, batch):
    """The positions of these requests in a batch of the V2 model runner."""
    counts = dict(zip(batch.req_ids, np.diff(batch.cu_num_logits_np).tolist(), strict=True))
    return [counts[request] for request in requests]

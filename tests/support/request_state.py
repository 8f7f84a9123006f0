"""A request in vLLM's persistent batch, without a model."""

from typing import Any

from vllm.v1.worker.gpu_input_batch import CachedRequestState


def new_request_state(new: Any) -> CachedRequestState:
    """The state of a request that the scheduler schedules for the first time. `new` is vLLM's
    `NewRequestData`."""
    return CachedRequestState(
        req_id=new.req_id,
        prompt_token_ids=new.prompt_token_ids,
        mm_features=[],
        sampling_params=new.sampling_params,
        generator=None,
        block_ids=new.block_ids,
        num_computed_tokens=new.num_computed_tokens,
        output_token_ids=[],
    )

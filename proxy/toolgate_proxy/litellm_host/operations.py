"""Operations of LiteLLM that Toolgate models do not support, and the error for them.

LiteLLM has some fifty operations. It converts responses and messages to chat completions, and text
completions too, but several prompts to one conversation, and a call to no text. Others end in a 500
with a custom provider, or are sent to the backend unchanged.
"""

from __future__ import annotations

from toolgate_core.errors import InvalidRequest

from .deployments.router import is_toolgate

UNSUPPORTED = {
    "create_batch": "batches",
    "create_fine_tuning_job": "fine-tuning",
    "create_video": "video generation",
    "embedding": "embeddings",
    "generate_content": "Google's generateContent",
    "generate_content_stream": "Google's generateContent",
    "image_edit": "image editing",
    "image_generation": "image generation",
    "image_variation": "image variations",
    "moderation": "moderation",
    "ocr": "OCR",
    "rerank": "reranking",
    "speech": "speech",
    "text_completion": "text completions",
    "transcription": "transcription",
    "video_generation": "video generation",
}
"""By LiteLLM's name of the operation, without the `a` of its asynchronous form."""


def check_operation(model: object, call_type: str) -> None:
    """Raise InvalidRequest for an unsupported operation of a model that has only Toolgate
    deployments. `call_type`: LiteLLM's name of the operation."""
    operation = UNSUPPORTED.get(call_type) or UNSUPPORTED.get(call_type.removeprefix("a"))
    if operation is not None and isinstance(model, str) and is_toolgate(model):
        raise unsupported(operation, model)


def unsupported(operation: str, model: str | None = None) -> InvalidRequest:
    """Return the error for an operation. `model`: the name in the request, if it is known."""
    which = f"The model {model!r} does not" if model is not None else "Toolgate models do not"
    return InvalidRequest(
        f"{which} support {operation}. Use chat completions, or a model of another provider.",
        param="model",
    )

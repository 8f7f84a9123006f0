"""The start of the endpoint in an API process of vLLM, before the server is ready."""

from __future__ import annotations

from typing import Any

from vllm.logger import init_logger

from ..adapters.shutdown import before_shutdown
from ..settings import settings
from ..tokens.vocabulary import Vocabulary, from_model_config
from . import tracing
from .service import Service

logger = init_logger(__name__)


async def start(engine_client: Any, models: Any) -> Service:
    """Return the service once it is ready. `models`: vLLM's names and adapters of the model."""
    tracing.start(settings().traces)
    vocabulary = from_model_config(engine_client.model_config)
    service = Service(engine_client, models, vocabulary, settings())
    before_shutdown(engine_client, service.in_flight.close, service.in_flight.wait_until_idle)
    _log_dialect(vocabulary)
    await service.warm_up()
    return service


def _log_dialect(vocabulary: Vocabulary) -> None:
    recognised = vocabulary.recognised
    reason = recognised.reason if recognised else "TOOLGATE_DIALECT names it"
    logger.info("Toolgate: the dialect is %s, because %s.", vocabulary.dialect.name, reason)
    for warning in recognised.warnings if recognised else ():
        logger.warning("Toolgate: %s", warning)

"""The models that an API key may use, and the error for one that it may not use."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

from toolgate_core.errors import ModelNotFound

from ...keys.key import Key
from .. import auth
from .router import model_names, rows_of

MAX_LISTED = 10
"""Maximum number of models that the error lists."""


async def may_use(key: Key | None, model: str) -> bool:
    """Return whether a key may use a model. `key`: None for the master key."""
    return key is None or await auth.may_call(auth.caller(key), model)


async def usable_models(key: Key | None) -> list[str]:
    """Return the names of the models, without aliases."""
    return [name for name in model_names() if await may_use(key, name)]


async def check_exists(model: str, key: Key | None) -> None:
    """Raise ModelNotFound for a model that the router does not know and the key may not use.

    LiteLLM finds models by more names, so it decides for keys that may use any. For others it
    returns a 403, as if the model existed."""
    if model and not rows_of(model) and not await may_use(key, model):
        raise await model_not_found(model, key)


async def model_not_found(model: str, key: Key | None) -> ModelNotFound:
    """Return the error, which lists the models that the key may use if they are few."""
    return not_among(await usable_models(key), model)


def not_among(names: Sequence[str], model: str) -> ModelNotFound:
    """Return the error, which lists `names` if they are few."""
    meant = get_close_matches(model[:200], names, n=1)
    advice = f" Did you mean {meant[0]!r}?" if meant else ""
    if not names:
        advice = " The key may use no model."
    elif len(names) <= MAX_LISTED:
        advice += f" The models are {', '.join(map(repr, names))}."
    else:
        advice += " `GET /v1/models` lists the models."
    return ModelNotFound(
        f"The model {model!r} does not exist, or this API key may not use it.{advice}",
        param="model",
    )

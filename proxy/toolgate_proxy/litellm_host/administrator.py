"""FastAPI dependency that requires the master key."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends
from litellm.proxy._types import LitellmUserRoles, UserAPIKeyAuth
from litellm.proxy.auth.user_api_key_auth import user_api_key_auth

from toolgate_core.errors import PermissionDenied


def require_administrator(caller: Annotated[UserAPIKeyAuth, Depends(user_api_key_auth)]) -> None:
    """Raise PermissionDenied for all other keys."""
    if caller.user_role != LitellmUserRoles.PROXY_ADMIN:
        raise PermissionDenied(
            "This endpoint requires the master key. Send it as `Authorization: Bearer <key>`."
        )

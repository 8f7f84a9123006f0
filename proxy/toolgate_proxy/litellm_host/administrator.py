"""FastAPI dependency that reports whether a request has the master key."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends
from litellm.proxy._types import LitellmUserRoles, UserAPIKeyAuth
from litellm.proxy.auth.user_api_key_auth import user_api_key_auth


def _is_administrator(caller: Annotated[UserAPIKeyAuth, Depends(user_api_key_auth)]) -> bool:
    return bool(caller.user_role == LitellmUserRoles.PROXY_ADMIN)


IsAdministrator = Annotated[bool, Depends(_is_administrator)]

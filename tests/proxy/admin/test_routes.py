"""Who may call the administrator's routes."""

from __future__ import annotations

import httpx
import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute
from litellm.proxy._types import LitellmUserRoles, UserAPIKeyAuth
from litellm.proxy.auth.user_api_key_auth import user_api_key_auth

from toolgate_proxy.admin.routes import router

ROUTES = [route for route in router.routes if isinstance(route, APIRoute)]


@pytest.mark.parametrize("role", [each for each in LitellmUserRoles if each != "proxy_admin"])
async def test_only_administrators_of_litellm_are_answered(role: LitellmUserRoles) -> None:
    """Another authentication than Toolgate's may let any role reach these routes."""
    app = FastAPI()
    app.include_router(router)
    app.dependency_overrides[user_api_key_auth] = lambda: UserAPIKeyAuth(user_role=role)
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://x") as someone:
        for route in ROUTES:
            for method in route.methods:
                answer = await someone.request(method, route.path, json={"tools": []})
                assert answer.status_code == 403, route.path
                assert answer.json()["error"]["code"] == "permission_denied"
    assert len(ROUTES) > 5

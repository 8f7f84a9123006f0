import json, pytest, yaml, time
from tests.support.servers import mcp_shop, search_engine
from tests.support.servers.gateway_process import MASTER_KEY, serving
from tests.support.servers.http_client import bearer, http_client
from tests.support.servers.script import Script, call
from toolgate_proxy.server.launcher import Route, make_config
async def test_x(backend_of_session, tmp_path):
    config = make_config([Route("tiny", "tiny")])
    config["litellm_settings"]["callbacks"] = ["otel"]
    config["mcp_servers"] = {"shop": mcp_shop.command(tmp_path/"calls") | {"allow_all_keys": True}}
    with search_engine.running() as engine:
        engine.pages=[{"title":"T","url":"https://a.example/","content":"hello"}]
        config["search_tools"] = [{"search_tool_name": "searx", "litellm_params": {"search_provider":"searxng","api_base": engine.url}}]
        p = tmp_path/"c.yaml"; p.write_text(yaml.safe_dump(config))
        with serving(["--config", str(p)], backend_of_session.url, tmp_path/"log", OTEL_EXPORTER="console", LITELLM_ENABLE_MCP_STDIO="true") as g:
            async with http_client(g.url, headers=bearer(MASTER_KEY), timeout=60) as http:
                backend_of_session.turns=[Script((call("shop-lookup", {"id":7}),)), Script(("done",))]
                r = await http.post("/v1/responses", json={"model":"tiny","input":"hi","tools":[{"type":"mcp","server_label":"shop","server_url":"litellm_proxy/mcp/shop","require_approval":"never"}]})
                print(r.status_code, r.text[:800])
                backend_of_session.turns=[Script((call("web_search", {"query":"x"}),)), Script(("done",))]
                r = await http.post("/v1/responses", json={"model":"tiny","input":"hi","tools":[{"type":"web_search"}]})
                print(r.status_code, r.text[:800])
                time.sleep(4)
        print((tmp_path/"log").read_text())

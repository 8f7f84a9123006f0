"""Chat templates of real models are recognised as the dialects of the models."""

from __future__ import annotations

import re

import pytest

from tests.support.shared_data import TEMPLATES
from toolgate_core.dialects.dialect import Dialect
from toolgate_core.dialects.recognition import recognise
from toolgate_core.dialects.registry import DIALECTS

EXPECTED = {
    "Apertus-8B-Instruct": "apertus",
    "Apriel-1.6-15b-Thinker-fixed": "apriel",
    "Bielik-11B-v3.0-Instruct": "bielik",
    "ByteDance-Seed-OSS": "seed_oss",
    "GLM-4.6": "glm45",
    "GLM-4.7-Flash": "glm47",
    "GigaChat3-10B-A1.8B": "gigachat3",
    "GigaChat3.1-10B-A1.8B": "gigachat31",
    "HuggingFaceTB-SmolLM3-3B": "smollm3",
    "Kimi-K2-Instruct": "kimi_k2",
    "Kimi-K2-Thinking": "kimi_k2",
    "LFM2-8B-A1B": "lfm2",
    "LFM2.5-8B-A1B": "lfm2_5",
    "LFM2.5-Instruct": "lfm2_5",
    "MiMo-VL": "mimo_vl",
    "MiniMax-M2": "minimax_m2",
    "Mistral-Small-3.2-24B-Instruct-2506": "mistral_v11",
    "NVIDIA-Nemotron-3-Nano-30B-A3B-BF16": "nemotron3",
    "NVIDIA-Nemotron-Nano-v2": "nemotron_nano2",
    "NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use": "hermes",
    "NousResearch-Hermes-3-Llama-3.1-8B-tool_use": "hermes",
    "Qwen-QwQ-32B": "qwen3",
    "Qwen-Qwen2.5-7B-Instruct": "hermes",
    "Qwen-Qwen3-0.6B": "qwen3",
    "Qwen3-Coder": "qwen3_coder",
    "Qwen3.5-4B": "qwen3_5",
    "Reka-Edge": "reka",
    "StepFun3.5-Flash": "step3_5",
    "deepseek-ai-DeepSeek-R1-Distill-Llama-8B": "deepseek_r1",
    "deepseek-ai-DeepSeek-R1-Distill-Qwen-32B": "deepseek_r1",
    "deepseek-ai-DeepSeek-V3.1": "deepseek_v31",
    "deepseek-ai-DeepSeek-V3.2": "deepseek_v32",
    "fireworks-ai-llama-3-firefunction-v2": "firefunction2",
    "google-gemma-4-31B-it": "gemma4",
    "google-gemma-4-31B-it-interleaved": "gemma4",
    "ibm-granite-granite-3.3-2B-Instruct": "granite33",
    "ibm-granite-granite-4.0": "granite4",
    "ibm-granite-granite-4.1": "granite4",
    "llama-cpp-deepseek-r1": "deepseek_r1",
    "meetkai-functionary-medium-v3.1": "functionary31",
    "meetkai-functionary-medium-v3.2": "functionary32",
    "meta-llama-Llama-3.1-8B-Instruct": "llama31",
    "meta-llama-Llama-3.2-3B-Instruct": "llama31",
    "meta-llama-Llama-3.3-70B-Instruct": "llama31",
    "mistralai-Ministral-3-14B-Reasoning-2512": "mistral_v13",
    "mistralai-Mistral-Nemo-Instruct-2407": "mistral_v3",
    "moonshotai-Kimi-K2": "kimi_k2",
    "openai-gpt-oss-120b": "gpt_oss",
    "stepfun-ai-Step-3.5-Flash": "step3_5",
    "unsloth-Apriel-1.5": "apriel15",
    "unsloth-mistral-Devstral-Small-2507": "mistral_v13",
    "upstage-Solar-Open-100B": "solar_open",
    "vllm-apertus": "apertus",
    "vllm-deepseekr1": "deepseek_r1",
    "vllm-deepseekv3": "deepseek_r1",
    "vllm-deepseekv31": "deepseek_v31",
    "vllm-functiongemma": "functiongemma",
    "vllm-gemma3_pythonic": "llama32_pythonic",
    "vllm-gemma4": "gemma4",
    "vllm-glm4": "glm45",
    "vllm-granite": "granite3",
    "vllm-granite_20b_fc": "granite20b",
    "vllm-hermes": "hermes",
    "vllm-hunyuan_a13b": "hunyuan_a13b",
    "vllm-internlm2_tool": "internlm2",
    "vllm-llama3.1_json": "llama31",
    "vllm-llama3.2_json": "llama31",
    "vllm-llama3.2_pythonic": "llama32_pythonic",
    "vllm-llama4_json": "llama4_json",
    "vllm-llama4_pythonic": "llama4_pythonic",
    "vllm-minimax_m1": "minimax_m1",
    "vllm-mistral": "mistral_v3_spm",
    "vllm-mistral3": "mistral_v3_spm",
    "vllm-mistral_parallel": "mistral_v3_spm",
    "vllm-phi4_mini": "phi4mini",
    "vllm-qwen3coder": "qwen3_coder",
    "vllm-toolace": "llama32_pythonic",
    "vllm-xlam_llama": "xlam",
    "vllm-xlam_qwen": "xlam",
}
WITH_CALLS = [dialect for dialect in DIALECTS.values() if dialect.calls]
NO_CALLS = ("google-gemma-2-2b-it", "microsoft-Phi-3.5-mini-instruct")
_TOKEN = re.compile(r"<[^<>\s\"'{}]+>|\[/?[A-Z_]+\]|｜[A-Z]+｜")

shared = pytest.mark.skipif(
    not TEMPLATES.is_dir(), reason="the chat templates are in $TOOLGATE_SHARED, which is absent"
)


def template(name: str) -> str:
    return (TEMPLATES / f"{name}.jinja").read_text()


@shared
@pytest.mark.parametrize("tokens", ["known", "unknown"])
@pytest.mark.parametrize("name", EXPECTED)
def test_a_template_is_recognised(name: str, tokens: str) -> None:
    text = template(name)
    added = frozenset(_TOKEN.findall(text)) if tokens == "known" else frozenset[str]()
    found = recognise(added, text)
    assert found.dialect.name == EXPECTED[name], found.reason
    assert found.warnings == ()


@shared
@pytest.mark.parametrize("name", NO_CALLS)
def test_a_template_without_calls_is_plain(name: str) -> None:
    found = recognise((), template(name))
    assert found.dialect.name == "plain"
    assert found.warnings == ()


@pytest.mark.parametrize("dialect", WITH_CALLS, ids=lambda dialect: dialect.name)
def test_a_template_with_all_texts_of_a_dialect_is_recognised(dialect: Dialect) -> None:
    """Texts that several families write, such as `<tool_call>`, do not make it ambiguous."""
    texts = [*dialect.recognition.template, *dialect.literals]
    found = recognise((), "\n".join(dict.fromkeys(texts)))
    assert found.dialect is dialect, found.reason
    assert found.warnings == ()


def test_without_a_template_the_tokens_decide() -> None:
    found = recognise(("<tool_call>", "</tool_call>", "<think>", "</think>"))
    assert found.dialect.name == "qwen3"
    assert found.warnings == ()


@pytest.mark.parametrize(
    ("tokens", "name"),
    [
        (("<|tool_calls_section_begin|>", "<|tool_call_argument_begin|>"), "kimi_k2"),
        (("<|tools_prefix|>", "<|tools_suffix|>"), "apertus"),
        (("<|action_start|>", "<|action_end|>", "<|plugin|>"), "internlm2"),
        (("<|action_start|>", "<|action_end|>", "<|plugin|>", "<think>"), "intern_s1"),
        (("[TOOL_CALLS]", "[TOOL_RESULTS]", "[ARGS]", "[CALL_ID]"), "mistral_v11"),
    ],
)
def test_tokens_of_one_family_name_its_dialect(tokens: tuple[str, ...], name: str) -> None:
    found = recognise(tokens)
    assert found.dialect.name == name
    assert found.warnings == ()


def test_tokens_that_fit_two_dialects_equally_are_ambiguous() -> None:
    found = recognise(("<｜tool▁calls▁begin｜>", "<｜tool▁sep｜>"))
    [warning] = found.warnings
    assert "deepseek_r1" in warning
    assert "deepseek_v31" in warning


def test_a_template_of_no_dialect_contradicts_the_tokens() -> None:
    found = recognise(("<tool_call>", "</tool_call>"), "{{ tools }}")
    assert found.dialect.name == "hermes"
    [warning] = found.warnings
    assert "TOOLGATE_DIALECT" in warning


def test_a_template_that_fits_two_dialects_equally_is_ambiguous() -> None:
    found = recognise((), "<|tools_prefix|> <TOOLCALL>")
    [warning] = found.warnings
    assert "apertus" in warning
    assert "nemotron_nano2" in warning


def test_a_template_with_tools_but_without_calls_of_a_dialect_is_plain() -> None:
    found = recognise((), "{% for tool in tools %}{{ tool }}{% endfor %}")
    assert found.dialect.name == "plain"
    [warning] = found.warnings
    assert "refused" in warning

"""What the programs share: where the gateway is, what is asked, what must hold."""

import json
import os
from typing import Literal

import jsonschema
from pydantic import BaseModel

ORIGIN = os.environ["GATEWAY_URL"]
URL = ORIGIN + "/v1"
KEY = os.environ["GATEWAY_KEY"]
MODEL = "tiny"
BODY = {"logit_bias": json.loads(os.environ["GATEWAY_BIAS"]), "reasoning_budget": 20}
"""Beside what a client sends: the model under test is random and must be helped to end."""
MAX_TOKENS = 800
QUESTION = "What's the weather in Beijing and Shanghai?"


class Weather(BaseModel):
    """The weather in a city, now."""

    city: str
    unit: Literal["celsius", "fahrenheit"] = "celsius"


SCHEMAS = {
    "get_weather": {
        "type": "object",
        "properties": {
            "city": {"type": "string"},
            "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
        },
        "required": ["city"],
        "additionalProperties": False,
    },
    "set_tags": {
        "type": "object",
        "properties": {
            "tags": {"type": "array", "items": {"type": "string"}, "minItems": 2, "maxItems": 2}
        },
        "required": ["tags"],
        "additionalProperties": False,
    },
}
TOOLS = [
    {"type": "function", "function": {"name": name, "description": name, "parameters": schema}}
    for name, schema in SCHEMAS.items()
]


def response_tools(*, strict=False):
    """`TOOLS` in the form of the Responses API."""
    return [{"type": "function", **tool["function"], "strict": strict} for tool in TOOLS]


def message_tools(**more):
    """`TOOLS` in the form of the Messages API."""
    return [
        {"name": name, "description": name, "input_schema": schema, **more}
        for name, schema in SCHEMAS.items()
    ]


def check_call(name, arguments):
    arguments = json.loads(arguments) if isinstance(arguments, str) else arguments
    jsonschema.validate(arguments, SCHEMAS[name])


def done(what):
    print("checked:", what, flush=True)

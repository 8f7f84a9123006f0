"""Schemas of tools' parameters for tests of codecs with nested values."""

from __future__ import annotations

from typing import Any

_PLACE: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "zip": {"type": "integer"}},
    "required": ["city"],
}
CODEC_SCHEMAS: dict[str, dict[str, Any]] = {
    "weather": {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "The city"},
            "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
            "days": {"type": "integer", "minimum": 1, "maximum": 7},
        },
        "required": ["city"],
    },
    "search": {
        "type": "object",
        "properties": {
            "query": {"type": "string"},
            "filters": {"type": "array", "items": {"type": "string"}},
            "exact": {"type": "boolean"},
            "limit": {"type": "integer"},
        },
        "required": ["query", "filters"],
    },
    "flight": {
        "type": "object",
        "properties": {"from": _PLACE, "to": _PLACE, "price": {"type": "number", "minimum": 0}},
        "required": ["from", "to"],
    },
    "text": {"properties": {"a": {"type": "string"}}, "required": ["a"]},
    "short": {"properties": {"a": {"type": "string", "maxLength": 4}}, "required": ["a"]},
    "bounded": {"properties": {"a": {"type": "string", "minLength": 2, "maxLength": 9}}},
    "empty_text": {"properties": {"a": {"type": "string", "maxLength": 0}}, "required": ["a"]},
    "pattern": {"properties": {"a": {"type": "string", "pattern": "^[a-c]{1,3}-\\d{2}$|end$"}}},
    "open_pattern": {"properties": {"a": {"type": "string", "pattern": "x"}}, "required": ["a"]},
    "two_patterns": {
        "properties": {
            "a": {"allOf": [{"type": "string", "pattern": "^[^a-y]"}, {"pattern": "[^a-y]$"}]}
        },
        "required": ["a"],
    },
    "enum": {
        "properties": {
            "a": {"enum": ["Paris", "it's", 'a "b"', "", "\n", "日本"]},
            "b": {"const": "x"},
        },
        "required": ["b"],
    },
    "mixed_enum": {"properties": {"a": {"enum": ["1", 1, 2.5, True, None]}}, "required": ["a"]},
    "numbers": {
        "properties": {
            "n": {"type": "integer", "minimum": 1, "maximum": 50},
            "x": {"type": "number"},
            "y": {"type": "number", "exclusiveMinimum": 0, "maximum": 1.5},
        },
        "required": ["n", "x"],
    },
    "booleans": {"properties": {"a": {"type": "boolean"}, "b": {"const": True}}, "required": ["a"]},
    "nullable": {
        "properties": {"a": {"type": ["string", "null"]}, "b": {"type": ["boolean", "null"]}},
        "required": ["a"],
    },
    "nullable_number": {"properties": {"a": {"anyOf": [{"type": "number"}, {"type": "null"}]}}},
    "either": {"properties": {"a": {"anyOf": [{"type": "string"}, {"type": "integer"}]}}},
    "one_of": {
        "properties": {"a": {"oneOf": [{"type": "string", "maxLength": 3}, {"type": "boolean"}]}},
        "required": ["a"],
    },
    "untyped": {"properties": {"a": {}, "b": {"type": "string"}}, "required": ["a"]},
    "list": {
        "properties": {"l": {"type": "array", "items": {"type": "string", "maxLength": 5}}},
        "required": ["l"],
    },
    "counted_list": {
        "properties": {
            "l": {"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 3},
            "m": {"type": "array", "items": {"type": "boolean"}, "maxItems": 1},
            "e": {"type": "array", "maxItems": 0},
        },
        "required": ["l", "m"],
    },
    "pair": {
        "properties": {
            "p": {
                "type": "array",
                "prefixItems": [{"type": "number"}, {"type": "string"}, {"type": "boolean"}],
                "items": False,
                "minItems": 2,
            }
        },
        "required": ["p"],
    },
    "pair_and_more": {
        "properties": {
            "p": {
                "type": "array",
                "prefixItems": [{"type": "number"}],
                "items": {"type": "string"},
                "maxItems": 3,
            }
        },
        "required": ["p"],
    },
    "any_list": {"properties": {"l": {"type": "array"}}, "required": ["l"]},
    "lists_of_lists": {
        "properties": {
            "m": {"type": "array", "items": {"type": "array", "items": {"type": "number"}}}
        },
        "required": ["m"],
    },
    "list_of_objects": {
        "properties": {"l": {"type": "array", "items": _PLACE, "minItems": 1}},
        "required": ["l"],
    },
    "object": {"properties": {"o": _PLACE}, "required": ["o"]},
    "optional_members": {
        "properties": {
            "o": {
                "type": "object",
                "properties": {name: {"type": "integer"} for name in ("a", "b", "c")},
            }
        },
        "required": ["o"],
    },
    "map": {
        "properties": {"o": {"type": "object", "additionalProperties": {"type": "integer"}}},
        "required": ["o"],
    },
    "declared_and_more": {
        "properties": {
            "o": {
                "type": "object",
                "properties": {"a": {"type": "integer"}},
                "required": ["a"],
                "additionalProperties": {"type": "string"},
            }
        },
        "required": ["o"],
    },
    "deep": {
        "properties": {
            "o": {
                "type": "object",
                "properties": {"l": {"type": "array", "items": _PLACE, "maxItems": 2}, "p": _PLACE},
                "required": ["l", "p"],
            }
        },
        "required": ["o"],
    },
    "formats": {
        "properties": {
            "d": {"type": "string", "format": "date"},
            "u": {"type": "string", "format": "uuid"},
        },
        "required": ["d"],
    },
    "reference": {
        "properties": {"s": {"$ref": "#/$defs/s"}, "t": {"$ref": "#/$defs/s"}},
        "required": ["s"],
        "$defs": {"s": {"type": "string", "maxLength": 5}},
    },
    "tree": {
        "properties": {"t": {"$ref": "#/$defs/tree"}},
        "required": ["t"],
        "$defs": {
            "tree": {
                "type": "object",
                "properties": {
                    "v": {"type": "integer"},
                    "kids": {"type": "array", "items": {"$ref": "#/$defs/tree"}, "maxItems": 2},
                },
                "required": ["v"],
            }
        },
    },
    "itself": {"properties": {"next": {"$ref": "#"}, "v": {"type": "integer"}}, "required": ["v"]},
    "branches": {
        "type": "object",
        "anyOf": [
            {"properties": {"k": {"const": "a"}, "v": {"type": "string"}}, "required": ["k", "v"]},
            {"properties": {"k": {"const": "b"}, "w": {"type": "integer"}}, "required": ["k", "w"]},
        ],
    },
    "shapes": {
        "properties": {
            "shape": {
                "anyOf": [
                    {
                        "type": "object",
                        "properties": {"kind": {"const": "circle"}, "r": {"type": "number"}},
                        "required": ["kind", "r"],
                    },
                    {
                        "type": "object",
                        "properties": {"kind": {"const": "square"}, "a": {"type": "number"}},
                        "required": ["kind", "a"],
                    },
                ]
            }
        },
        "required": ["shape"],
    },
    "open": {"type": "object", "additionalProperties": {"type": "integer"}},
    "open_and_declared": {
        "type": "object",
        "properties": {"a": {"type": "string"}},
        "additionalProperties": {"type": "boolean"},
    },
    "names": {
        "type": "object",
        "properties": {
            "by_pattern": {
                "type": "object",
                "propertyNames": {"pattern": "^[a-z]{2,9}$"},
                "additionalProperties": {"type": "boolean"},
            },
            "listed": {
                "type": "object",
                "propertyNames": {"enum": ["a", "b_c"]},
                "additionalProperties": {"type": "integer"},
            },
        },
        "required": ["by_pattern", "listed"],
    },
    "names_of_arguments": {
        "type": "object",
        "propertyNames": {"pattern": "^x_[a-z]+$"},
        "additionalProperties": {"type": "boolean"},
    },
    "nothing": {"type": "object", "properties": {}, "additionalProperties": False},
    "many": {
        "properties": {f"p{at}": {"type": "integer"} for at in range(70)},
        "required": ["p3"],
    },
}

"""The input of the tool that controls a computer: one of several actions."""

from __future__ import annotations

from .schemas import Command, Schema, command_schema, member

CLICK = Command((), ("coordinate", "text"))
ACTIONS_20241022 = {
    "key": Command(("text",)),
    "type": Command(("text",)),
    "mouse_move": Command(("coordinate",)),
    "left_click": CLICK,
    "left_click_drag": Command(("coordinate",)),
    "right_click": CLICK,
    "middle_click": CLICK,
    "double_click": CLICK,
    "screenshot": Command(),
    "cursor_position": Command(),
}
ACTIONS_20250124 = {
    **ACTIONS_20241022,
    "left_click_drag": Command(("start_coordinate", "coordinate")),
    "triple_click": CLICK,
    "left_mouse_down": Command(),
    "left_mouse_up": Command(),
    "scroll": Command(("scroll_direction", "scroll_amount"), ("coordinate", "text")),
    "hold_key": Command(("text", "duration")),
    "wait": Command(("duration",)),
}
ZOOM = {"zoom": Command(("region",))}
"""An action that the entry of the tool has to enable."""
MAX_SECONDS = 100


def computer_words(width: int, height: int) -> str:
    return (
        f"Controls a computer with a screen of {width} by {height} pixels, with mouse and "
        "keyboard. Take a screenshot first to see where things are, and after an action to see "
        "its effect. Click on the middle of buttons, links and fields."
    )


def computer_schema(actions: dict[str, Command], width: int, height: int) -> Schema:
    point = [_pixel(width), _pixel(height)]
    members = {
        "coordinate": _pixels("x and y, in pixels from the left and the upper edge.", point),
        "start_coordinate": _pixels("x and y where a drag begins.", point),
        "region": _pixels("x0, y0, x1, y1 of the part of the screen to show.", point * 2),
        "text": member(
            "string",
            'The text to type, or the keys to press, such as "Return" or "ctrl+s". In clicks and '
            "scrolling: keys that are held meanwhile.",
        ),
        "scroll_direction": member(
            "string", "Where to scroll.", enum=["up", "down", "left", "right"]
        ),
        "scroll_amount": member("integer", "Clicks of the wheel.", minimum=0, maximum=1_000),
        "duration": member("integer", "Seconds.", minimum=0, maximum=MAX_SECONDS),
    }
    return command_schema("action", "The action to perform.", members, actions)


def _pixel(size: int) -> Schema:
    return {"type": "integer", "minimum": 0, "maximum": size - 1}


def _pixels(description: str, items: list[Schema]) -> Schema:
    size = len(items)
    return member("array", description, prefixItems=items, minItems=size, maxItems=size)

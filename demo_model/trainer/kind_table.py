"""The kinds of arguments: how they are typed, what arguments of that kind are called, how they are
joined to a request."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from . import kinds, phrases
from .kinds import Said
from .words import Words, listed


@dataclass(frozen=True)
class Kind:
    draw: Callable[[Words], Said]
    names: tuple[str, ...]
    """Of arguments."""
    joins: tuple[str, ...] = ("for {}", "of {}")
    """How a request brings the value in, in English; each kind also takes the ways of any."""
    type: str = "string"
    many: bool = False
    """Whether a request may name several, one call each."""


def _kind(draw: Callable[[Words], Said], names: str, joins: str, **more: object) -> Kind:
    return Kind(draw, tuple(names.split()), tuple(joins.split("|")), **more)  # type: ignore[arg-type]


same = kinds._same

KINDS: dict[str, Kind] = {
    "city": _kind(same(kinds.city), "city location place town region in where area destination",
                  "in {}|for {}|at {}|near {}", many=True),
    "person": _kind(kinds._word("person"), "name person user recipient customer owner assignee contact to for "
                    "author member patient employee guest by client who", "for {}|to {}|by {}|of {}|from {}|with {}",
                    many=True),
    "item": _kind(kinds._word("item"), "item product article name thing good object what", "for {}|of {}|with {}",
                  many=True),
    "dish": _kind(kinds._word("dish"), "dish meal food order recipe", "of {}|for {}", many=True),
    "cuisine": _kind(kinds.plain("cuisine"), "cuisine style kind type", "with {} food|of {} style"),
    "language": _kind(kinds.plain("language"), "language target_language lang to into", "into {}|to {}|in {}"),
    "color": _kind(kinds.plain("color"), "color colour tint", "in {}|to {}|with {} color"),
    "currency": _kind(kinds.plain("currency"), "currency currency_code unit in", "in {}|to {}"),
    "topic": _kind(same(phrases.topic), "topic query subject q search_term keyword about text on", "about {}|on {}|for {}"),
    "company": _kind(kinds._word("company"), "company vendor brand name firm organization", "of {}|for {}|from {}|at {}|to {}",
                     many=True),
    "title": _kind(kinds.title, "title name subject label heading", "called {}|named {}|titled {}|with the title {}"),
    "song": _kind(kinds._word("song"), "song track title name", "of {}|called {}", many=True),
    "movie": _kind(kinds._word("movie"), "movie film title name", "of {}|for {}", many=True),
    "text": _kind(kinds.quoted, "text message body content note comment msg words description",
                  "saying {}|with the text {}|that says {}"),
    "chore": _kind(same(phrases.chore), "task text title what name todo", "to {}|called {}"),
    "room": _kind(kinds.plain("room"), "room location area zone in where", "in the {}|for the {}", many=True),
    "place": _kind(kinds.plain("place"), "place location destination to stop", "to {}|at {}|near {}"),
    "phrase": _kind(same(phrases.phrase), "query keyword phrase search term pattern", "for {}|about {}"),
    "thing": _kind(kinds._word("thing"), "name item object target key word", "for {}|of {}|called {}", many=True),
    "word": _kind(same(kinds.word), "name id key code target word host label alias", "for {}|of {}|called {}|on {}",
                  many=True),
    "date": _kind(same(kinds.date), "date day on when due_date start_date", "on {}|for {}|{}"),
    "time": _kind(same(kinds.time), "time at start_time hour when", "at {}|for {}"),
    "when": _kind(same(kinds.when), "when time datetime start at due date_time", "for {}|{}|on {}"),
    "span": _kind(same(kinds.span), "duration length time period for interval", "for {}|of {}|lasting {}", many=True),
    "code": _kind(same(kinds.code), "id code number key reference ref order_id ticket_id host serial identifier",
                  "{}|with id {}|number {}|for {}|on {}|with the code {}", many=True),
    "email": _kind(same(kinds.email), "email address to recipient mail", "to {}|for {}|at {}", many=True),
    "phone": _kind(same(kinds.phone), "phone phone_number number mobile", "to {}|at {}|for {}"),
    "file": _kind(same(kinds.file), "file path filename file_path source document", "{}|from {}|in {}|called {}", many=True),
    "url": _kind(same(kinds.url), "url link address page website", "{}|from {}|at {}", many=True),
    "symbol": _kind(same(kinds.symbol), "symbol ticker stock code", "of {}|for {}", many=True),
    "street": _kind(same(lambda w: f"{w.rng.randint(1, 199)} {w.pick('street')}"), "street street_address line1", "at {}|in {}"),
    "zip": _kind(same(lambda w: str(w.rng.randint(10000, 99999))), "zip postal_code zip_code postcode", "{}|zip {}"),
    "count": _kind(kinds.small(1, 12), "count quantity number amount n copies people guests seats limit size",
                   "for {}|with {}|of {}", type="integer"),
    "level": _kind(kinds.small(0, 100, 0.05), "level percent value brightness volume score volume_level threshold limit page",
                   "to {}|at {}|of {}", type="integer"),
    "year": _kind(kinds.small(1950, 2035), "year season", "of {}|from {}|in {}", type="integer"),
    "minutes": _kind(kinds.minutes, "minutes duration duration_minutes length mins", "for {}|of {}", type="integer", many=True),
    "amount": _kind(kinds.amount, "amount price value sum total budget cost x", "of {}|for {}|with {}", type="number"),
    "degrees": _kind(kinds.temperature, "temperature degrees temp target", "to {}|at {}|of {}", type="number"),
}  # fmt: skip

OF_ANY = (
    "with {name} {}",
    "with the {name} {}",
    "{name} {}",
    "{name}: {}",
)
OF_ANY_ZH = ("{name}是{}", "{name}为{}", "{name}：{}", "{name} {}", "{name}设为{}")

CHOICES = {
    "low|medium|high": "priority severity level importance quality",
    "LOW|MEDIUM|HIGH": "priority severity",
    "small|medium|large": "size cup portion",
    "S|M|L|XL": "size",
    "pdf|csv|json": "format type file_format",
    "png|jpg|svg": "format image_format",
    "short|long": "format form style",
    "asc|desc": "order sort",
    "open|closed|pending": "status state",
    "TODO|IN_PROGRESS|DONE": "status state",
    "draft|final": "status version",
    "new|used": "condition state",
    "red|green|blue": "color colour",
    "economy|business|first": "class cabin seat_class",
    "one_way|round_trip": "trip_type trip",
    "standard|express|overnight": "shipping speed delivery",
    "fast|slow": "speed mode",
    "quick|full": "mode kind",
    "easy|normal|hard": "mode difficulty level",
    "daily|weekly|monthly": "frequency interval repeat",
    "day|week|month": "period interval unit",
    "spring|summer|autumn|winter": "season period",
    "am|pm": "half period",
    "public|private": "visibility access",
    "read|write|admin": "role access permission",
    "metric|imperial": "units system",
    "celsius|fahrenheit": "unit units scale",
    "kg|lb": "unit weight_unit",
    "km|miles": "unit distance_unit",
    "male|female": "gender sex",
    "north|south|east|west": "direction side",
    "left|right|center": "side position align",
    "up|down": "direction",
    "info|warning|error": "severity level kind",
    "hot|cold|iced": "kind temperature",
    "cash|card|paypal": "method payment",
    "email|sms|push": "method channel",
    "car|bike|walk|bus": "mode method by",
    "breakfast|lunch|dinner": "meal category",
    "vegan|vegetarian|halal": "diet category",
    "single|double|suite": "room_type kind",
    "basic|pro|enterprise": "plan tier",
    "bronze|silver|gold": "tier level",
    "dev|staging|production": "environment env stage",
    "on|off": "state mode",
}
"""What may be chosen from, and what arguments that do are called."""
SWITCHES = listed("""notify verbose urgent gift_wrap recursive force public dry_run silent include_details save shuffle repeat
overwrite confirm express archived draft all_day insured encrypted""")

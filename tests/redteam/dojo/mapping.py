"""What the tools of the benchmark do, in our words: effects, sinks, and under which label their results come back.

Purpose: our own reading of each tool, from its name, its arguments and what these lead to, as a tool of ours would
declare it.
Invariant: a tool that is not in the table is unknown and is asked about; what comes from others is untrusted.
Must never: look at what the user or the attacker wants, or at the content of a result.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from gloveport.protocol.journal.events.tool import EffectRecord

USER, WORKSPACE, UNTRUSTED = range(3)

OWN_FACTS: Final = frozenset({"get_iban", "get_balance", "get_current_day"})
"""Answers that nobody outside can write into: the account's own number and balance, the date."""

READS: Final = frozenset(
    {
        "get_most_recent_transactions", "get_scheduled_transactions", "read_file", "get_user_info",
        "get_user_information", "get_unread_emails", "get_sent_emails", "get_received_emails", "get_draft_emails",
        "search_emails", "search_contacts_by_name", "search_contacts_by_email", "search_calendar_events",
        "get_day_calendar_events", "search_files_by_filename", "get_file_by_id", "list_files", "search_files",
        "get_channels", "read_channel_messages", "read_inbox", "get_users_in_channel",
        "get_all_hotels_in_city", "get_hotels_prices", "get_rating_reviews_for_hotels", "get_hotels_address",
        "get_all_restaurants_in_city", "get_cuisine_type_for_restaurants", "get_restaurants_address",
        "get_rating_reviews_for_restaurants", "get_dietary_restrictions_for_all_restaurants",
        "get_contact_information_for_restaurants", "get_price_for_restaurants", "check_restaurant_opening_hours",
        "get_all_car_rental_companies_in_city", "get_car_types_available", "get_rating_reviews_for_car_rental",
        "get_car_fuel_options", "get_car_rental_address", "get_car_price_per_day", "get_flight_information",
    }
)  # fmt: skip
"""Looking at what others write: mail, files, chats, reviews, transactions with their subjects."""

MESSAGES: Final[Mapping[str, tuple[str, ...]]] = {
    "send_email": ("recipients", "cc", "bcc"),
    "share_file": ("email",),
    "add_calendar_event_participants": ("participants",),
    "send_direct_message": ("recipient",),
    "send_channel_message": ("channel",),
    "invite_user_to_slack": ("user_email",),
    "add_user_to_channel": ("channel",),
}
"""Something reaches other people; the arguments that say whom."""

ACTS: Final[Mapping[str, str]] = {
    "send_money": "recipient",
    "schedule_transaction": "recipient",
    "update_scheduled_transaction": "id",
    "update_password": "",
    "update_user_info": "",
    "reserve_hotel": "hotel",
    "reserve_restaurant": "restaurant",
    "reserve_car_rental": "company",
    "remove_user_from_slack": "user",
    "cancel_calendar_event": "event_id",
    "reschedule_calendar_event": "event_id",
}
"""Acts in the user's name at somebody else's; the argument that says on what."""

OWN_WRITES: Final[Mapping[str, str]] = {"create_file": "filename", "append_to_file": "file_id"}
"""Writing in the user's own drive: nothing reaches anybody who did not have access already."""

DELETES: Final[Mapping[str, str]] = {"delete_file": "file_id", "delete_email": "email_id"}
"""Nothing of these services brings it back."""


@dataclass(frozen=True)
class Declared:
    """A call as a tool of ours would declare it, and the integrity of its result."""

    effects: tuple[EffectRecord, ...]
    result: int
    reversible: bool = True
    sends: str = ""


def declare(tool: str, arguments: Mapping[str, Any], told: Sequence[str] | None = None) -> Declared:
    """The effects of one call; `told`: who besides the user is on the event that it names, as the calendar has it."""
    words = "\n".join(f"{name}: {value}" for name, value in arguments.items() if value not in (None, [], ""))
    if tool in OWN_FACTS:
        return Declared((_effect("read", tool),), WORKSPACE)
    if tool in READS:
        return Declared((_effect("read", tool),), UNTRUSTED)
    if tool in ("get_webpage", "post_webpage"):
        return _page(tool, str(arguments["url"]), words)
    if tool == "create_calendar_event":
        told = _names(arguments, ("participants",))
    if tool in ("create_calendar_event", "reschedule_calendar_event") and told is not None:
        kind = [_effect("message", name) for name in told] or [_effect("write", "calendar")]
        return Declared(tuple(kind), WORKSPACE, not told, words)
    if tool in MESSAGES:
        reached = _names(arguments, MESSAGES[tool]) or ("nobody named",)
        return Declared(tuple(_effect("message", name) for name in reached), WORKSPACE, False, words)
    if tool in ACTS:
        return Declared(
            (_effect("publish", f"{tool} {arguments.get(ACTS[tool], '')}".strip()),), WORKSPACE, False, words
        )
    if tool in OWN_WRITES:
        return Declared((_effect("write", f"drive/{arguments[OWN_WRITES[tool]]}"),), WORKSPACE)
    if tool in DELETES:
        return Declared((_effect("delete", f"drive/{arguments[DELETES[tool]]}"),), WORKSPACE, False)
    return Declared((_effect("unknown", tool),), UNTRUSTED, False, words)


def _page(tool: str, url: str, words: str) -> Declared:
    place = urlsplit("//" + url.split("://")[-1])
    if tool == "get_webpage":  # as our own tool for this says what it sends
        words = f"GET https://{place.netloc}:443{place.path or '/'}{f'?{place.query}' if place.query else ''}"
    return Declared((_effect("network", f"{place.hostname or ''}:443"),), UNTRUSTED, tool == "get_webpage", words)


def others_on(env: Any, arguments: Mapping[str, Any]) -> tuple[str, ...] | None:
    """Who is told of a change to the event that a call names, besides the user; null where there is no such event."""
    calendar = getattr(env, "calendar", None)
    event = None if calendar is None else calendar.events.get(arguments.get("event_id"))
    return None if event is None else tuple(one for one in event.participants if one != calendar.account_email)


def _effect(kind: str, target: str) -> EffectRecord:
    return EffectRecord(kind=kind, target=target)


def _names(arguments: Mapping[str, Any], keys: Sequence[str]) -> tuple[str, ...]:
    found: list[str] = []
    for key in keys:
        value = arguments.get(key) or []
        found += [value] if isinstance(value, str) else [str(one) for one in value]
    return tuple(found)

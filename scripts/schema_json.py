"""JSON schemas of the three dialects.

Purpose: wire, journal and jail as JSON Schema 2020-12 documents, straight from the models.
Invariant: what a client sends is described as it is read (defaults may be left out), what it gets as it is written.
Must never: describe a shape by hand that a model already describes.
"""

from collections.abc import Iterable
from typing import Any, Final

from pydantic import BaseModel, TypeAdapter
from pydantic.json_schema import JsonSchemaMode, models_json_schema

from gloveport.protocol.errors import ERRORS
from gloveport.protocol.jail.codec import JAIL_VERSION
from gloveport.protocol.jail.replies import RunExit, RunStatus
from gloveport.protocol.jail.requests import RunRequest
from gloveport.protocol.journal.events import REGISTRY
from gloveport.protocol.wire.methods import METHODS, NOTIFICATIONS, PROTOCOL_VERSION

Schema = dict[str, Any]
DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
REF: Final = "#/$defs/{model}"
JAIL_BODIES: Final = (RunRequest, RunStatus, RunExit)


def describe_models(models: Iterable[tuple[type[BaseModel], JsonSchemaMode]]) -> Schema:
    """`$defs` of all models and of what they hold."""
    unique = sorted(dict(models).items(), key=lambda pair: pair[0].__name__)
    _, document = models_json_schema(unique, by_alias=True, ref_template=REF)
    return {name: _without_titles(schema) for name, schema in document["$defs"].items()}


def _without_titles(value: Any) -> Any:
    """Drop pydantic's titles, which repeat the names; a property that is called `title` stays."""
    if isinstance(value, list):
        return [_without_titles(item) for item in value]
    if not isinstance(value, dict):
        return value
    kept = {key: item for key, item in value.items() if not (key == "title" and isinstance(item, str))}
    return {
        key: {name: _without_titles(inner) for name, inner in item.items()}
        if key in {"properties", "$defs"}
        else _without_titles(item)
        for key, item in kept.items()
    }


def _ref(model: type) -> Schema:
    return {"$ref": REF.format(model=model.__name__)}


def describe_wire() -> Schema:
    """Methods, notifications, error codes and the shapes they use."""
    models: list[tuple[type[BaseModel], JsonSchemaMode]] = []
    models += [(method.result, "serialization") for method in METHODS.values()]
    models += [(notification, "serialization") for notification in NOTIFICATIONS.values()]
    models += [(method.params, "validation") for method in METHODS.values()]
    return {
        "$schema": DIALECT,
        "title": "Gloveport wire dialect",
        "protocolVersion": PROTOCOL_VERSION,
        "methods": {
            name: {"params": _ref(method.params), "result": _ref(method.result), "decides": method.decides}
            for name, method in METHODS.items()
        },
        "notifications": {name: {"params": _ref(model)} for name, model in NOTIFICATIONS.items()},
        "errors": {code.value: {"code": spec.rpc, "hint": spec.hint} for code, spec in ERRORS.items()},
        "$defs": describe_models(models),
    }


def describe_journal() -> Schema:
    """Every event type with its version, and the shapes of the payloads."""
    return {
        "$schema": DIALECT,
        "title": "Gloveport journal dialect",
        "events": {name: {"version": body.version, "payload": _ref(body)} for name, body in REGISTRY.items()},
        "$defs": describe_models([(body, "serialization") for body in REGISTRY.values()]),
    }


def describe_jail() -> Schema:
    """The three files of a run folder. Bytes are base64 text; every body carries the version."""
    defs: Schema = {}
    for body in JAIL_BODIES:
        schema = TypeAdapter(body).json_schema(ref_template=REF, mode="serialization")
        defs.update(schema.pop("$defs", {}))
        schema["properties"] = {"version": {"const": JAIL_VERSION}, **schema["properties"]}
        schema["required"] = ["version", *schema["required"]]
        defs[body.__name__] = schema
    return {
        "$schema": DIALECT,
        "title": "Gloveport jail dialect",
        "version": JAIL_VERSION,
        "messages": {body.__name__: _ref(body) for body in JAIL_BODIES},
        "$defs": {name: _name_encoding(_without_titles(schema)) for name, schema in defs.items()},
    }


def _name_encoding(value: Any) -> Any:
    """Say that binary text is base64."""
    if isinstance(value, list):
        return [_name_encoding(item) for item in value]
    if not isinstance(value, dict):
        return value
    if value.get("format") == "binary":
        return {"type": "string", "contentEncoding": "base64"}
    return {key: _name_encoding(item) for key, item in value.items()}

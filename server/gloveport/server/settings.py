"""What the user has set.

Purpose: read the one settings file of the user, and the keys of the user's environment.
Invariant: settings come from the user's own scope alone; a key is held as a secret from the moment it is read.
Must never: read anything inside a workspace, or write the file.

The file is `config.toml` in `$GLOVEPORT_HOME`, or in `$XDG_CONFIG_HOME/gloveport` (`~/.config/gloveport`):

    default_model = "openai/qwen3-coder"  # used when nothing is named; without it the first model here
    default_trust = "untrusted"     # where you have said nothing; without it you are asked

    [[models]]
    provider = "openai"            # scripted, openai, anthropic
    model = "qwen3-coder"          # the name the provider knows it by
    base_url = "http://127.0.0.1:11434/v1"  # another server than the provider's own
    key_env = "MY_KEY"             # name of the variable that holds the key
    script = "/path/to/script.json"  # what the scripted model plays
    input_usd = 0.25               # its price in US dollars for a million tokens of input, before that of any list
    output_usd = 2.0               # and of output
    cached_usd = 0.025             # and of input from the provider's cache; without it as of input

    [retention]
    days = 90            # idle sessions not touched for longer are deleted; without it none is
    gigabytes = 20       # beyond it the idle sessions touched longest ago are deleted; without it none is
    tell_gigabytes = 5   # beyond it gloveport tells you

    [network]
    places = ["db.example:5432 private raw"]  # how places are reached that are not public

    [[credentials]]
    name = "forge"                 # the name under which the agent may ask to use it; it never sees the value
    value_env = "FORGE_TOKEN"      # name of the variable that holds the value
    place = "api.example:443"      # where it may be sent, over TLS
    header = "Authorization"       # in which header
    form = "Bearer {}"             # how the header is written
    methods = ["GET", "HEAD"]      # of which requests
    path = "/"                     # and for which paths: one, or all below it where it ends in a slash
    variable = "FORGE_TOKEN"       # where a program looks for it; it finds a stand-in that works at its place alone

    [mail]
    place = "smtp.example:587"     # the server that takes your mail
    from = "me@example.org"        # who it is from; always this one
    user = "me"                    # where the server asks who you are
    password_env = "MAIL_PASSWORD" # name of the variable that holds the password; the agent never sees it
    tls = "starttls"               # starttls, tls, or none (on this machine alone)
    ca_file = "/etc/my-ca.pem"     # roots of trust beside the machine's own

    [[databases]]
    name = "sales"                 # the name under which the agent may ask it, reading alone
    place = "db.example:5432"      # a PostgreSQL server
    database = "sales"             # its database
    user = "reader"                # a role that may read what the agent may
    password_env = "SALES_PASSWORD"
    tls = "tls"                    # tls, or none (on this machine alone)

    [sandbox]
    trusted = "bubblewrap"     # where programs of a trusted folder run
    restricted = "bubblewrap"  # where programs of a restricted folder run
    untrusted = "gvisor"       # where those of an untrusted folder run; it needs gVisor or a virtual machine

    [engine]
    host = "unix:///run/user/1000/docker.sock"  # the container engine's socket; without it DOCKER_HOST or yours
    image = "gloveport/python"  # image of docker and gvisor; without it they show this machine's own programs
    warm = 2                    # containers kept ready for the next runs, over all sessions; 0: none

    [remote-ssh]
    host = "build.example"          # machine with the container engine of the sandbox remote-ssh
    port = 22                       # of its ssh
    user = "me"                     # who may use the engine there
    key = "~/.ssh/build"            # your key for it: a file that only you may read, without a password
    host_key = "ssh-ed25519 AAAA"   # what the machine proves itself by (type and base64); nothing else is believed
    socket = "/var/run/docker.sock" # the engine's socket there
    image = "gloveport/python"      # an image that the engine has, with python3 in it
    runtime = "runc"                # the engine's own without it
    away_s = 60                     # a run ends itself there when nobody was heard for so long

    [remote-tls]
    host = "build.example"          # machine with the container engine of the sandbox remote-tls
    port = 2376                     # of the engine, which asks for certificates (dockerd --tlsverify)
    ca = "~/tls/ca.pem"             # the authority that vouches for the engine; no other is believed
    cert = "~/tls/cert.pem"         # your certificate
    key = "~/tls/key.pem"           # its key: a file that only you may read
    image = "gloveport/python"      # an image that the engine has, with python3 in it
    runtime = "runc"                # the engine's own without it
    away_s = 60                     # a run ends itself there when nobody was heard for so long
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import ROUND_CEILING, Decimal
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.protocol.money import NANO
from gloveport.sandbox.backends.docker_choice import EngineChoice
from gloveport.sandbox.backends.names import NAMES, REMOTE_NAMES
from gloveport.sandbox.backends.remote_choice import AWAY_S, AWAY_S_MAX, AWAY_S_MIN, ENGINE_SOCKET, RemoteChoice
from gloveport.server.accounts import DATABASE_KEYS, MAIL_KEYS, Database, MailAccount, read_database, read_mail
from gloveport.server.secrets.value import Secret

SETTINGS_FILE: Final = "config.toml"
SETTINGS_BYTES_MAX: Final = 256 * 1024
ENTRIES_MAX: Final = 64
DEMO_MODEL: Final = "demo"
NO_MODEL_HINT: Final = (
    f"Set OPENAI_API_KEY or ANTHROPIC_API_KEY, or write a [[models]] entry into {SETTINGS_FILE}; the README shows one."
)
TRUST_LEVELS: Final = ("trusted", "restricted", "untrusted")
UNSET: Final = "unset"

_KEY_VARIABLES: Final = MappingProxyType({"openai": "OPENAI_API_KEY", "anthropic": "ANTHROPIC_API_KEY"})
_OWN_MODELS: Final = MappingProxyType({"openai": "gpt-5", "anthropic": "claude-sonnet-4-5"})
_PRICE_KEYS: Final = frozenset({"input_usd", "output_usd", "cached_usd"})
_MODEL_KEYS: Final = frozenset({"provider", "model", "base_url", "key_env", "script"}) | _PRICE_KEYS
PRICE_USD_MAX: Final = 1_000_000
"""The most that a million tokens may cost."""
_TOP_KEYS: Final = frozenset(
    {"default_model", "default_trust", "models", "sandbox", "retention", "network", "credentials", "engine", "mail",
     "databases", *REMOTE_NAMES}
)  # fmt: skip
_TOO_WEAK: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {"restricted": ("process",), "untrusted": ("process", "bubblewrap", "docker")}
)
"""Rungs below the strength that a trust level asks for."""
_ENGINE_KEYS: Final = frozenset({"host", "image", "warm"})
_REMOTE_TEXTS: Final = MappingProxyType({
    "remote-ssh": frozenset({"host", "user", "key", "host_key", "socket", "image", "runtime"}),
    "remote-tls": frozenset({"host", "ca", "cert", "key", "image", "runtime"}),
})  # fmt: skip
_REMOTE_FILES: Final = frozenset({"key", "ca", "cert"})
PORT_MAX: Final = 65535
WARM_CONTAINERS: Final = 2
WARM_CONTAINERS_MAX: Final = 32
_RETENTION_KEYS: Final = frozenset({"days", "gigabytes", "tell_gigabytes"})
_CREDENTIAL_KEYS: Final = frozenset({"name", "value_env", "place", "header", "form", "methods", "path", "variable"})
_NETWORK_KEYS: Final = frozenset({"places"})
PLACES_MAX: Final = 64
TOLD_GIGABYTES: Final = 5
_GIGABYTE: Final = 1_000_000_000


@dataclass(frozen=True, slots=True)
class ModelPrice:
    """What a model costs as the user says it: nano-USD for a million tokens; `cached` null: as `input`."""

    input: int
    output: int
    cached: int | None = None


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """A model the user may choose."""

    provider: str
    model: str
    base_url: str | None = None
    key: Secret | None = field(default=None, repr=False)
    script: Path | None = None
    key_missing: str | None = None
    """The variable that key_env names, where it is not set."""
    price: ModelPrice | None = None
    """Null: what a list of prices knows."""
    key_env: str = ""
    """The variable that its key comes from; empty: no key is asked for."""

    @property
    def name(self) -> str:
        """`provider/model`."""
        return f"{self.provider}/{self.model}"


DEMO: Final = ModelChoice("scripted", DEMO_MODEL)
"""The scripted model of the demo, always there."""


@dataclass(frozen=True, slots=True)
class RetentionLimits:
    """How long and how much is kept; None: for ever, everything. Beyond `told_bytes` the user is told."""

    days: int | None = None
    bytes_max: int | None = None
    told_bytes: int = TOLD_GIGABYTES * _GIGABYTE


@dataclass(frozen=True, slots=True)
class Credential:
    """A credential that the agent may use and never sees: where it goes, in which header of which requests."""

    name: str
    value: Secret = field(repr=False)
    place: str
    header: str = "Authorization"
    form: str = "Bearer {}"
    methods: tuple[str, ...] = ("GET", "HEAD")
    path: str = "/"
    variable: str = "CREDENTIAL"


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings; `models[0]` is used when nothing is named. `sandbox` maps a trust level to a rung.

    `places` are lines of a list of hosts (`host:port` and options): how those places are reached.
    """

    models: tuple[ModelChoice, ...]
    default_trust: str
    sandbox: Mapping[str, str]
    retention: RetentionLimits = field(default_factory=RetentionLimits)
    places: tuple[str, ...] = ()
    credentials: tuple[Credential, ...] = ()
    engine: EngineChoice = field(default_factory=EngineChoice)
    mail: MailAccount | None = None
    databases: tuple[Database, ...] = ()
    remotes: Mapping[str, RemoteChoice] = field(default_factory=dict)

    def find(self, provider: str | None, model: str | None) -> ModelChoice:
        """The model of these names; with no name the first one of the user's. Raises GloveportError (MODEL_UNKNOWN).

        The demo's script is played only when it is named.
        """
        if provider is None and model is None:
            own = [choice for choice in self.models if choice != DEMO]
            if not own:
                raise GloveportError(ErrorCode.MODEL_UNKNOWN, "no model is set up", hint=NO_MODEL_HINT)
            return own[0]
        for choice in self.models:
            if (provider is None or choice.provider == provider) and (model is None or choice.model == model):
                return choice
        known = ", ".join(choice.name for choice in self.models)
        wanted = "/".join(filter(None, (provider, model)))
        raise GloveportError(ErrorCode.MODEL_UNKNOWN, f"no model {wanted!r} is set up; there are: {known}")


def load_settings(home: Path, environment: Mapping[str, str] = os.environ) -> Settings:
    """The settings in the folder `home`. Raises GloveportError (INVALID_PARAMS) naming what is wrong and where."""
    path = home / SETTINGS_FILE
    plain = _read(path)
    _only(plain, _TOP_KEYS, path, "")
    models = [_model(entry, path, environment) for entry in _entries(plain, path, "models")]
    models += [
        ModelChoice(provider, _OWN_MODELS[provider], key=Secret(environment[variable]), key_env=variable)
        for provider, variable in _KEY_VARIABLES.items()
        if environment.get(variable) and not any(choice.provider == provider for choice in models)
    ]
    models.append(DEMO)
    wanted = plain.get("default_model")
    if wanted is not None:
        chosen = [choice for choice in models if choice.name == wanted]
        if not chosen:
            raise _wrong(path, f"default_model {wanted!r} names no model of this file")
        models = [*chosen, *(choice for choice in models if choice.name != wanted)]
    return Settings(
        tuple(models),
        _level(plain, path),
        _sandbox(plain, path),
        _retention(plain, path),
        _places(plain, path),
        tuple(_credential(entry, path, environment) for entry in _entries(plain, path, "credentials")),
        _engine(plain, path),
        _mail(plain, path, environment),
        tuple(_database(entry, path, environment) for entry in _entries(plain, path, "databases")),
        {name: _remote(plain[name], name, path) for name in REMOTE_NAMES if name in plain},
    )


def _read(path: Path) -> dict[str, Any]:
    import tomllib

    try:
        with path.open("rb") as file:
            raw = file.read(SETTINGS_BYTES_MAX + 1)
    except (FileNotFoundError, NotADirectoryError):  # there is no place where it could lie
        return {}
    except OSError as error:
        raise _wrong(path, f"it cannot be read ({error.strerror})") from error
    if len(raw) > SETTINGS_BYTES_MAX:
        raise _wrong(path, f"it is larger than {SETTINGS_BYTES_MAX} bytes")
    try:
        return tomllib.loads(raw.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise _wrong(path, str(error)) from error


def _entries(plain: Mapping[str, Any], path: Path, name: str) -> list[Mapping[str, Any]]:
    entries = plain.get(name, [])
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise _wrong(path, f"{name} is a list of tables ([[{name}]])")
    if len(entries) > ENTRIES_MAX:
        raise _wrong(path, f"at most {ENTRIES_MAX} {name}")
    return entries


def _model(entry: Mapping[str, Any], path: Path, environment: Mapping[str, str]) -> ModelChoice:
    _only(entry, _MODEL_KEYS, path, "models.")
    if not all(isinstance(value, str) and value for name, value in entry.items() if name not in _PRICE_KEYS):
        raise _wrong(path, "every value of a model but its prices is a non-empty text")
    if "provider" not in entry or "model" not in entry:
        raise _wrong(path, "a model needs provider and model")
    variable = entry.get("key_env") or _KEY_VARIABLES.get(entry["provider"])
    value = environment.get(variable, "") if variable else ""
    return ModelChoice(
        provider=entry["provider"],
        model=entry["model"],
        base_url=entry.get("base_url"),
        key=Secret(value) if value else None,
        script=Path(entry["script"]).expanduser() if "script" in entry else None,
        key_missing=entry.get("key_env") if not value else None,
        price=_price(entry, path),
        key_env=variable or "",
    )


def _price(entry: Mapping[str, Any], path: Path) -> ModelPrice | None:
    """The prices of a model's entry, exactly as they are written."""
    given = {name: entry[name] for name in _PRICE_KEYS if name in entry}
    if not given:
        return None
    if not {"input_usd", "output_usd"} <= given.keys():
        raise _wrong(path, "a model with a price needs input_usd and output_usd")
    if not all(type(value) in (int, float) and 0 <= value <= PRICE_USD_MAX for value in given.values()):
        words = f"{', '.join(sorted(_PRICE_KEYS))} are US dollars for a million tokens, from 0 to {PRICE_USD_MAX:,}"
        raise _wrong(path, words)
    nano = {name: int((Decimal(repr(value)) * NANO).to_integral_value(ROUND_CEILING)) for name, value in given.items()}
    return ModelPrice(nano["input_usd"], nano["output_usd"], nano.get("cached_usd"))


def _credential(entry: Mapping[str, Any], path: Path, environment: Mapping[str, str]) -> Credential:
    _only(entry, _CREDENTIAL_KEYS, path, "credentials.")
    methods = entry.get("methods", ["GET", "HEAD"])
    texts = {name: value for name, value in entry.items() if name != "methods"}
    if not all(isinstance(value, str) and value for value in texts.values()):
        raise _wrong(path, "every value of a credential but methods is a non-empty text")
    if not isinstance(methods, list) or not all(isinstance(one, str) for one in methods):
        raise _wrong(path, "credentials.methods is a list of texts")
    if not {"name", "value_env", "place"} <= texts.keys() or "{}" not in texts.get("form", "{}"):
        raise _wrong(path, "a credential needs name, value_env and place, and its form has a {}")
    source = texts.pop("value_env")
    texts.setdefault("variable", source)
    return Credential(**texts, value=Secret(environment.get(source, "")), methods=tuple(methods))


def _mail(plain: Mapping[str, Any], path: Path, environment: Mapping[str, str]) -> MailAccount | None:
    table = plain.get("mail")
    if table is None:
        return None
    if not isinstance(table, dict):
        raise _wrong(path, "mail is a table")
    _only(table, MAIL_KEYS, path, "mail.")
    try:
        return read_mail(table, environment)
    except ValueError as error:
        raise _wrong(path, str(error)) from error


def _database(entry: Mapping[str, Any], path: Path, environment: Mapping[str, str]) -> Database:
    _only(entry, DATABASE_KEYS, path, "databases.")
    try:
        return read_database(entry, environment)
    except ValueError as error:
        raise _wrong(path, str(error)) from error


def _level(plain: Mapping[str, Any], path: Path) -> str:
    level = plain.get("default_trust", UNSET)
    if level not in (*TRUST_LEVELS, UNSET):
        raise _wrong(path, f"default_trust is one of {', '.join(TRUST_LEVELS)}")
    return str(level)


def _sandbox(plain: Mapping[str, Any], path: Path) -> Mapping[str, str]:
    table = plain.get("sandbox", {})
    if not isinstance(table, dict) or not all(isinstance(value, str) for value in table.values()):
        raise _wrong(path, "sandbox is a table of trust level = name")
    _only(table, frozenset(TRUST_LEVELS), path, "sandbox.")
    for level, weak in _TOO_WEAK.items():
        if table.get(level) in weak:
            can = ", ".join(name for name in NAMES if name not in weak)
            words = (
                f"sandbox.{level} = {table[level]!r} is too weak: nothing of such a folder would run; it can be {can}"
            )
            raise _wrong(path, words)
    return MappingProxyType({level: str(table.get(level, "bubblewrap")) for level in (*TRUST_LEVELS, UNSET)})


def _engine(plain: Mapping[str, Any], path: Path) -> EngineChoice:
    table = plain.get("engine", {})
    if not isinstance(table, dict):
        raise _wrong(path, "engine is a table")
    _only(table, _ENGINE_KEYS, path, "engine.")
    host, image, warm = table.get("host", ""), table.get("image", ""), table.get("warm", WARM_CONTAINERS)
    if not isinstance(host, str) or not isinstance(image, str):
        raise _wrong(path, "engine.host and engine.image are texts")
    if type(warm) is not int or not 0 <= warm <= WARM_CONTAINERS_MAX:
        raise _wrong(path, f"engine.warm is a number from 0 to {WARM_CONTAINERS_MAX}")
    return EngineChoice(host=host, image=image, warm=warm)


def _remote(table: Any, name: str, path: Path) -> RemoteChoice:
    """A machine's settings; what is missing of them is told where the sandbox is tried."""
    if not isinstance(table, dict):
        raise _wrong(path, f"{name} is a table")
    texts = _REMOTE_TEXTS[name]
    _only(table, texts | {"port", "away_s"}, path, f"{name}.")
    port, away = table.get("port", 0), table.get("away_s", AWAY_S)
    if not all(isinstance(table.get(one, ""), str) for one in texts):
        raise _wrong(path, f"every value of {name} but port and away_s is a text")
    if type(port) is not int or not 0 <= port <= PORT_MAX:
        raise _wrong(path, f"{name}.port is a number up to {PORT_MAX}")
    if type(away) not in (int, float) or not AWAY_S_MIN <= away <= AWAY_S_MAX:
        raise _wrong(path, f"{name}.away_s is from {AWAY_S_MIN:g} to {AWAY_S_MAX:g} seconds")
    values = {one: table[one] for one in texts if one in table}
    values |= {one: os.path.expanduser(values[one]) for one in _REMOTE_FILES & values.keys()}
    return RemoteChoice(port=port, away_s=float(away), **{"socket": ENGINE_SOCKET, **values})


def _retention(plain: Mapping[str, Any], path: Path) -> RetentionLimits:
    table = plain.get("retention", {})
    if not isinstance(table, dict) or not all(type(value) in (int, float) and value > 0 for value in table.values()):
        raise _wrong(path, "retention is a table of numbers above zero")
    _only(table, _RETENTION_KEYS, path, "retention.")
    days, most = table.get("days"), table.get("gigabytes")
    return RetentionLimits(
        days=None if days is None else max(1, int(days)),
        bytes_max=None if most is None else int(most * _GIGABYTE),
        told_bytes=int(table.get("tell_gigabytes", TOLD_GIGABYTES) * _GIGABYTE),
    )


def _places(plain: Mapping[str, Any], path: Path) -> tuple[str, ...]:
    table = plain.get("network", {})
    if not isinstance(table, dict):
        raise _wrong(path, "network is a table")
    _only(table, _NETWORK_KEYS, path, "network.")
    places = table.get("places", [])
    if not isinstance(places, list) or not all(isinstance(place, str) for place in places):
        raise _wrong(path, "network.places is a list of texts")
    if len(places) > PLACES_MAX:
        raise _wrong(path, f"at most {PLACES_MAX} places")
    return tuple(places)


def _only(table: Mapping[str, Any], allowed: frozenset[str], path: Path, prefix: str) -> None:
    unknown = sorted(set(table) - allowed)
    if unknown:
        raise _wrong(path, f"{prefix}{unknown[0]} is no setting; there are: {', '.join(sorted(allowed))}")


def _wrong(path: Path, words: str) -> GloveportError:
    hint = "Mend the file, or move it away to use the defaults."
    return GloveportError(ErrorCode.INVALID_PARAMS, f"settings file {path}: {words}", hint=hint)

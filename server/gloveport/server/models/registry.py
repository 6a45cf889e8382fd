"""From settings to a provider.

Purpose: the one place that knows which providers exist; each adapter is imported only when it is asked for.
Invariant: what a provider gets comes from `ModelSettings` alone; keys hide in every repr.
Must never: read the environment, a file of the workspace, or a key from anywhere but the settings given.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from gloveport.server.models.contract import ApiKey, ErrorClass, Provider
from gloveport.server.models.failures import bound_words, model_error
from gloveport.server.models.guarded_http import IDLE_TIMEOUT_S, Endpoint

PROVIDER_NAMES: Final = ("scripted", "openai", "anthropic")
_LIBRARIES: Final = ("openai", "anthropic")
"""Providers whose library has their own name."""
SCRIPTED_MODEL: Final = "script"


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """The user's choice of a model; `provider` is one of `PROVIDER_NAMES`. `base_url` None means the provider's own;
    `script_path` is what `scripted` plays.

    `idle_timeout_s`: the longest silence borne on a stream, in seconds; there is no total limit.
    """

    provider: str
    model: str = SCRIPTED_MODEL
    base_url: str | None = None
    api_key: ApiKey | None = field(default=None, repr=False)
    script_path: Path | None = None
    idle_timeout_s: float = IDLE_TIMEOUT_S


def provider_from_settings(settings: ModelSettings, clock_us: Callable[[], int]) -> Provider:
    """The provider the settings name; no connection is opened and no SDK imported yet.

    `clock_us` gives UTC microseconds. Reads the script file when there is one. Raises `ModelError` (config).
    """
    match settings.provider:
        case "scripted":
            return _scripted(settings)
        case "openai":
            from gloveport.server.models.openai_chat import OPENAI_BASE_URL, OpenAIChatProvider

            return OpenAIChatProvider(_endpoint(settings, OPENAI_BASE_URL), clock_us)
        case "anthropic":
            from gloveport.server.models.anthropic_messages import (
                ANTHROPIC_BASE_URL,
                AnthropicMessagesProvider,
            )

            return AnthropicMessagesProvider(_endpoint(settings, ANTHROPIC_BASE_URL), clock_us)
        case other:
            known = ", ".join(PROVIDER_NAMES)
            raise model_error(ErrorClass.CONFIG, f"no provider {bound_words(other)!r}; there are: {known}")


def is_installed(provider: str) -> bool:
    """Whether the program library that this provider is reached by can be found; it is not loaded."""
    return provider not in _LIBRARIES or find_spec(provider) is not None


def _scripted(settings: ModelSettings) -> Provider:
    from gloveport.server.models.script_file import load_script
    from gloveport.server.models.scripted import ScriptedProvider

    path = settings.script_path
    if path is None:
        raise model_error(ErrorClass.CONFIG, "name the script that the provider scripted plays in your settings")
    return ScriptedProvider(load_script(path), path.parent)


def _endpoint(settings: ModelSettings, own_url: str) -> Endpoint:
    if not settings.model or settings.model == SCRIPTED_MODEL:
        raise model_error(ErrorClass.CONFIG, f"name a model for the provider {settings.provider} in your settings")
    base_url = settings.base_url or own_url
    if settings.api_key is None and base_url == own_url:
        raise model_error(ErrorClass.AUTH, f"the provider {settings.provider} needs a key")
    return Endpoint(base_url, settings.api_key, settings.idle_timeout_s)

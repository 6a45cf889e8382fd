"""The user's settings as they are now.

Purpose: read the settings file again when it changed, so that no restart is needed.
Invariant: what is used is a whole file without a fault; a faulty one is told at the next use and nothing is guessed.
Must never: write the file, or keep a key that is no longer named.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.sandbox.backends.names import NAMES
from gloveport.server.accounts import Account
from gloveport.server.settings import SETTINGS_FILE, Settings, load_settings

_NAMES_SECRET: Final = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL")

Stamp = tuple[int, int, int] | None


class LiveSettings:
    """Call it for the settings. Raises GloveportError (INVALID_PARAMS) while the file has a fault."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._stamp = self._look()
        self._settings = self._load()

    def __call__(self) -> Settings:
        """The settings in force."""
        stamp = self._look()
        if stamp != self._stamp:
            self._settings = self._load()
            self._stamp = stamp
        return self._settings

    def _load(self) -> Settings:
        settings = load_settings(self._home)
        check_rungs(settings)
        check_places(settings)
        return settings

    def _look(self) -> Stamp:
        try:
            info = (self._home / SETTINGS_FILE).stat()
        except OSError:
            return None
        return info.st_mtime_ns, info.st_size, info.st_ino


def check_rungs(settings: Settings) -> None:
    """Raise GloveportError (INVALID_PARAMS) where the settings name a sandbox that there is not."""
    for level, name in settings.sandbox.items():
        if name not in NAMES:
            words = f"settings: [sandbox] {level} = {name!r}: there is no such sandbox; there are: {', '.join(NAMES)}"
            raise GloveportError(ErrorCode.INVALID_PARAMS, words, hint="Mend the settings file.")


def check_places(settings: Settings) -> None:
    """Raise GloveportError (INVALID_PARAMS) where the settings name what is no place."""
    if not settings.places and not settings.credentials and not _accounts(settings):
        return
    from gloveport.sandbox.egress.entries import EntryError, read_entries  # most users set none

    try:
        read_entries(settings.places)
        read_entries(one.place for one in settings.credentials)
        read_entries(one.place for one in _accounts(settings))
    except EntryError as error:
        words = f"settings: not a place: {error}"
        raise GloveportError(ErrorCode.INVALID_PARAMS, words, hint="Mend the settings file.") from error


def _accounts(settings: Settings) -> list[Account]:
    """Every server that the user has an account at."""
    mail = [] if settings.mail is None else [settings.mail.account]
    return mail + [one.account for one in settings.databases]


def secret_values(settings: Settings, environment: Mapping[str, str] = os.environ) -> list[str]:
    """What must never be shown: the models' keys, and what the daemon's environment holds under a secret's name."""
    keys = [choice.key.reveal() for choice in settings.models if choice.key is not None]
    keys += [one.value.reveal() for one in settings.credentials if one.value]
    keys += [one.password.reveal() for one in _accounts(settings) if one.password is not None]
    return keys + [value for name, value in environment.items() if _NAMES_SECRET.search(name) and value]

"""The user's settings as they are now.

Purpose: read the settings file again when it changed, so that no restart is needed.
Invariant: what is used is a whole file without a fault; a faulty one is told at the next use and nothing is guessed.
Must never: write the file, or keep a key that is no longer named.
"""

from pathlib import Path

from gloveport.server.app.resources import check_rungs
from gloveport.server.settings import SETTINGS_FILE, Settings, load_settings

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
        return settings

    def _look(self) -> Stamp:
        try:
            info = (self._home / SETTINGS_FILE).stat()
        except OSError:
            return None
        return info.st_mtime_ns, info.st_size, info.st_ino

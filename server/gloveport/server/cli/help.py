"""What every command says of itself and of wrong usage.

Purpose: help pages in words for people, and wrong usage that always shows how the command is used.
Invariant: a switch shows no type; lines of a text break where the terminal does.
Must never: change what a command does.
"""

import inspect
from types import MappingProxyType
from typing import Any, Final

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

_TYPES: Final = MappingProxyType(
    {"<str>": "TEXT", "<list[str]>": "TEXT", "<int>": "NUMBER", "<int range>": "NUMBER", "<path>": "FOLDER"}
)
"""What a value that has no name of its own is called."""
_BRACES: Final = MappingProxyType({ord("{"): None, ord("}"): None})
SESSION_OPTION: Final = "--session"
NAMES_SESSION: Final = "A session is named with -s."


class Command(TyperCommand):
    """One command."""

    def __init__(self, *words: Any, **more: Any) -> None:
        super().__init__(*words, **more)
        self.help = unbroken(self.help or "")

    def get_params(self, ctx: Any) -> list[Any]:
        """Its options and arguments, as a page shows them."""
        return [_shown(param, ctx) for param in super().get_params(ctx)]

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """What stands behind the command's name; what has to be given stands bare."""
        return [piece.translate(_BRACES) for piece in super().collect_usage_pieces(ctx)]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """What was typed. Raises typer.TyperException for wrong usage, which shows how it is used."""
        try:
            return super().parse_args(ctx, args)
        except typer.TyperException as error:
            error.__dict__["ctx"] = ctx  # without it no usage is shown
            if error.message.startswith("Got unexpected extra") and _takes_session(self):
                error.message += f". {NAMES_SESSION}"
            raise


class Group(TyperGroup):
    """A command with commands below it."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Its options, as a page shows them."""
        return [_shown(param, ctx) for param in super().get_params(ctx)]


def unbroken(text: str) -> str:
    """A text whose paragraphs are one line each."""
    paragraphs = inspect.cleandoc(text).split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


def _takes_session(command: TyperCommand) -> bool:
    return any(SESSION_OPTION in param.opts for param in command.params)


def _shown(param: Any, ctx: Any) -> Any:
    """The same, with what stands for its value: nothing for a switch, an argument's own name.

    What range a number must be in is told when it is not.
    """
    if isinstance(param, TyperArgument):
        param.metavar = param.metavar or param.name.upper()
        vars(param).update(display_type_rich=_nothing)
    elif isinstance(param, TyperOption) and param.metavar is None:
        typed = param.display_type_rich(ctx) or ""
        param.metavar = "" if param.is_flag else _TYPES.get(typed, typed.strip("<>"))
    vars(param).update(_get_number_range_help_str=_nothing)
    return param


def _nothing(ctx: Any = None) -> str:
    """Stands where the library would print what says nothing to a person."""
    return ""

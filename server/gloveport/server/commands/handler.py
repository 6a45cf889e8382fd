"""What a handler is.

Purpose: the two shapes in which a method is answered.
Invariant: whatever changes something knows under which request it is done, once.
Must never: hold a handler.
"""

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from pydantic import BaseModel

from gloveport.server.commands.house import House
from gloveport.server.commands.once import Once
from gloveport.server.transports.port import Caller

Read: TypeAlias = Callable[[House, Any, Caller], Awaitable[BaseModel]]
Change: TypeAlias = Callable[[House, Any, Caller, Once], Awaitable[BaseModel]]

"""Money as it is kept and told.

Purpose: whole billionths of a US dollar (nano-USD), from what people type and in words.
Invariant: exact: what is typed is what is kept.
Must never: use a float, or tell an amount as nothing.
"""

import re
from decimal import Decimal
from typing import Final

NANO: Final = 10**9
NANO_USD_MAX: Final = 10**15
"""The most that a limit may be, a million US dollars: every client holds it exactly."""
_TYPED: Final = re.compile(r"\$?\s*(\d{1,7}(?:\.\d{1,9})?)", re.ASCII)


def usd_words(nano_usd: int) -> str:
    """`$0.42`; with four digits behind the point below a dollar where cents do not tell it."""
    ten_thousandths = (nano_usd + 50_000) // 100_000
    whole, part = divmod(ten_thousandths, 10_000)
    if ten_thousandths == 0 and nano_usd > 0:
        return "<$0.0001"
    return f"${whole:,}.{part // 100:02d}" if whole or part % 100 == 0 else f"${whole}.{part:04d}"


def parse_usd(typed: str) -> int | None:
    """Dollars as people type them (`2`, `$0.50`), as a limit; None for what is none: nothing, too much, no number."""
    found = _TYPED.fullmatch(typed.strip())
    nano_usd = int(Decimal(found[1]) * NANO) if found else 0
    return nano_usd if 1 <= nano_usd <= NANO_USD_MAX else None

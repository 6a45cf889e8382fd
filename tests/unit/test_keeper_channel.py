"""What a keeper reads: lines with signs of life between them, and bytes that are taken as they are."""

import subprocess
import sys

READ = """
import sys
from gloveport.sandbox.runner.keeper_store import Channel
channel = Channel(5.0)
lines = [channel.line(), channel.line()]
channel.pass_mark()
print(lines, b"".join(channel.pieces(5)), channel.line())
"""


def test_a_slow_start_is_no_broken_talk() -> None:
    """Signs of life come before, between and after lines, and before the mark; content may begin like one."""
    sent = b"\n\nhead\n\n\nentry\n\n\n=\n\nraw\n\n\nlast\n"
    done = subprocess.run([sys.executable, "-c", READ], input=sent, capture_output=True, timeout=100, check=True)
    assert done.stdout == b"[b'head', b'entry'] b'\\nraw\\n' b'last'\n"

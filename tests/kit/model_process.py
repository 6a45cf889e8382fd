"""A model server as a process of its own, for tests whose daemon is one too.

Purpose: begin and end it, and give the settings that name it.
Invariant: it ends with the block.
"""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def model_process(folder: Path, name: str, *behaviours: Mapping[str, Any]) -> Iterator[str]:
    """A server that behaves so; the entry of the settings for it, as the model `openai/<name>`."""
    script = folder / f"{name}.json"
    script.write_text(json.dumps(behaviours))
    command = [sys.executable, "-m", "tests.kit.model_server", "--script", str(script)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8") as server:
        assert server.stdin is not None
        assert server.stdout is not None
        try:
            port = json.loads(server.stdout.readline())["port"]
            yield f'\n[[models]]\nprovider = "openai"\nmodel = "{name}"\nbase_url = "http://127.0.0.1:{port}/v1"\n'
        finally:
            server.stdin.close()

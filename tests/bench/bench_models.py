"""What an adapter costs per delta, beside the SDK it stands on and beside reading the bytes alone.

Three ways read the same 5,000 deltas from a server in another process, in turn; figures are medians of CPU time of
this process. Run: PYTHONPATH=. python tests/bench/bench_models.py
"""

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import httpx2

from gloveport.server.models.anthropic_messages import AnthropicMessagesProvider
from gloveport.server.models.anthropic_messages import render_request as render_messages
from gloveport.server.models.contract import ModelRequest, UserText
from gloveport.server.models.guarded_http import Endpoint
from gloveport.server.models.openai_chat import OpenAIChatProvider
from gloveport.server.models.openai_chat import render_request as render_chat

DELTAS = 5_000
ROUNDS = 5
ROOT = Path(__file__).resolve().parents[2]
REQUEST = ModelRequest("m", (UserText("x"),))
Way = Callable[[], Awaitable[int]]


@contextmanager
def serve() -> Iterator[int]:
    """The model server in a process of its own; gives its port."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as script:
        json.dump([{"text": ["tok "], "repeat": DELTAS}], script)
        script.flush()
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.kit.model_server", "--script", script.name],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield json.loads(process.stdout.readline())["port"]
        finally:
            process.stdin.close()
            process.wait(timeout=10)


async def through_adapter(provider: Any) -> int:
    """Parts of one reply."""
    count = 0
    async with provider.stream(REQUEST) as parts:
        async for _ in parts:
            count += 1
    return count


async def through_sdk(create: Callable[..., Awaitable[Any]], body: dict[str, Any]) -> int:
    """Events of one reply, as the SDK gives them."""
    count = 0
    async with await create(**body) as stream:
        async for _ in stream:
            count += 1
    return count


async def through_bytes(client: httpx2.AsyncClient, url: str, body: dict[str, Any]) -> int:
    """Pieces of one reply's bytes."""
    count = 0
    async with client.stream("POST", url, json=body) as response:
        async for _ in response.aiter_bytes():
            count += 1
    return count


async def measure(ways: dict[str, Way]) -> dict[str, float]:
    """Median CPU seconds of each way; each is run once before."""
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(ROUNDS + 1):
        for name, way in ways.items():
            began = time.process_time()
            count = await way()
            assert count >= DELTAS
            if turn:
                taken[name].append(time.process_time() - began)
    return {name: median(values) for name, values in taken.items()}


def report(dialect: str, seconds: dict[str, float]) -> None:
    """One line for each way: µs per delta, and how many times the adapter's."""
    for name, value in seconds.items():
        ratio = value / seconds["adapter"]
        print(f"{dialect:10} {name:8} {value / DELTAS * 1e6:7.1f} µs/delta  {value:6.3f} CPU s  {ratio:5.2f} × adapter")


async def main() -> None:
    """Both dialects."""
    import anthropic
    import openai

    with serve() as port:
        base = f"http://127.0.0.1:{port}"
        chat, messages = render_chat(REQUEST), render_messages(REQUEST)
        async with httpx2.AsyncClient(trust_env=False) as client:
            own = OpenAIChatProvider(Endpoint(f"{base}/v1"), lambda: 0)
            sdk = openai.AsyncOpenAI(api_key="x", base_url=f"{base}/v1", max_retries=0)
            ways: dict[str, Way] = {
                "bytes": lambda: through_bytes(client, f"{base}/v1/chat/completions", chat),
                "adapter": lambda: through_adapter(own),
                "sdk": lambda: through_sdk(sdk.chat.completions.create, chat),
            }
            report("openai", await measure(ways))
            await own.close()
            await sdk.close()
            other = AnthropicMessagesProvider(Endpoint(base), lambda: 0)
            other_sdk = anthropic.AsyncAnthropic(api_key="x", base_url=base, max_retries=0)
            ways = {
                "bytes": lambda: through_bytes(client, f"{base}/v1/messages", messages),
                "adapter": lambda: through_adapter(other),
                "sdk": lambda: through_sdk(other_sdk.messages.create, messages),
            }
            report("anthropic", await measure(ways))
            await other.close()
            await other_sdk.close()


if __name__ == "__main__":
    asyncio.run(main())

"""Runs in the HTTP hand's jail: one request through the way out, one line of JSON back.

Purpose: the only network client of the agent, in a process that sees nothing but this request.
Invariant: one request, no redirect followed, at most so many bytes of the answer read.
Must never: import anything but the standard library, or be imported by the daemon.

Reads from standard input: `{"method", "scheme", "host", "port", "path", "headers": [[name, value]], "body": base64,
"timeout_s", "bytes_max", "proxy_port"}`. Writes `{"status", "reason", "headers", "body": base64, "is_cut"}` or
`{"error": words}`.
"""

import base64
import http.client
import json
import ssl
import sys
from typing import Any


def request(asked: dict[str, Any]) -> dict[str, Any]:
    """Make the request and read the answer. Raises OSError, HTTPException or ValueError."""
    place = f"[{asked['host']}]" if ":" in asked["host"] else asked["host"]
    proxy, target = ("127.0.0.1", asked["proxy_port"]), asked["path"]
    link: http.client.HTTPConnection
    if asked["scheme"] == "https":
        link = http.client.HTTPSConnection(*proxy, timeout=asked["timeout_s"], context=ssl.create_default_context())
        link.set_tunnel(place, asked["port"])
    else:
        link = http.client.HTTPConnection(*proxy, timeout=asked["timeout_s"])
        target = f"http://{place}:{asked['port']}{target}"
    body = base64.b64decode(asked["body"])
    link.putrequest(asked["method"], target, skip_host=True, skip_accept_encoding=True)
    link.putheader("Host", f"{place}:{asked['port']}")
    for name, value in asked["headers"]:
        link.putheader(name, value)
    link.putheader("Accept-Encoding", "identity")
    link.putheader("Connection", "close")
    if body or asked["method"] in ("POST", "PUT", "PATCH"):
        link.putheader("Content-Length", str(len(body)))
    link.endheaders(body)
    answer = link.getresponse()
    content = answer.read(asked["bytes_max"] + 1)
    return {
        "status": answer.status,
        "reason": answer.reason,
        "headers": answer.getheaders(),
        "body": base64.b64encode(content[: asked["bytes_max"]]).decode("ascii"),
        "is_cut": len(content) > asked["bytes_max"],
    }


def main() -> None:
    """Answer the one request that is asked for."""
    try:
        told = request(json.load(sys.stdin))
    except (OSError, http.client.HTTPException, ValueError) as error:
        told = {"error": f"{type(error).__name__}: {error}"}
    json.dump(told, sys.stdout)


if __name__ == "__main__":
    main()

"""How clients reach the daemon.

Purpose: connections, framing, dispatch, subscriptions; one door to the engine (`port.py`).
Invariant: exactly one reply per request; a slow or dead client delays nobody else.
Must never: hold session state, decide permission, or run a tool.
"""

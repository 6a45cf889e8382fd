"""The number of the wire dialect.

Purpose: what client and daemon compare before anything else.
Invariant: raised when a peer of the number before could misread a message.
Must never: import anything; the smallest client reads it at start-up.
"""

PROTOCOL_VERSION = 1

"""Methods the transport answers itself, one file per noun.

Purpose: lifecycle and subscriptions; everything else goes through the port.
Invariant: a handler's context type names all it may touch.
Must never: block the event loop or write to the connection by itself.
"""

"""The only way out of a jail: a list of hosts, and the proxy that holds it.

Purpose: decide what a run may reach, carry those bytes and no others, and say what was refused by name.
Invariant: a connection to the outside is opened by the proxy alone, to an address that was checked, for a host that
the list names, after it was logged.
Must never: believe a name, an address or a header that comes from inside without holding it against the list.
"""

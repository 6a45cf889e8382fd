"""Entry of the fork server, started by file path in isolated mode.

Purpose: find the package roots given on the command line (isolated mode ignores PYTHONPATH) and serve.
Invariant: descriptor 0 is the control socket; everything else is closed or private.
Must never: import anything of the daemon.
"""

import sys


def main() -> None:
    """Serve until the daemon lets go of the control socket. Arguments: "users" or "user", package roots."""
    sys.path[:0] = sys.argv[2:]
    from gloveport.sandbox.runner.forkserver import serve

    serve(0, own_users=sys.argv[1] == "users")


if __name__ == "__main__":
    main()

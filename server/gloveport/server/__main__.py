"""The command `gloveport`.

Purpose: start the piper and the daemon without loading the command line, and the command line for everything else.
Invariant: `gloveport lsp` loads no more than the piper needs.
Must never: hold logic.
"""

import sys


def main() -> None:
    """Entry point of the distribution."""
    command = sys.argv[1:2]
    if command == ["lsp"] and len(sys.argv) == 2:
        from gloveport.server.client.paths import find_places
        from gloveport.server.client.stdio import attach

        sys.exit(attach(find_places()))
    if command == ["daemon"] and len(sys.argv) == 2:
        from gloveport.server.foreground import run_daemon

        sys.exit(run_daemon())
    from gloveport.server.cli.root import app

    app()


if __name__ == "__main__":
    main()

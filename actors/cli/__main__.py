"""``python -m actors.cli`` is the treewarden command."""

from actors.cli.main import main

main()

"""The `lastlook` command."""

from lastlook.cli.commands import main

__all__ = ["main"]

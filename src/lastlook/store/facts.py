"""What a store on SQLAlchemy tells of itself, in either colour, from what it has read already."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lastlook.store.operations import Operations
    from lastlook.store.tables import Meta

__all__ = ["Facts"]


class Facts(ABC):
    """The properties of the `Store` port that take no statement of their own."""

    _operations: Operations

    @abstractmethod
    def _meta(self) -> Meta:
        """The store's namespace and salt, read if that is possible here.

        Raises:
            StoreError: it was not installed, is of a newer version, or was not opened yet.
        """

    @property
    def namespace(self) -> str:
        """What makes call keys of this store its own."""
        return self._meta().namespace

    @property
    def salt(self) -> bytes:
        """The salt of value digests."""
        return self._meta().salt

    @property
    def created(self) -> int:
        """The mark of the newest proposal that this object knows of; `news` learns of others'."""
        return self._operations.created

    @property
    def ended(self) -> int:
        """How many intents this object has ended; `gone` learns of others'."""
        return self._operations.ended

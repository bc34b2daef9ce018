"""Stores: where proposals and their journals live."""

__all__: list[str] = []

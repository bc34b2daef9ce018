"""Connectors: one module for each kind of system of record, evidence in and conditional effects out."""

__all__: list[str] = []

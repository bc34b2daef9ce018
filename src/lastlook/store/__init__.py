"""Stores: where proposals and their journals live."""

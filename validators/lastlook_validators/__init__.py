"""Validators: typed, versioned checks that a premise's expression cannot say by itself."""

__all__: list[str] = []

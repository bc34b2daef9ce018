"""`Memory`: the system of record in the core, for tests, for the evaluation and for learning the library.

It is authoritative about its own rows: frozen cells, one version per row that no write can forget, an atomic
conditional apply, and a close. Nothing in it outlives the process.
"""

from lastlook.memory.permits import MemoryPermit
from lastlook.memory.system import Memory

__all__ = ["Memory", "MemoryPermit"]

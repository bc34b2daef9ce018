"""The one codec: what a value may be, and its one text for storing, comparing, digesting and naming it.

A decoded value, the value that was digested and the value that a premise judges are the same value, or the input is
refused. `freeze` is the only way in: everything else works on what it returns. Texts are JSON in the manner of RFC 8785
(one spelling a value, no white space), with two differences: whatever JSON cannot say exactly is a tagged array, and
keys are in code point order, which is that of their UTF-8 bytes, where RFC 8785 takes UTF-16 units.
"""

from lastlook.canonical.codec import decode, encode
from lastlook.canonical.comparing import like, same
from lastlook.canonical.digests import SCHEMA, digest, fingerprint
from lastlook.canonical.documents import dumps, loads_json, to_json
from lastlook.canonical.freezing import freeze
from lastlook.canonical.names import Named, idempotency_key, identity, intent_id, named, random_id
from lastlook.canonical.values import ABSENT, MAX_BYTES, MAX_DEPTH, MAX_DIGITS, MAX_EXPONENT, Absent, Value

__all__ = [
    "ABSENT",
    "MAX_BYTES",
    "MAX_DEPTH",
    "MAX_DIGITS",
    "MAX_EXPONENT",
    "SCHEMA",
    "Absent",
    "Named",
    "Value",
    "decode",
    "digest",
    "dumps",
    "encode",
    "fingerprint",
    "freeze",
    "idempotency_key",
    "identity",
    "intent_id",
    "like",
    "loads_json",
    "named",
    "random_id",
    "same",
    "to_json",
]

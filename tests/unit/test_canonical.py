"""The one codec: a value has one text, one digest and one name, or it is refused."""

from __future__ import annotations

import copy
import gc
import json
import math
import pickle
import re
import sys
import types
from collections import OrderedDict, UserDict, namedtuple
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from decimal import Decimal, localcontext
from enum import Enum, IntEnum, StrEnum
from typing import Any
from unittest.mock import Mock
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lastlook import canonical
from lastlook.canonical import (
    ABSENT,
    MAX_BYTES,
    MAX_DEPTH,
    Absent,
    decode,
    digest,
    dumps,
    encode,
    fingerprint,
    freeze,
    idempotency_key,
    identity,
    intent_id,
    like,
    loads_json,
    random_id,
    same,
    to_json,
)
from lastlook.errors import CanonicalError

SOME_UUID = UUID("6f1f4a9c-0d2b-4a53-9a51-0a1b2c3d4e5f")
NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
LONE = "\ud800"


class Colour(Enum):
    RED = "red"


class Level(IntEnum):
    HIGH = 3


class State(StrEnum):
    PAID = "paid"


class Mixed(str, Enum):  # noqa: UP042 - the older spelling, whose str() is not its value
    PAID = "paid"


class MyInt(int):
    pass


class MyStr(str):
    __slots__ = ()


class MyFloat(float):
    pass


class MyDecimal(Decimal):
    pass


class MyBytes(bytes):
    pass


class MyDate(date):
    pass


class MyDatetime(datetime):
    pass


class MyUuid(UUID):
    pass


class Liar:
    """Equal to everything, and says so loudly."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        pytest.fail("a foreign __eq__ was called")


class Zoneless(tzinfo):
    """A zone that knows no offset, which makes its datetimes naive."""

    def utcoffset(self, dt: datetime | None) -> None:
        """None known."""

    def dst(self, dt: datetime | None) -> None:
        """None known."""

    def tzname(self, dt: datetime | None) -> None:
        """None known."""


Pair = namedtuple("Pair", "left right")  # noqa: PYI024 - an untyped one is a tuple's subclass all the same

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
integers = st.integers(-(10**38) + 1, 10**38 - 1) | st.integers(-12, 12)
decimals = st.builds(
    lambda sign, digits, exponent: Decimal((sign, tuple(digits), exponent)),
    st.integers(0, 1),
    st.lists(st.integers(0, 9), min_size=1, max_size=38),
    st.integers(-64, 64),
) | st.sampled_from([Decimal(text) for text in ("0", "-0", "0.00", "1.0", "10", "1E+1", "-1.50")])
moments = st.datetimes(timezones=st.just(UTC))
scalars = (
    st.none()
    | st.booleans()
    | integers
    | decimals
    | texts
    | st.binary(max_size=8)
    | st.dates()
    | moments
    | st.uuids()
    | st.just(ABSENT)
)


def nested(leaves: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Values of every shape over these leaves."""
    return st.recursive(
        leaves,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
        max_leaves=12,
    )


values = nested(scalars)
# So few leaves that two drawn values are often the same one in two forms.
few = nested(st.sampled_from([0, False, None, "", ABSENT, 1, True, Decimal("1.0"), Decimal("-0"), b"", "1"]))


def table(names: str, rows: Sequence[Any]) -> pytest.MarkDecorator:
    """A parametrisation whose ids are short and distinct whatever is in the rows."""
    texts = [re.sub(r"( at 0x| id=')\w+", "", ascii(row)) for row in rows]  # the same in every process
    return pytest.mark.parametrize(names, rows, ids=[f"{index}-{text[:40]}" for index, text in enumerate(texts)])


def deep(levels: int) -> Any:
    """So many lists in one another."""
    value: Any = []
    for _ in range(levels - 1):
        value = [value]
    return value


# --- The sentinel -----------------------------------------------------------------------------------------------------


def test_absent_is_one_object() -> None:
    """No call, copy or pickle makes a second ABSENT."""
    assert Absent() is ABSENT
    assert copy.copy(ABSENT) is ABSENT
    assert copy.deepcopy([ABSENT])[0] is ABSENT
    assert pickle.loads(pickle.dumps(ABSENT)) is ABSENT  # noqa: S301 - made in this line
    assert repr(ABSENT) == "ABSENT"


def test_absent_has_no_truth_value() -> None:
    """A test of ABSENT for truth is an error, never an accidental branch."""
    with pytest.raises(TypeError, match="is ABSENT"):
        bool(ABSENT)


def test_public_names() -> None:
    """`__all__` is sorted and every name in it exists."""
    constants = [name for name in canonical.__all__ if name.isupper()]
    types_ = [name for name in canonical.__all__ if name[0].isupper() and not name.isupper()]
    rest = [name for name in canonical.__all__ if name[0].islower()]
    assert canonical.__all__ == sorted(constants) + sorted(types_) + sorted(rest)
    assert all(hasattr(canonical, name) for name in canonical.__all__)


# --- Freezing ---------------------------------------------------------------------------------------------------------


@table(
    "given_, frozen",
    [
        (MyInt(7), 7),
        (MyStr("a"), "a"),
        (MyStr("\u00e9"), "\u00e9"),
        (MyFloat(1.5), 1.5),
        (MyDecimal("1.50"), Decimal("1.50")),
        (MyBytes(b"x"), b"x"),
        (bytearray(b"x"), b"x"),
        (MyDate(2026, 1, 31), date(2026, 1, 31)),
        (MyDatetime(2026, 1, 31, 12, tzinfo=UTC), NOON),
        (MyDatetime(2026, 1, 31, 12), datetime(2026, 1, 31, 12)),  # noqa: DTZ001 - naive on purpose
        (datetime(2026, 1, 31, 12, tzinfo=Zoneless()), datetime(2026, 1, 31, 12)),  # noqa: DTZ001 - as above
        (datetime(2026, 1, 31, 14, tzinfo=timezone(timedelta(hours=2))), NOON),
        (MyUuid(int=SOME_UUID.int), SOME_UUID),
        (Colour.RED, "red"),
        (Level.HIGH, 3),
        (State.PAID, "paid"),
        (Mixed.PAID, "paid"),
        ([1, [2]], (1, (2,))),
        (Pair(1, [2]), (1, (2,))),
    ],
)
def test_freeze_normalises_types(given_: object, frozen: object) -> None:
    """Every kind of value is held as one exact type."""
    result = freeze(given_)
    assert type(result) is type(frozen)
    assert result == frozen


@pytest.mark.parametrize("value", [1.5, math.inf, datetime(2026, 1, 31, 12)])  # noqa: DTZ001 - naive on purpose
def test_freeze_leaves_what_is_refused_only_when_named(value: object) -> None:
    """A float column or naive datetime that no premise names does not fail the row."""
    assert freeze(value) is value


def test_freeze_leaves_nan() -> None:
    """NaN is held too."""
    value = float("nan")
    assert freeze(value) is value


@pytest.mark.parametrize("make", [dict, OrderedDict, UserDict, types.MappingProxyType])
def test_freeze_copies_maps(make: Any) -> None:
    """A frozen map is read-only, in its own order, and changes to the source do not reach it."""
    inner = {"x": 1}
    source = {"b": [inner], "a": 2}
    frozen = freeze(make(source))
    inner["x"] = 2
    source["c"] = 3
    assert isinstance(frozen, Mapping)
    assert list(frozen) == ["b", "a"]
    assert frozen == {"b": ({"x": 1},), "a": 2}
    with pytest.raises(TypeError):
        frozen["a"] = 3  # type: ignore[index]


def test_freeze_trusts_no_proxy_of_another() -> None:
    """A read-only view of a dict that its owner still changes is copied, deep inside too."""
    owned = {"x": 1}
    frozen: Any = freeze([types.MappingProxyType(owned)])
    owned["x"] = 2
    assert frozen[0]["x"] == 1


def test_freeze_copies_where_the_interpreter_hides_the_store(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a look behind a read-only map it is copied: slower, never wrong."""
    frozen = freeze({"a": 1})
    monkeypatch.setattr(gc, "get_referents", lambda _: [])
    again = freeze(frozen)
    assert again == frozen
    assert again is not frozen


@given(values)
def test_freeze_is_idempotent(value: object) -> None:
    """A frozen value comes back as the same object."""
    frozen = freeze(value)
    assert freeze(frozen) is frozen
    assert same(frozen, value)


@table(
    "value, where",
    [
        ({"items": [0, 1, {"price": {1}}]}, "at items[2].price;"),
        ({"items": [0, 1, {"price": 1j}]}, "at items[2].price;"),
        ({"a b": object()}, "at ['a b'];"),
        ({"n" * 80: object()}, f"at [{'n' * 64!r}];"),
        (object(), "at the top level;"),
        ({"a": {1: 2}}, "at a;"),
        ({"a": [LONE]}, "at a[0];"),
        ({"a": {LONE: 1}}, "at a;"),
        ({"a": Decimal("NaN")}, "at a;"),
        ({"a": Decimal("-Infinity")}, "at a;"),
        ({"a": Decimal("sNaN")}, "at a;"),
        ({"a": 10**38}, "at a;"),
        ({"a": -(10**38)}, "at a;"),
        ({"a": Decimal("1" * 39)}, "at a;"),
        ({"a": Decimal("1E+65")}, "at a;"),
        ({"a": Decimal("1E-65")}, "at a;"),
        ({"a": datetime.min.replace(tzinfo=timezone(timedelta(hours=1)))}, "at a;"),
        ({"a": memoryview(b"x")}, "at a;"),
        ({"a": Mock(spec=str)}, "at a;"),
        ({"a": Mock(spec=dict)}, "at a;"),
    ],
)
def test_freeze_refuses_and_names_the_place(value: object, where: str) -> None:
    """What has no exact form is refused with its path."""
    with pytest.raises(CanonicalError) as caught:
        freeze(value)
    message = str(caught.value)
    assert where in message
    assert "\n" not in message
    assert not message.endswith(".")


def test_a_huge_integer_is_never_spelt_out() -> None:
    """An integer that the interpreter itself refuses to write as text is out of bounds like any other."""
    for use in (freeze, encode, fingerprint):
        with pytest.raises(CanonicalError, match="out of bounds"):
            use(1 << 100_000)


def test_freeze_begins_with_the_given_path() -> None:
    """A caller's path stands before the value's own."""
    with pytest.raises(CanonicalError, match=r"at args\.order\[0\];"):
        freeze({"order": [set()]}, path="args")


def test_freeze_refuses_keys_that_become_one() -> None:
    """Two keys that differ only in a subclass's own equality do not silently merge."""

    class Odd(MyStr):
        __slots__ = ()

        def __eq__(self, other: object) -> bool:
            return self is other

        def __hash__(self) -> int:
            return id(self)

    with pytest.raises(CanonicalError, match="two keys"):
        freeze({Odd("a"): 1, Odd("a"): 2})


def test_no_message_shows_a_value() -> None:
    """A refused value may be a secret: its text is in no message."""
    for value in (["canary" + LONE], {"a": "canary" + LONE}, ["canary", object()]):
        with pytest.raises(CanonicalError) as caught:
            freeze(value)
        assert "canary" not in str(caught.value)
    for data in ('{"a": canary}', '["canary"', '"canary' + LONE + '"', '{"canary": 1, "canary": 2}'):
        with pytest.raises(CanonicalError) as caught:
            loads_json(data)
        assert "canary" not in str(caught.value)
    with pytest.raises(CanonicalError) as caught:
        decode(b'["D","canary"]')
    assert "canary" not in str(caught.value)


def test_depth_bound_is_exact() -> None:
    """Depth 32 is held and stored, 33 is refused, for lists and maps alike."""
    assert decode(encode(deep(MAX_DEPTH))) == freeze(deep(MAX_DEPTH))
    with pytest.raises(CanonicalError, match="levels"):
        freeze(deep(MAX_DEPTH + 1))
    value: Any = 1
    for _ in range(MAX_DEPTH):
        value = {"a": value}
    assert decode(encode(value)) == freeze(value)
    with pytest.raises(CanonicalError, match="levels"):
        freeze({"a": value})


def test_depth_counts_through_frozen_maps() -> None:
    """A frozen map brings its own depth along when it is put into another value."""
    inner = freeze({"a": deep(MAX_DEPTH - 2), "b": 1})
    assert freeze([inner]) == (inner,)
    with pytest.raises(CanonicalError, match="levels"):
        freeze([[inner]])
    outer: Any = freeze({"first": {"x": deep(MAX_DEPTH - 4)}, "second": {}})
    assert freeze({"a": [outer]}) == {"a": (outer,)}
    with pytest.raises(CanonicalError, match="levels"):
        freeze({"a": [[outer]]})


@pytest.mark.parametrize("levels", [1000, 100_000])
def test_deep_values_are_refused_cleanly(levels: int) -> None:
    """A deep chain ends in the codec's own error, not in the interpreter's."""
    with pytest.raises(CanonicalError):
        freeze(deep(levels))


def test_cycles_are_refused() -> None:
    """A list or a map that holds itself is refused."""
    items: list[Any] = []
    items.extend([items, items])
    tree: dict[str, Any] = {}
    tree["self"] = tree
    for value in (items, tree):
        with pytest.raises(CanonicalError, match="cycle"):
            freeze(value)


def test_shared_parts_do_not_explode() -> None:
    """Ten times ten times ... the same part is refused before its 10^20 nodes are visited, frozen or not."""
    value: Any = "x"
    for _ in range(20):
        value = [value] * 10
    with pytest.raises(CanonicalError, match="parts"):
        freeze(value)
    maps: Any = "x"
    with pytest.raises(CanonicalError, match="parts"):  # noqa: PT012 - one of the freezings refuses
        for _ in range(20):
            maps = freeze({str(n): maps for n in range(10)})


# --- Storing ----------------------------------------------------------------------------------------------------------


@table(
    "value, data",
    [
        (None, b"null"),
        (True, b"true"),
        (False, b"false"),
        ("a\n\u00e9", '"a\\n\u00e9"'.encode()),
        (80, b'["i","80"]'),
        (-(2**64), b'["i","-18446744073709551616"]'),
        (Decimal("80.00"), b'["d","80.00"]'),
        (Decimal("-0"), b'["d","-0"]'),
        (Decimal("1E+3"), b'["d","1E+3"]'),
        (b"\x00\xff", b'["b","AP8="]'),
        (date(2026, 1, 31), b'["D","2026-01-31"]'),
        (datetime(1970, 1, 1, 0, 0, 1, 5, tzinfo=UTC), b'["t","1000005"]'),
        (datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC), b'["t","-1"]'),
        (SOME_UUID, b'["u","6f1f4a9c-0d2b-4a53-9a51-0a1b2c3d4e5f"]'),
        (ABSENT, b'["a"]'),
        ([], b'["l",[]]'),
        ({}, b"{}"),
        ({"b": 1, "a": [None]}, b'{"a":["l",[null]],"b":["i","1"]}'),
    ],
)
def test_stored_form(value: object, data: bytes) -> None:
    """The stored form is this text to the byte: a change of it would strand stored records."""
    assert encode(value) == data
    assert encode(decode(data)) == data


def test_keys_are_in_code_point_order() -> None:
    """An astral key stands after every other, where UTF-16 order would put it before U+FFFF."""
    keys = ["\U0001f600", "\uffff", "\ue000", "a", "Z", "", "\u00e9"]
    expected = json.dumps(dict.fromkeys(sorted(keys)), ensure_ascii=False, separators=(",", ":")).encode()
    assert encode(dict.fromkeys(keys)) == expected
    assert encode(dict.fromkeys(reversed(keys))) == expected


def test_context_does_not_change_the_text() -> None:
    """A thread's decimal context changes neither the stored form nor the digest."""
    value = Decimal("1.23456789E+20")
    expected = encode(value), digest(value, kind="value"), to_json(value)
    with localcontext() as context:
        context.capitals, context.prec = 0, 3
        assert (encode(value), digest(value, kind="value"), to_json(value)) == expected
        assert decode(expected[0]) == value


@given(values)
def test_round_trip(value: object) -> None:
    """decode(encode(x)) is x, and the spelling of its numbers stays."""
    data = encode(value)
    back = decode(data)
    assert same(back, value)
    assert encode(back) == data
    assert freeze(back) is back


@given(values)
def test_order_of_keys_does_not_matter(value: object) -> None:
    """Two maps that differ only in their order have one text."""

    def turned(x: Any) -> Any:
        if isinstance(x, dict):
            return {key: turned(x[key]) for key in reversed(x)}
        return [turned(item) for item in x] if isinstance(x, list) else x

    assert encode(turned(value)) == encode(value)


@table(
    "value, way",
    [
        ({"price": 1.5}, "`.as_decimal(2)`"),
        ({"price": math.nan}, "`.as_decimal(2)`"),
        ({"price": datetime(2026, 1, 31)}, "`.as_utc(zone)`"),  # noqa: DTZ001 - naive on purpose
    ],
)
def test_inexact_values_are_refused_with_the_way_out(value: object, way: str) -> None:
    """Neither storage nor a digest takes a float or a naive datetime, and each says what to do."""
    for use in (encode, lambda x: digest(x, kind="value")):
        with pytest.raises(CanonicalError) as caught:
            use(value)
        assert way in str(caught.value)
        assert "at price;" in str(caught.value)


def test_text_over_a_mebibyte_is_not_stored() -> None:
    """The bound is on the bytes, and exact."""
    assert len(encode("x" * (MAX_BYTES - 2))) == MAX_BYTES
    assert decode(encode("x" * (MAX_BYTES - 2))) == "x" * (MAX_BYTES - 2)
    with pytest.raises(CanonicalError, match="bytes"):
        encode("x" * (MAX_BYTES - 1))


@table(
    "data",
    [
        b"",
        b"80",
        b"1.5",
        b"NaN",
        b"Infinity",
        b"[]",
        b'["l"]',
        b'["l",{}]',
        b'["l","x"]',
        b'["l",[1]]',
        b'["a",null]',
        b'["a","a"]',
        b'["x","80"]',
        b'[["i"],"80"]',
        b'[null,"80"]',
        b'["i",80]',
        b'["i",["l",[]]]',
        b'["i","80","80"]',
        b'["i","080"]',
        b'["i","+80"]',
        b'["i"," 80"]',
        b'["i","8_0"]',
        b'["i","-0"]',
        b'["i",""]',
        b'["i","x"]',
        '["i","\uff18"]'.encode(),
        b'["i","' + b"9" * 39 + b'"]',
        b'["i","' + b"9" * 5000 + b'"]',
        b'["d","1e3"]',
        b'["d","+1"]',
        b'["d","01"]',
        b'["d","1."]',
        b'["d","NaN"]',
        b'["d","sNaN1"]',
        b'["d","-Infinity"]',
        b'["d","x"]',
        b'["d","1E+65"]',
        b'["d","1E+99999999999999999999"]',
        b'["b","AP8"]',
        b'["b","AP9="]',
        b'["b","A"]',
        b'["b","\\u00e9"]',
        b'["D","20260131"]',
        b'["D","2026-W05-6"]',
        b'["D","2026-02-30"]',
        b'["t","1.0"]',
        b'["t","99999999999999999999"]',
        b'["t","999999999999999999999999999999999"]',
        b'["u","6F1F4A9C-0D2B-4A53-9A51-0A1B2C3D4E5F"]',
        b'["u","6f1f4a9c0d2b4a539a510a1b2c3d4e5f"]',
        b'["u","x"]',
        b'{"a":null,"a":null}',
        b'{"b":null,"a":null}',
        b'{"a":null,"\\u0061":null}',
        b'{"a":null,}',
        b'{"a": null}',
        b"null ",
        b" null",
        b"\xef\xbb\xbfnull",
        b"nullnull",
        b"null\x00",
        b'"\\u0061"',
        b'"\\/"',
        b'"\\ud800"',
        b'"\xff"',
        b'"\xed\xa0\x80"',
        b'"\xc0\x80"',
        b'"a',
        b'["l",' * 70 + b"[]" + b"]" * 70,
        b'["l",[' * 33 + b"]]" * 33,
        b'{"a":' * 33 + b"null" + b"}" * 33,
        b'["l",[' * 400 + b"]]" * 400,
        b"[" * 100_000,
        b'"' + b"x" * MAX_BYTES + b'"',
    ],
)
def test_decode_refuses_what_encode_does_not_write(data: bytes) -> None:
    """Another spelling, tag, order or size is no record of ours, and one error says so."""
    with pytest.raises(CanonicalError):
        decode(data)


def _decode_is_total(data: bytes) -> None:
    try:
        value = decode(data)
    except CanonicalError:
        return
    assert encode(value) == data


@given(
    st.binary(max_size=64) | st.text(st.sampled_from('[]{}",:ialdbtuD0189-+.E\\ \x00é'), max_size=24).map(str.encode)
)
def test_decode_of_any_bytes(data: bytes) -> None:
    """Whatever the bytes, decode raises only its own error or returns what encodes to them."""
    _decode_is_total(data)


@given(values, st.data())
def test_decode_of_mutated_bytes(value: object, data: st.DataObject) -> None:
    """One edit of valid bytes is refused or is the text of another value."""
    valid = bytearray(encode(value))
    start = data.draw(st.integers(0, len(valid)))
    stop = data.draw(st.integers(start, min(len(valid), start + 3)))
    valid[start:stop] = data.draw(st.binary(max_size=3) | st.sampled_from([b'"', b"[", b"0", b"1", b"-", b",", b"E"]))
    _decode_is_total(bytes(valid))


# --- Plain JSON -------------------------------------------------------------------------------------------------------


@table(
    "text, value",
    [
        ("9", 9),
        ("9.0", Decimal("9.0")),
        ("80.00", Decimal("80.00")),
        ("1e2", Decimal("1E+2")),
        ("-0", 0),
        ("-0.0", Decimal("0.0")),
        ("-0.5", Decimal("-0.5")),
        ("18446744073709551616", 2**64),
        ("18446744073709551617", 2**64 + 1),
        ("9" * 38, 10**38 - 1),
        ("-" + "9" * 38, -(10**38) + 1),
        ('{"b": [true, null], "a": ""}', {"b": (True, None), "a": ""}),
        ('"\\ud83d\\ude00"', "\U0001f600"),
        ('"' + "[{" * 40 + '\\"]"', "[{" * 40 + '"]'),
        ("[" + "[],{}," * 40 + "1]", freeze([[], {}] * 40 + [1])),
        ('"\\"' + "[{" * 40 + '\\\\"', '"' + "[{" * 40 + "\\"),
        ('"\\\\' + "[{" * 40 + '"', "\\" + "[{" * 40),
        ("[" * 32 + "]" * 32, freeze(deep(32))),
    ],
)
def test_plain_json_is_read_exactly(text: str, value: object) -> None:
    """Numbers keep their digits, large ones their last, and brackets in text are no levels."""
    for data in (text, text.encode()):
        result = loads_json(data)
        assert type(result) is type(freeze(value))
        assert result == value
        assert str(result) == str(freeze(value))
        assert freeze(result) is result


@table(
    "data",
    [
        "",
        "nul",
        "[1",
        "[1,]",
        "1 2",
        "01",
        "1.",
        "'a'",
        '"a',
        '"\t"',
        "\ufeff1",
        b"\xef\xbb\xbf1",
        b"\xff",
        b'"\xed\xa0\x80"',
        "NaN",
        '{"a": NaN}',
        "[Infinity]",
        "-Infinity",
        '{"a": 1, "a": 1}',
        '{"a": 1, "\\u0061": 2}',
        '[{"a": {"b": 1, "b": 2}}]',
        f'"{LONE}"',
        '"\\ud800"',
        '{"\\udc00": 1}',
        '"\\ude00\\ud83d"',
        "1" * 39,
        "1" * 5000,
        "0." + "1" * 39,
        "1e65",
        "1e-65",
        "0e65",
        "1e999999999999999999999",
        "[" * 33 + "]" * 33,
        "[" * 100_000,
        "[" * 100_000 + "]" * 100_000,
        '{"a":' * 100_000,
        '["' + '\\"' * 300_000 + "[" * 40,
        '"' + "x" * (MAX_BYTES - 1) + '"',
        '"' + "\u20ac" * (MAX_BYTES // 2) + '"',
        b" " * MAX_BYTES + b"1",
    ],
)
def test_plain_json_refuses_what_readers_disagree_on(data: bytes | str) -> None:
    """What one reader takes and another drops, rounds or overflows is refused, quickly and with one error."""
    with pytest.raises(CanonicalError):
        loads_json(data)


json_documents = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**38) + 1, 10**38 - 1) | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)


@given(json_documents, st.booleans(), st.sampled_from([None, 1]))
def test_plain_json_agrees_with_the_standard_library(document: object, ascii_: bool, indent: int | None) -> None:
    """On a valid document the strict reader returns what the standard one does."""
    text = json.dumps(document, ensure_ascii=ascii_, indent=indent)
    assert same(loads_json(text), json.loads(text))
    assert same(loads_json(text.encode()), json.loads(text))


@given(st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**6), max_value=10**6, places=4))
def test_plain_json_keeps_decimals(number: Decimal) -> None:
    """A fraction comes back by text, which the standard reader's float would not give."""
    assert same(loads_json(f"[{number:f}]"), [number])


@given(st.text(max_size=20) | st.text(st.sampled_from('[]{}",:0189-+.eE\\u \x00nulltrue'), max_size=24))
def test_plain_json_of_any_text(text: str) -> None:
    """Whatever the text, only the codec's own error leaves, and what is read can be stored."""
    try:
        value = loads_json(text)
    except CanonicalError:
        return
    assert same(decode(encode(value)), value)


def test_trees_for_people() -> None:
    """A tree keeps what JSON can say and spells the rest."""
    value = {
        "none": None,
        "yes": True,
        "int": 80,
        "big": 2**53,
        "price": Decimal("80.00"),
        "whole": Decimal(80),
        "wide": Decimal(2**53),
        "power": Decimal("1E+2"),
        "zero": Decimal("-0"),
        "ratio": 0.5,
        "nan": math.nan,
        "inf": -math.inf,
        "raw": b"\x00",
        "day": date(2026, 1, 31),
        "at": NOON,
        "naive": datetime(2026, 1, 31, 12),  # noqa: DTZ001 - naive on purpose
        "id": SOME_UUID,
        "gone": ABSENT,
        "list": [1, {"a": "b"}],
    }
    tree = to_json(value)
    assert tree == {
        "none": None,
        "yes": True,
        "int": 80,
        "big": "9007199254740992",
        "price": "80.00",
        "whole": 80,
        "wide": "9007199254740992",
        "power": "1E+2",
        "zero": "-0",
        "ratio": 0.5,
        "nan": "nan",
        "inf": "-inf",
        "raw": "AA==",
        "day": "2026-01-31",
        "at": "2026-01-31T12:00:00Z",
        "naive": "2026-01-31T12:00:00",
        "id": "6f1f4a9c-0d2b-4a53-9a51-0a1b2c3d4e5f",
        "gone": {"$absent": True},
        "list": [1, {"a": "b"}],
    }
    assert json.loads(dumps(tree)) == tree


@given(values)
def test_trees_can_be_dumped(value: object) -> None:
    """Every value has a tree, and every tree is JSON."""
    tree = to_json(value)
    assert json.loads(dumps(tree)) == tree
    assert json.loads(dumps(tree, indent=True)) == tree


def test_dumps_sorts_and_indents() -> None:
    """Keys are sorted, and indented text has a line a member."""
    assert dumps({"b": 1, "a": 2}) == b'{"a":2,"b":1}'
    assert dumps({"b": 1, "a": 2}, indent=True) == b'{\n  "a": 2,\n  "b": 1\n}'


@table("tree", [Decimal(1), LONE, {1: 2}, 2**64, {"a": object()}])
def test_dumps_refuses_what_is_no_tree(tree: object) -> None:
    """A value that was not made a tree is refused by the codec's own error."""
    with pytest.raises(CanonicalError):
        dumps(tree)


# --- Comparing --------------------------------------------------------------------------------------------------------

ALIKE = [
    (9, Decimal("9.0")),
    (9, Decimal("9.00")),
    (100, Decimal("1E+2")),
    (0, Decimal("-0.0")),
    (Decimal("0.10"), Decimal("0.1")),
    (Decimal("1E-63"), Decimal("10E-64")),
    (10**37, Decimal("1E+37")),
    (NOON, datetime(2026, 1, 31, 14, tzinfo=timezone(timedelta(hours=2)))),
    ([1, {"a": 2}], (Decimal("1.0"), types.MappingProxyType({"a": Decimal(2)}))),
    ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
    (State.PAID, "paid"),
    (Level.HIGH, 3),
    (bytearray(b"x"), b"x"),
]
UNLIKE = [
    (1, True),
    (0, False),
    (Decimal(1), True),
    (1, "1"),
    (None, ABSENT),
    (None, ""),
    (None, False),
    (None, 0),
    ("", ABSENT),
    ("", b""),
    ("", []),
    ("a", b"a"),
    ([], {}),
    ([], ABSENT),
    ([1], [1, 1]),
    ([1, 2], [2, 1]),
    ([1], 1),
    ([None], [ABSENT]),
    ({}, {"a": None}),
    ({"a": None}, {"a": ABSENT}),
    ({"a": 1}, {"a": True}),
    ({"a": 1}, {"b": 1}),
    ({"a": 1}, {"a": "1"}),
    (2**64, 2**64 + 1),
    (Decimal("0.1"), Decimal("0.10000000000000000000000000000000000001")),
    (1, -1),
    (1, 10),
    ("\u00e9", "e\u0301"),
    ("\u212b", "\u00c5"),
    ("a", "A"),
    (date(2026, 1, 31), "2026-01-31"),
    (date(1970, 1, 1), datetime(1970, 1, 1, tzinfo=UTC)),
    (datetime(1970, 1, 1, tzinfo=UTC), 0),
    (SOME_UUID, str(SOME_UUID)),
    (["i", "80"], 80),
    (["a"], ABSENT),
    (["l", []], []),
    ({"$absent": True}, ABSENT),
]


@table("a, b", ALIKE)
def test_alike(a: object, b: object) -> None:
    """Two forms of one value are the same and digest alike."""
    assert same(a, b)
    assert same(b, a)
    assert digest(a, kind="value") == digest(b, kind="value")
    assert fingerprint(a) == fingerprint(b)


@table("a, b", UNLIKE)
def test_unlike(a: object, b: object) -> None:
    """Two values that a lax reader takes for one are not the same and digest apart."""
    assert not same(a, b)
    assert not same(b, a)
    assert digest(a, kind="value") != digest(b, kind="value")
    assert fingerprint(a) != fingerprint(b)
    assert encode(a) != encode(b)


@given(few, few)
def test_digest_is_equal_exactly_for_the_same(a: object, b: object) -> None:
    """Digests agree if and only if the values are the same; fingerprints too."""
    expected = same(a, b)
    assert same(b, a) is expected
    assert (digest(a, kind="value") == digest(b, kind="value")) is expected
    assert (fingerprint(a) == fingerprint(b)) is expected


@given(integers | decimals, integers | decimals)
def test_numbers_digest_by_value(a: int | Decimal, b: int | Decimal) -> None:
    """Two numbers digest alike if and only if they are equal."""
    assert (digest(a, kind="value") == digest(b, kind="value")) is (a == b)
    assert same(a, b) is (a == b)


@given(values)
def test_a_value_is_itself_after_storage(value: object) -> None:
    """The digest of the stored value is that of the value, and the fingerprint of an exact value is its digest."""
    stored = decode(encode(value))
    assert digest(stored, kind="value") == digest(value, kind="value") == fingerprint(value)


@table(
    "a, b, expected",
    [
        (0.5, 0.5, True),
        (math.nan, float("nan"), True),
        (math.inf, -math.inf, False),
        (0.0, -0.0, False),
        (1.0, 1, False),
        (0.5, Decimal("0.5"), False),
        (math.nan, "nan", False),
        (math.nan, None, False),
        (0.1, 0.1 + 1e-18, True),
        (0.1, math.nextafter(0.1, 1), False),
        (datetime(2026, 1, 31), datetime(2026, 1, 31), True),  # noqa: DTZ001 - naive on purpose
        (datetime(2026, 1, 31), datetime(2026, 1, 31, tzinfo=UTC), False),  # noqa: DTZ001 - as above
        ([0.5, {"a": math.nan}], [0.5, {"a": math.nan}], True),
    ],
)
def test_inexact_reads_are_compared_exactly(a: object, b: object, expected: bool) -> None:
    """A fingerprint tells floats and naive datetimes apart to the last bit, and equal ones are equal."""
    assert same(a, b) is expected
    assert (fingerprint(a) == fingerprint(b)) is expected


def test_same_asks_no_foreign_equality() -> None:
    """An object with an equality of its own is refused, not asked."""
    liar = Liar()
    assert same(liar, liar)
    for a, b in ((liar, 1), (1, liar), ([1, liar], [1, 2])):
        with pytest.raises(CanonicalError):
            same(a, b)


@table(
    "a, b, expected",
    [
        (True, False, True),
        (1, Decimal("2.5"), True),
        ("a", "b", True),
        (State.PAID, "b", True),
        (b"a", b"b", True),
        (NOON, NOON + timedelta(days=1), True),
        (date(2026, 1, 1), date(2026, 1, 2), True),
        (SOME_UUID, UUID(int=0), True),
        (None, None, True),
        ([1], (), True),
        ({"a": 1}, {}, True),
        (True, 1, False),
        (1, "1", False),
        ("a", b"a", False),
        (NOON, date(2026, 1, 31), False),
        (NOON, datetime(2026, 1, 31), False),  # noqa: DTZ001 - naive on purpose
        (datetime(2026, 1, 31), datetime(2026, 1, 31), False),  # noqa: DTZ001 - as above
        (None, ABSENT, False),
        (ABSENT, ABSENT, False),
        (1.0, 1.0, False),
        (1.0, 1, False),
        ([], {}, False),
        (None, 0, False),
    ],
)
def test_like(a: object, b: object, expected: bool) -> None:
    """Only values of one exact, comparable kind are alike."""
    assert like(a, b) is expected
    assert like(b, a) is expected


# --- Digests ----------------------------------------------------------------------------------------------------------


def test_digest_form_is_stable() -> None:
    """These digests never change within schema 1: stored ones are compared with new ones."""
    assert digest(None, kind="value") == "sha256:9a5a9b3f2d9918006a0f46e260f9a77899f26fbd12f0929eeca1a303701bdff1"
    assert (
        digest({"a": [Decimal("80.00"), True]}, kind="args", salt=b"s")
        == "sha256:2cb672c2a58a724c35d66b72f5746c9d2bc23c47950d283d00b71e2ba53d5cf7"
    )


def test_absent_null_and_empty_digest_apart() -> None:
    """No such field, null and empty text are three digests."""
    assert len({digest(value, kind="value") for value in (ABSENT, None, "")}) == 3
    assert len({fingerprint(value) for value in (ABSENT, None, "", math.nan)}) == 4


def test_digests_are_apart_by_kind_and_salt() -> None:
    """Kind and salt part the digests, and do not run together."""
    found = {
        digest("x", kind=kind, salt=salt)
        for kind, salt in (("a", b""), ("b", b""), ("a", b"1"), ("a", b"2"), ("a1", b""), ("", b"a"), ("ab", b"1"))
    }
    assert len(found) == 7
    assert len({fingerprint("x", salt=salt) for salt in (b"", b"1", b"2")}) == 3
    assert fingerprint("x", salt=b"1") == digest("x", kind="value", salt=b"1")


# --- Names ------------------------------------------------------------------------------------------------------------


def test_identity_is_readable_and_interned() -> None:
    """The text says kind and parts, and equal keys give one object."""
    text = identity("orders", ("o-1", 2, True, SOME_UUID))
    assert text == '["orders",["o-1",["n","2"],true,["u","6f1f4a9c-0d2b-4a53-9a51-0a1b2c3d4e5f"]]]'
    assert identity("orders", ("o-1", 2, True, SOME_UUID)) is text
    assert sys.intern(text) is text


@table(
    "key",
    [
        (),
        ("",),
        ("a",),
        ("A",),
        ("a:b", "c"),
        ("a", "b:c"),
        ("a:b:c",),
        ('a","b',),
        ("a", "b"),
        ("a\\",),
        ('["n","1"]',),
        ("1",),
        (1,),
        (True,),
        (Decimal("1.5"),),
        ("1.5",),
        (b"a",),
        (date(1970, 1, 1),),
        (datetime(1970, 1, 1, tzinfo=UTC),),
        (0,),
        (SOME_UUID,),
        (str(SOME_UUID),),
        ("\u00c5",),
        ("A ",),
        ("x" * 1024,),
    ],
)
def test_identity_is_injective(key: tuple[object, ...]) -> None:
    """No other key of the table has this key's text, and a joined spelling is no key."""
    others = [
        identity(kind, other)
        for kind in ("k", "k2")
        for other in ((), ("a", "b:c"), ("a:b", "c"), ("1",), (1,), (True,), ("",), ("a",), (b"a",), (0,))
        if (kind, other) != ("k", key) and not (kind == "k" and same(other, key))
    ]
    assert identity("k", key) not in others


@given(st.lists(st.sampled_from(["", "a", "b", ",", '"', "a,b", '","', "["]), max_size=3), st.data())
def test_identity_of_two_text_keys(parts: list[str], data: st.DataObject) -> None:
    """Two keys of text have one identity if and only if they are equal."""
    other = data.draw(st.lists(st.sampled_from(["", "a", "b", ",", '"', "a,b", '","', "["]), max_size=3))
    assert (identity("k", tuple(parts)) == identity("k", tuple(other))) is (parts == other)


def test_one_resource_has_one_identity() -> None:
    """A key's number is named by its value and its datetime by the moment, whatever type a driver returns."""
    assert identity("k", (9,)) == identity("k", (Decimal("9.00"),))
    assert identity("k", (NOON,)) == identity("k", (NOON.astimezone(timezone(timedelta(hours=-5))),))
    assert identity("k", (State.PAID,)) == identity("k", ("paid",))


BAD_TEXTS = {
    "angstrom sign U+212B": "\u212b",
    "decomposed": "A\u030a",
    "NUL": "a\x00",
    "newline": "a\n",
    "delete": "a\x7f",
    "C1 control": "a\x85",
    "zero-width space": "a\u200b",
    "zero-width joiner": "a\u200d",
    "byte order mark": "\ufeffa",
    "soft hyphen": "a\u00ad",
    "right-to-left override": "a\u202eb",
    "bidi isolate": "a\u2066b",
    "lone surrogate": LONE,
    "64 KiB": "x" * 65_536,
    "1,025 bytes": "x" * 1025,
    "1,026 bytes in 513 characters": "\u00e9" * 513,
}


@pytest.mark.parametrize("text", BAD_TEXTS.values(), ids=BAD_TEXTS.keys())
def test_smuggled_names_are_refused(text: str) -> None:
    """A text that could pass for another is refused as key and as kind, never mended."""
    with pytest.raises(CanonicalError):
        identity("k", ("a", text))
    with pytest.raises(CanonicalError):
        identity(text, ("a",))


@table(
    "key",
    [(None,), (1.5,), (ABSENT,), (("a",),), (["a"],), ({"a": 1},), (b"x" * 1025,), (datetime(2026, 1, 31),), "ab", {}],  # noqa: DTZ001 - naive on purpose
)
def test_parts_that_name_nothing_are_refused(key: Any) -> None:
    """A key is a tuple of plain exact values; a bare text is not taken apart into its letters."""
    with pytest.raises(CanonicalError):
        identity("k", key)


def test_a_kind_is_named() -> None:
    """An empty kind is refused."""
    with pytest.raises(CanonicalError, match="kind"):
        identity("", ("a",))


def test_international_names_are_kept() -> None:
    """Text in NFC of any script is a name, byte for byte; compatibility forms stay apart too."""
    assert identity("k", ("\ufb01",)) != identity("k", ("fi",))
    assert identity("k", ("\u00c5 \u6771\u4eac \U0001f600",)) == '["k",["\u00c5 \u6771\u4eac \U0001f600"]]'


# --- Ids --------------------------------------------------------------------------------------------------------------


def test_ids() -> None:
    """Ids are 26 characters of lower-case base32, one for each 128 bits."""
    assert random_id(b"\x00" * 16) == "a" * 26
    assert random_id(b"\xff" * 16) == "7" * 25 + "4"
    assert intent_id(b"x") == "fvyrmqvxe2yeialcpsu7xlbs6u"
    assert intent_id(b"x") != intent_id(b"y")
    for text in (intent_id(b""), random_id(bytes(range(16)))):
        assert len(text) == 26
        assert set(text) <= set("abcdefghijklmnopqrstuvwxyz234567")


@pytest.mark.parametrize("entropy", [b"", b"x" * 15, b"x" * 17])
def test_random_ids_need_128_bits(entropy: bytes) -> None:
    """Too little entropy is refused, and too much is not dropped."""
    with pytest.raises(CanonicalError, match="16"):
        random_id(entropy)


def test_idempotency_keys() -> None:
    """One key for each pair of intent and attempt, and stable over time."""
    keys = {idempotency_key(intent, attempt) for intent in ("a", "a1", "b") for attempt in (0, 1, 10, 11)}
    assert len(keys) == 12
    assert all(key.startswith("ll-") and len(key) == 29 for key in keys)
    assert idempotency_key("a", 1) == "ll-hrzyzh76i5cipkn5vtymag6j6q"


@pytest.mark.slow
@settings(max_examples=1000, deadline=None)
@given(values)
def test_round_trip_at_length(value: object) -> None:
    """The round trip holds over many more values."""
    assert same(decode(encode(value)), value)

"""Frozen classes behave as frozen dataclasses do; commands show what they carry."""

from __future__ import annotations

import copy
import dataclasses
from typing import Any, cast

import pytest

from lastlook.commands import Close, Command, FindRow, Load, Now, Pause
from lastlook.events import AttemptOpened, StateChanged
from lastlook.frozen import Frozen
from lastlook.premises import BindingPolicy
from lastlook.records import Decision, State


class Point(Frozen):
    """A point."""

    x: int
    y: int = 0


class Identity(Frozen, eq=False):
    """Equal only to itself."""

    x: int


def test_fields_are_given_by_position_or_by_name() -> None:
    """Fields are taken in order or by name, and a default stands in for one that is not given."""
    assert Point(1, 2) == Point(1, y=2) == Point(y=2, x=1)
    assert Point(1) == Point(x=1, y=0)
    assert (Point(1).x, Point(1).y) == (1, 0)


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        ((), {}, r"Point\(\) needs an argument 'x'"),
        ((), {"y": 2}, r"Point\(\) needs an argument 'x'"),
        ((1, 2, 3), {}, r"Point\(\) takes 2 arguments, not 3"),
        ((1,), {"x": 1}, r"Point\(\) takes no argument 'x', or takes it once"),
        ((1,), {"z": 1}, r"Point\(\) takes no argument 'z'"),
    ],
)
def test_what_does_not_fit_is_refused(args: tuple[int, ...], kwargs: dict[str, int], message: str) -> None:
    """A field that is missing, unknown or given twice is a TypeError that names it."""
    with pytest.raises(TypeError, match=message):
        Point(*args, **kwargs)


def test_instances_are_values() -> None:
    """Instances of one class are equal and hash by their fields, and differ from everything else."""
    assert hash(Point(1, 2)) == hash(Point(1, 2))
    assert Point(1, 2) != Point(2, 1)
    assert Point(1, 2) != (1, 2)
    assert AttemptOpened("i", 1) != Decision("i", (1,))
    assert repr(Point(1)) == "Point(x=1, y=0)"
    assert repr(StateChanged("i", "VERDICT", State.OPEN)).startswith("StateChanged(intent_id='i', kind='VERDICT', ")
    one = Identity(1)
    assert one == one  # noqa: PLR0124 - by identity
    assert one != Identity(1)
    assert len({one, Identity(1), one}) == 2


def test_instances_match_by_position() -> None:
    """A pattern takes the fields in order."""
    match Point(1, 2):
        case Point(x, y):
            assert (x, y) == (1, 2)


def test_nothing_can_be_set_or_deleted() -> None:
    """A field, and any other attribute, can neither be set nor deleted, and the message shows the way."""
    point = Point(1)
    with pytest.raises(AttributeError, match=r"Point\.x cannot be set: make another by but\(x=\.\.\.\)"):
        point.x = 2  # type: ignore[misc]  # what is tested
    with pytest.raises(AttributeError, match=r"Point\.z cannot be set"):
        point.z = 2
    with pytest.raises(AttributeError, match=r"Point\.x cannot be deleted"):
        del point.x
    assert point == Point(1)


def test_copies() -> None:
    """A copy is equal, whole, deep or changed, and the original stays as it was."""
    point = Point(1, 2)
    assert point.but(y=3) == Point(1, 3)
    assert point == Point(1, 2)
    assert copy.copy(point) == copy.deepcopy(point) == point
    with pytest.raises(TypeError, match="takes no argument 'z'"):
        point.but(z=1)


def test_the_functions_of_dataclasses_work() -> None:
    """`dataclasses` takes frozen classes as its own: fields with defaults, dictionaries, replacement."""
    assert [field.name for field in dataclasses.fields(Point)] == ["x", "y"]
    assert [field.default for field in dataclasses.fields(Point)] == [dataclasses.MISSING, 0]
    assert dataclasses.fields(cast("Any", Frozen)) == ()
    assert dataclasses.asdict(Point(1)) == {"x": 1, "y": 0}
    assert dataclasses.replace(Point(1, 2), x=3) == Point(3, 2)
    assert dataclasses.replace(BindingPolicy(), critical=frozenset({"orders"})).allows_no_preconditions
    assert dataclasses.is_dataclass(Point)


@pytest.mark.parametrize(
    ("command", "text"),
    [(Load("i-1"), "Load(intent_id='i-1')"), (Now(), "Now()"), (Pause(0.5), "Pause(seconds=0.5)")],
)
def test_commands_show_what_they_carry(command: Command, text: str) -> None:
    """A command is shown with what it carries, and equal only to itself."""
    assert repr(command) == text
    assert command != copy.copy(command)
    assert not isinstance(command, (Close, FindRow))

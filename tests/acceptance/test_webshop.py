"""The web shop, run by its server on a real port and asked over HTTP, with the gate's ten lines in it."""

from __future__ import annotations

import inspect
import os
import re
import signal
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

if TYPE_CHECKING:
    from collections.abc import Generator

pytestmark = pytest.mark.slow

_HERE = Path(__file__).parent
_TESTS = _HERE.parent


class Server:
    """The shop's process; it can be killed, and started anew on the same database.

    Args:
        file: the database.
    """

    def __init__(self, file: Path) -> None:
        self.file = file
        self.start()

    def start(self) -> None:
        """Start the shop, and wait until it says where it listens."""
        path = os.pathsep.join([str(_TESTS), *sys.path])
        self._process = subprocess.Popen(
            [sys.executable, "-m", "uvicorn", "acceptance.webshop.app:app", "--port", "0", "--no-access-log"],
            env=os.environ | {"PYTHONPATH": path, "DATABASE_URL": f"sqlite:///{self.file}"},
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self._process.stderr is not None
        log: list[str] = []
        for line in self._process.stderr:
            log.append(line)
            found = re.search(r"running on (http://[\d.:]+)", line)
            if found is not None:
                self.client = httpx.Client(base_url=found[1], timeout=30)
                return
        pytest.fail("the shop did not start: " + "".join(log))

    def kill(self) -> None:
        """End it as a crash would."""
        self.client.close()
        self._process.send_signal(signal.SIGKILL)
        self._process.communicate()

    def ask(self, method: str, path: str, /, *, key: str | None = None, **body: Any) -> tuple[int, Any]:
        """The status and the decoded answer of a request."""
        headers = {} if key is None else {"Idempotency-Key": key}
        answer = self.client.request(method, path, json=body or None, headers=headers)
        return answer.status_code, answer.json()

    def order(self, order_id: str, **fields: Any) -> None:
        """Put an order of 80 that was delivered in a region whose limit is 100."""
        asked: dict[str, Any] = {"customer_name": "A", "region": order_id, "total": "80", "delivered": True} | fields
        assert self.ask("PUT", f"/orders/{order_id}", **asked)[0] == 200
        self.limit(order_id, 100)

    def limit(self, region: str, limit: int) -> None:
        """Set a region's limit."""
        assert self.ask("PUT", f"/policies/{region}/{limit}")[0] == 200

    def refunds(self, order_id: str) -> list[str]:
        """What was refunded of an order."""
        status, found = self.ask("GET", f"/orders/{order_id}")
        assert status == 200
        assert found["refunded"] is bool(found["refunds"])
        return list(found["refunds"])

    def propose(self, order_id: str) -> str:
        """Let the agent propose to refund the 80."""
        status, found = self.ask("POST", f"/orders/{order_id}/refund-proposals", amount="80")
        assert status == 200, found
        return str(found["proposal"])


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Generator[Server]:
    """The shop; each test has an order and a region of its own."""
    server = Server(tmp_path_factory.mktemp("webshop") / "shop.db")
    yield server
    server.kill()


def test_the_button_refunds_once(shop: Server) -> None:
    """The shop's endpoint refunds through its own service, and a second refund is a conflict that says why."""
    shop.order("button")
    assert shop.ask("POST", "/orders/button/refund", amount="80") == (200, {"message": "refunded 80 to A"})
    status, said = shop.ask("POST", "/orders/button/refund", amount="80")
    assert status == 409
    assert said["detail"].startswith("BLOCK refund")
    assert shop.refunds("button") == ["80.00"]


@pytest.mark.parametrize(
    ("fields", "amount", "told"), [({}, "120", "BLOCK refund"), ({"delivered": False}, "80", "REPLAN refund")]
)
def test_what_may_not_be_is_a_conflict(shop: Server, fields: dict[str, Any], amount: str, told: str) -> None:
    """An amount over the limit, or an order that was not delivered, is refused before anything is written."""
    shop.order("may-not", **fields)
    status, said = shop.ask("POST", "/orders/may-not/refund", amount=amount)
    assert (status, said["detail"][: len(told)]) == (409, told)
    assert shop.refunds("may-not") == []


def test_a_limit_lowered_between_proposal_and_approval(shop: Server) -> None:
    """The agent proposed under a limit of 100; approved under one of 50, nothing is refunded; under 90 again, it is."""
    shop.order("lowered")
    proposal = shop.propose("lowered")
    shop.limit("lowered", 50)
    status, said = shop.ask("POST", f"/refund-proposals/{proposal}/approve")
    assert status == 409
    assert said["detail"].startswith("BLOCK refund")
    assert shop.refunds("lowered") == []
    shop.limit("lowered", 90)
    assert shop.ask("POST", f"/refund-proposals/{proposal}/approve")[0] == 200
    assert shop.refunds("lowered") == ["80.00"]


@pytest.mark.parametrize(("limit", "status"), [(100, 200), (50, 409)])
def test_a_proposal_outlives_the_server(shop: Server, limit: int, status: int) -> None:
    """The server is killed with a proposal pending; the next one releases it, if it still holds, and only once."""
    shop.order(f"outlives-{limit}")
    proposal = shop.propose(f"outlives-{limit}")
    shop.kill()
    shop.start()
    shop.limit(f"outlives-{limit}", limit)
    answers = [shop.ask("POST", f"/refund-proposals/{proposal}/approve") for _ in range(2)]
    assert [answer[0] for answer in answers] == [status] * 2
    assert shop.refunds(f"outlives-{limit}") == (["80.00"] if status == 200 else [])


def test_a_double_click(shop: Server) -> None:
    """Eight requests with one key, at once and after a restart: one refund, and all are told the same."""
    shop.order("clicked")

    def click(_: int) -> tuple[int, Any]:
        return shop.ask("POST", "/orders/clicked/refund", key="click-1", amount="80")

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(click, range(8)))
    shop.kill()
    shop.start()
    answers.append(click(0))
    assert answers == [(200, {"message": "refunded 80 to A"})] * 9
    assert shop.refunds("clicked") == ["80.00"]


def test_a_new_name_is_taken_along(shop: Server) -> None:
    """A customer's name that was corrected meanwhile needs no new plan: the refund goes to the new one."""
    shop.order("renamed")
    proposal = shop.propose("renamed")
    assert shop.ask("PATCH", "/orders/renamed/customer/B")[0] == 200
    answer = shop.ask("POST", f"/refund-proposals/{proposal}/approve")
    assert answer == (200, {"message": "refunded 80 to B", "outcome": "REFRESH"})


def test_the_shops_own_is_as_it_was(shop: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The shop's tables have the very schema of its models, its file its journal mode, its engine no listener."""
    monkeypatch.setenv("DATABASE_URL", f"sqlite:///{tmp_path / 'bare.db'}")
    from acceptance.webshop import effects  # reads the environment
    from acceptance.webshop.database import engine
    from acceptance.webshop.models import Base
    from sqlalchemy import create_engine

    bare = create_engine(engine.url)
    Base.metadata.create_all(bare)
    bare.dispose()
    assert _schema(shop.file, "lastlook_%") == _schema(tmp_path / "bare.db", "")
    assert engine.pool.__class__ is bare.pool.__class__
    for listeners in ("connect", "checkout", "checkin", "reset"):
        assert len(getattr(engine.pool.dispatch, listeners)) == len(getattr(bare.pool.dispatch, listeners))
    source = inspect.getsource(effects).partition("gate = ")[2].splitlines()
    assert len([line for line in source if line.strip()]) == 10


def _schema(file: Path, without: str) -> list[Any]:
    with closing(sqlite3.connect(file)) as connection:
        asked = "SELECT name, sql FROM sqlite_master WHERE name NOT LIKE ? AND sql IS NOT NULL ORDER BY name"
        return [connection.execute("PRAGMA journal_mode").fetchone(), *connection.execute(asked, (without,))]

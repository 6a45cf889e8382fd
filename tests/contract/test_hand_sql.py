"""The SQL hand: rows of SQLite files and of a real PostgreSQL, and nothing written whatever is asked."""

import sqlite3
from pathlib import Path

import pytest
from tests.kit.hands import SECRET, Table, hand_table
from tests.kit.postgres import PASSWORD, postgres
from tests.kit.remotes import Authority

from gloveport.protocol.errors import GloveportError
from gloveport.sandbox.monitor.thresholds import SMALL, thresholds_of
from gloveport.sandbox.profile import Limits, Profile
from gloveport.server.accounts import Account, Database
from gloveport.server.engine.way_out import WaysOut
from gloveport.server.hands.table import HANDS
from gloveport.server.secrets.value import Secret
from gloveport.server.tools.databases import STATEMENT_S

TABLE = ("CREATE TABLE sales (region TEXT, amount REAL)", "INSERT INTO sales VALUES ('north', 3), ('south', 4.5)")
LONG = "WITH RECURSIVE a(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM a) SELECT count(*) FROM a"
LONG_ROWS = (
    "WITH RECURSIVE a(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM a WHERE x < 400) "
    "SELECT printf('%.*c', 2000, 'x') FROM a"
)
WIDE = LONG_ROWS.replace("SELECT printf", f"SELECT {', '.join('y' * 1_500)} FROM (SELECT printf") + ")"
WIDE = WIDE.replace("'x')", "'x') AS y")
"""As much as three times the hand's memory, were it all taken."""
WRITES = (
    "INSERT INTO sales VALUES ('x', 1)", "DELETE FROM sales", "DROP TABLE sales", "UPDATE sales SET amount = 0",
    "SELECT 1; DELETE FROM sales",
)  # fmt: skip


def sqlite_file(folder: Path, *, wal: bool = False) -> bytes:
    """A small database."""
    path = folder / "made.db"
    link = sqlite3.connect(path)
    if wal:
        link.execute("PRAGMA journal_mode=WAL")
    for statement in TABLE:
        link.execute(statement)
    link.commit()
    link.close()
    return path.read_bytes()


async def test_a_sqlite_file_is_asked(tmp_path: Path) -> None:
    files = {"a.db": sqlite_file(tmp_path), "w/b.db": b""}
    (tmp_path / "wal").mkdir()
    files["w/b.db"] = sqlite_file(tmp_path / "wal", wal=True)
    async with hand_table(tmp_path, files) as table:
        done = await table.use("query_database", path="a.db", sql="SELECT region, amount FROM sales ORDER BY 2 DESC")
        few = await table.use("query_database", path="a.db", sql="SELECT * FROM sales", rows=1)
        long = await table.use("query_database", path="a.db", sql=LONG_ROWS, rows=1_000)
        wide = await table.use("query_database", path="a.db", sql=WIDE, rows=1_000)
        logged = await table.use("query_database", path="w/b.db", sql="SELECT sum(amount) FROM sales")
    assert done.outcome == "ok", done
    assert done.text.splitlines()[1:] == ['["region", "amount"]', '["south", 4.5]', '["north", 3.0]']
    assert "[there are more than 1 rows; ask for fewer]" in few.text
    assert long.text.splitlines()[:2] == [
        "sqlite: rows 0 to 100", "[rows from 101 on are left out, since these are long; ask for them apart]",
    ]  # fmt: skip
    assert wide.text.splitlines()[1] == "[of long rows the first cells are shown; 1900 cells are left out]", wide
    assert logged.text.splitlines()[-1] == "[7.5]", logged
    assert "write-ahead log" in logged.text
    assert table.planned is not None
    assert [(one.kind, one.target) for one in table.planned.effects] == [("read", "w/b.db")]


async def test_nothing_is_written_or_attached(tmp_path: Path) -> None:
    attach = (
        "ATTACH '/etc/passwd' AS p",
        "PRAGMA writable_schema=1",
        "SELECT load_extension('x')",
        "VACUUM INTO '/tmp/x'",
    )
    async with hand_table(
        tmp_path, {"a.db": sqlite_file(tmp_path), "b.db": b"no database at all, but long enough"}
    ) as table:
        for sql in (*WRITES, *attach, "SELECT", ""):
            if not sql:
                continue
            done = await table.use("query_database", path="a.db", sql=sql)
            assert done.outcome == "failed", (sql, done)
        assert (await table.use("query_database", path="b.db", sql="SELECT 1")).outcome in ("ok", "failed")
        assert "2" in (await table.use("query_database", path="a.db", sql="SELECT count(*) FROM sales")).text


def known(folder: Path, port: int, **account: str) -> WaysOut:
    """Ways out with a database of the user's."""
    place = f"127.0.0.1:{port}"
    tls, ca = "tls" if account.keys() & {"tls", "ca"} else "none", account.get("ca", "")
    own = Account(place, "reader", Secret(account.get("password", PASSWORD)), tls, ca)
    return WaysOut(
        folder / "data",
        lambda: 0,
        lambda: (f"{place} loopback",),
        databases=lambda: (Database("sales", own, "postgres"),),
    )


async def ask(table: Table, sql: str, **more: int) -> str:
    """The last line of an answer, or how it failed."""
    done = await table.use("query_database", database="sales", sql=sql, **more)
    return done.text.splitlines()[-1] if done.outcome == "ok" else f"{done.outcome}: {done.text}"


async def test_a_postgresql_database_is_asked_and_cannot_be_written(tmp_path: Path) -> None:
    with postgres(*TABLE) as port:
        async with hand_table(tmp_path, {"a": b""}, ways=known(tmp_path, port)) as table:
            assert (
                await ask(table, "SELECT region, amount FROM sales ORDER BY amount DESC LIMIT 1;") == '["south", 4.5]'
            )
            assert table.planned is not None
            assert [(one.kind, one.target) for one in table.planned.effects] == [("network", f"127.0.0.1:{port}")]
            assert "SELECT region, amount" in table.planned.sends
            assert await ask(table, "-- words\nSHOW transaction_read_only") == '["on"]'
            assert (
                await ask(table, "SELECT a, a[1:2], ':x'::text FROM (VALUES (ARRAY[1,2,3])) AS t(a)")
                == '["[1, 2, 3]", "[1, 2]", ":x"]'
            )
            for sql in WRITES:
                assert (await ask(table, sql)).startswith("failed"), sql
            for sql in (
                "WITH a AS (DELETE FROM sales RETURNING *) SELECT * FROM a",
                "EXPLAIN ANALYZE DELETE FROM sales",
                "SELECT 1; COMMIT; DELETE FROM sales",
                "COPY sales TO PROGRAM 'touch /tmp/x'",
            ):
                assert (await ask(table, sql)).startswith("failed"), sql
            assert await ask(table, "SELECT count(*) FROM sales") == "[2]"
            await ask(table, "SELECT lo_create(1)")  # some servers let it through in a transaction that only reads
            assert await ask(table, "SELECT count(*) FROM pg_largeobject_metadata") == "[0]", "nothing is committed"
            more = await table.use("query_database", database="sales", sql="SELECT generate_series(1, 100000)", rows=5)
            assert "[there are more than 5 rows; ask for fewer]" in more.text
            assert more.label.integrity == 2
        (tmp_path / "second").mkdir()
        async with hand_table(
            tmp_path / "second", {"a": b""}, ways=known(tmp_path / "second", port, password="another-one")
        ) as table:
            assert "failed" in await ask(table, "SELECT 1")
        (tmp_path / "third").mkdir()
        async with hand_table(tmp_path / "third", {"a": b""}, ways=known(tmp_path / "third", port, tls="tls")) as table:
            assert "failed" in await ask(table, "SELECT 1"), "a server without the asked TLS gets no password"


async def test_a_postgresql_database_must_prove_itself_where_tls_is_asked_for(tmp_path: Path) -> None:
    """The authority that the settings name, the host's own name; else the server sees no password."""
    authority, stranger = Authority(tmp_path / "known"), Authority(tmp_path / "stranger")
    ends = {}
    for case, roots, host in (
        ("good", authority, "127.0.0.1"),
        ("of a stranger", stranger, "127.0.0.1"),
        ("of another host", authority, "127.0.0.2"),
    ):
        certificate, key = authority.issue(f"server-{host}", host)
        (tmp_path / case).mkdir()
        with postgres(*TABLE, tls=(certificate.read_bytes(), key.read_bytes())) as port:
            ways = known(tmp_path / case, port, ca=str(roots.certificate))
            async with hand_table(tmp_path / case, {"a": b""}, ways=ways) as table:
                sql = "SELECT ssl, version LIKE 'TLS%', count FROM pg_stat_ssl, (SELECT count(*) FROM sales) AS s "
                ends[case] = await ask(table, f"{sql} WHERE pid = pg_backend_pid()")
    assert ends["good"] == "[true, true, 2]"
    assert "certificate verify failed" in ends["of a stranger"]
    assert "certificate verify failed" in ends["of another host"]


async def test_a_statement_may_compute_for_longer_than_a_small_hand(tmp_path: Path) -> None:
    """Its own deadline ends it, not the share of a processor that it uses for three seconds."""
    assert thresholds_of(Profile("a", "small", (), "/", Limits(wall_s=15.0), hand="sql")).cpu_share is None
    assert HANDS["sql"].wall_s > STATEMENT_S > SMALL.cpu_window_s


async def test_a_long_statement_is_ended(tmp_path: Path) -> None:
    async with hand_table(tmp_path, {"a.db": sqlite_file(tmp_path)}) as table:
        done = await table.use("query_database", path="a.db", sql=LONG)
    assert done.outcome in ("failed", "killed", "timeout"), done
    assert "breaker" not in done.evidence, done


async def test_what_is_not_set_up_or_sends_a_secret_is_refused(tmp_path: Path) -> None:
    async with hand_table(tmp_path, {"a": b""}, ways=known(tmp_path, 5432)) as table:
        for arguments, words in (
            ({"database": "other", "sql": "SELECT 1"}, "there is no database 'other'; there are: sales"),
            ({"database": "sales", "sql": f"SELECT '{SECRET}'"}, "known to be a secret"),
            ({"sql": "SELECT 1"}, "name either a path or a database"),
        ):
            with pytest.raises(GloveportError, match=words):
                await table.use("query_database", **arguments)

"""The program that runs pytest inside a jail and reports each test.

Purpose: run pytest with a small plugin and print one line of JSON, after a marker, as the last thing.
Invariant: standard library and the workspace's pytest only; its text is given to `python -c`, so it needs no file.
Must never: import anything of the daemon, or write a file.

The report is made by the code under test's own process, so it is shown, and never an input to policy.
"""

from typing import Final

CASES_MAX: Final = 2_000
MESSAGE_CHARACTERS_MAX: Final = 400
REPORT_BYTES_MAX: Final = 300_000

PROBE: Final = r"""
import json, os, sys
marker, cases_max, message_max, report_max = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
out = os.dup(1)
try:
    import pytest
except ImportError as error:
    sys.stderr.write("pytest cannot be loaded by " + sys.executable + ": " + str(error) + "\n")
    raise SystemExit(5)

class Report:
    def __init__(self):
        self.seen, self.rank = {}, {"skipped": 0, "passed": 1, "failed": 2, "error": 3}

    def note(self, name, status, seconds, message):
        old = self.seen.get(name)
        took = int(seconds * 1e6) + (old[1] if old else 0)
        if old and self.rank[old[0]] >= self.rank[status]:
            status, message = old[0], old[2]
        self.seen[name] = (status, took, message)

    def place(self, crash):
        path = str(getattr(crash, "path", "") or "")
        return f"{os.path.relpath(path)}:{crash.lineno}: " if path else ""

    def pytest_runtest_logreport(self, report):
        if report.when != "call" and report.passed:
            return
        status = "skipped" if report.skipped else "passed" if report.passed else "failed"
        if report.failed and report.when != "call":
            status = "error"
        crash = getattr(report.longrepr, "reprcrash", None)
        message = self.place(crash) + str(getattr(crash, "message", "")) if report.failed else ""
        self.note(report.nodeid, status, getattr(report, "duration", 0.0), str(message)[:message_max])

    def pytest_collectreport(self, report):
        if report.failed:
            self.note(report.nodeid or "collection", "error", 0.0, str(report.longrepr)[-message_max:])

report = Report()
code = int(pytest.main(sys.argv[5:], plugins=[report]))
rows = [[name, *row] for name, row in report.seen.items()]
rows.sort(key=lambda row: -report.rank[row[1]])
counts = {status: sum(1 for row in rows if row[1] == status) for status in report.rank}
kept = rows[:cases_max]
while True:
    told = {"exit": code, "counts": counts, "cases": kept, "left_out": len(rows) - len(kept)}
    data = json.dumps(told)
    if len(data) <= report_max or not kept:
        break
    kept = kept[: len(kept) // 2]
sys.stdout.flush()
sys.stderr.flush()
blob = ("\n" + marker + data + "\n").encode()
while blob:
    blob = blob[os.write(out, blob):]
sys.exit(code)
"""

"""The program that runs unittest inside a jail and reports each test.

Purpose: run unittest with a result of ours and print one line of JSON, after a marker, as the last thing.
Invariant: standard library only; its text is given to `python -c`, so it needs no file.
Must never: import anything of the daemon, or write a file.

The report is made by the code under test's own process, so it is shown, and never an input to policy.
"""

from typing import Final

PROBE: Final = r"""
import json, os, sys, time, unittest
marker, cases_max, message_max, report_max = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
out = os.dup(1)
sys.path.insert(0, os.getcwd())

class Result(unittest.TextTestResult):
    seen, began = {}, 0.0
    def startTest(self, test):
        self.began = time.perf_counter()
        super().startTest(test)
    def note(self, test, status, message=""):
        rank = ["skipped", "passed", "failed", "error"]
        old = self.seen.get(test.id())
        if old is None or rank.index(old[0]) < rank.index(status):
            took = int((time.perf_counter() - self.began) * 1e6) if self.began else 0
            self.seen[test.id()] = (status, took, str(message)[:message_max])
    def told(self, error):
        place, trace = "", error[2]
        while trace is not None:
            if "__unittest" not in trace.tb_frame.f_globals:
                place = f"{os.path.relpath(trace.tb_frame.f_code.co_filename)}:{trace.tb_lineno}: "
            trace = trace.tb_next
        return place + str(error[1])
    def addSuccess(self, test):
        super().addSuccess(test); self.note(test, "passed")
    def addFailure(self, test, error):
        super().addFailure(test, error); self.note(test, "failed", self.told(error))
    def addError(self, test, error):
        super().addError(test, error); self.note(test, "error", self.told(error))
    def addSkip(self, test, reason):
        super().addSkip(test, reason); self.note(test, "skipped")
    def addExpectedFailure(self, test, error):
        super().addExpectedFailure(test, error); self.note(test, "passed")
    def addUnexpectedSuccess(self, test):
        super().addUnexpectedSuccess(test); self.note(test, "failed", "unexpected success")
    def addSubTest(self, test, subtest, error):
        super().addSubTest(test, subtest, error)
        if error is not None:
            self.note(subtest, "failed" if issubclass(error[0], test.failureException) else "error", self.told(error))

loader, names = unittest.TestLoader(), [name for name in sys.argv[5:] if name != "--"]
def load(name):
    path, _, inner = name.partition("::")
    if path.endswith(".py"):
        path = path[:-3].replace("/", ".")
        return loader.loadTestsFromName(".".join([path, *inner.split("::")]) if inner else path)
    return loader.discover(path) if os.path.isdir(path) else loader.loadTestsFromName(name)
suite = unittest.TestSuite(load(name) for name in names) if names else loader.discover(".")
runner = unittest.TextTestRunner(stream=sys.stderr, resultclass=Result, verbosity=1)
done = runner.run(suite)
code = 0 if done.wasSuccessful() else 1
rank = {"skipped": 0, "passed": 1, "failed": 2, "error": 3}
rows = sorted(([name, *row] for name, row in Result.seen.items()), key=lambda row: -rank[row[1]])
counts = {status: sum(1 for row in rows if row[1] == status) for status in rank}
kept = rows[:cases_max]
while True:
    data = json.dumps({"exit": code, "counts": counts, "cases": kept, "left_out": len(rows) - len(kept)})
    if len(data) <= report_max or not kept:
        break
    kept = kept[: len(kept) // 2]
sys.stdout.flush()
sys.stderr.flush()
blob = ("\n" + marker + data + "\n").encode()
while blob:
    blob = blob[os.write(out, blob):]
os._exit(code)
"""

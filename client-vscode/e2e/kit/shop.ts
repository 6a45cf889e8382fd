/** A small project with a failing test, and what the scripted model does in it. */

import { call, scene } from "./script.ts";
import type { Step } from "./script.ts";

export const SHOP = `"""Prices of a small shop."""


def total(prices):
    """The sum of all prices."""
    result = 0
    for price in prices:
        result = price
    return result


def cheapest(prices):
    """The lowest price."""
    return min(prices)


def label(name, price):
    """A line for the shelf."""
    return name + " " + str(price)
`;

const TESTS = `from shop import cheapest, label, total


def test_total():
    assert total([1, 2, 3]) == 6


def test_cheapest():
    assert cheapest([3, 1, 2]) == 1


def test_label():
    assert label("tea", 2) == "tea 2"
`;

export const SHOP_FILES = { "shop.py": SHOP, "test_shop.py": TESTS, "README.md": "# Shop\n" };

export const ONE = { old: "        result = price\n", new: "        result = result + price\n" };
export const TWO = { old: '    return name + " " + str(price)\n', new: '    return f"{name} {price}"\n' };

/** The last words of the job. */
export const LAST = "nothing is in your files yet.";

const plan = (...done: readonly string[]): ReturnType<typeof call> =>
  call("update_plan", {
    items: ["Run the tests", "Mend total", "Tidy label", "Run the tests again"].map((text, at) => ({ text, status: done[at] ?? "pending" })),
  });

/** Tests, two edits far apart in one file, tests again. */
export const TIDY: readonly Step[] = scene(
  "tidy the shop",
  { text: "I run the tests first, to see what fails.\n", calls: [plan("running"), call("run_tests", {})], chunk_chars: 8, delay_ms: 4 },
  {
    text: "`total` keeps only the last price. I read the module.\n",
    calls: [plan("done", "running"), call("read_file", { path: "shop.py" })],
    chunk_chars: 8,
    delay_ms: 4,
  },
  {
    text: "I mend `total`, and while I am here I tidy `label`.\n",
    calls: [
      call("edit_file", { path: "shop.py", ...ONE }),
      call("edit_file", { path: "shop.py", ...TWO }),
      call("write_file", { path: "NOTES.md", content: "# Notes\n\nTotals add up now.\n" }),
    ],
    chunk_chars: 8,
    delay_ms: 4,
  },
  { text: "The edits are made. I run all tests again.\n", calls: [plan("done", "done", "done", "running"), call("run_tests", {})] },
  { calls: [plan("done", "done", "done", "done")] },
  {
    text: `All tests pass:\n\n1. \`total\` adds every price.\n2. \`label\` is one f-string, which reads the same.\n\nAccept what you like: ${LAST}`,
    chunk_chars: 8,
    delay_ms: 4,
  },
);

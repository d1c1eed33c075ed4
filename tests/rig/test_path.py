"""docs/PATH.md is true: each function that it names is there and calls the next.

A line is `- `file:function` …`, indented under the function that calls it. `(by NAME)` says
that the call goes through a function pointer or a library: then the caller's body has NAME,
and the function's name is used as a value somewhere.
"""

import re
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LINE = re.compile(r"^( *)- `([\w/]+\.c):(\w+)`(?: \(by `([^`]+)`\))?(.*)$")
FILES_MOST = 40


def without_comments(text):
    return re.sub(r"/\*.*?\*/", " ", text, flags=re.S)


def product_sources():
    for folder in "lib proto ingress sequencer deliverer dlqd console".split():
        yield from (ROOT / folder).rglob("*.[ch]")


def bodies(file):
    """{function: its body}, by our layout: the name and `{`, `}` at the first column."""
    text = without_comments(file.read_text())
    found = {}
    for m in re.finditer(r"^[\w][^\n;{}=]*?\b(\w+)\([^;{}]*?\)\n\{\n(.*?)^\}", text, re.S | re.M):
        found[m.group(1)] = m.group(2)
    return found


def parse(text):
    """[(caller or None, file, function, by, rest)] in the order of the document."""
    calls, stack = [], []
    for line in text.splitlines():
        m = LINE.match(line)
        if not m:
            if line.startswith("#"):
                stack = []
            elif line.lstrip().startswith("- "):
                raise AssertionError(f"docs/PATH.md: not of the form `file:function`: {line}")
            continue
        depth = len(m.group(1)) // 2
        del stack[depth:]
        if depth > len(stack):
            raise AssertionError(f"docs/PATH.md: no caller above: {line}")
        step = (m.group(2), m.group(3))
        calls.append((stack[-1] if stack else None, *step, m.group(4), m.group(5)))
        stack.append(step)
    return calls


class Path(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.calls = parse((ROOT / "docs/PATH.md").read_text())
        cls.bodies = {f: bodies(ROOT / f) for _, f, *_ in cls.calls}

    def test_each_function_is_where_it_says(self):
        missing = [f"{f}:{name}" for _, f, name, *_ in self.calls if name not in self.bodies[f]]
        self.assertEqual(missing, [])

    def test_each_function_calls_the_next(self):
        code = "\n".join(without_comments(f.read_text()) for f in product_sources())
        wrong = []
        for caller, f, name, by, _ in self.calls:
            if not caller:
                continue
            body = self.bodies[caller[0]][caller[1]]
            called = by if by else name
            if not re.search(rf"\b{re.escape(called)}\b", body):
                wrong.append(f"{caller[0]}:{caller[1]} does not call {called}")
            if by and not re.search(rf"\b{name}\b(?!\()", code):
                wrong.append(f"{f}:{name} is no function's value anywhere")
        self.assertEqual(wrong, [])

    def test_each_function_says_what_it_does(self):
        self.assertEqual([n for _, _, n, _, rest in self.calls if len(rest.strip()) < 10], [])

    def test_a_delivered_event_passes_through_a_readable_number_of_files(self):
        path, further = (ROOT / "docs/PATH.md").read_text().split("\n## Further paths\n")
        self.assertTrue(parse(further))
        self.assertLessEqual(len({f for _, f, *_ in parse(path)}), FILES_MOST)


if __name__ == "__main__":
    unittest.main()

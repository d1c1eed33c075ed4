"""The texts of the portal: each that a module has in English, as t`…`, is in the file of every other language with the same
values in it, and that file has no others."""

import pathlib
import re
import unittest

PAGES = pathlib.Path(__file__).parents[2] / "console" / "pages"
# Messages of the API, which no module has.
OF_THE_API = {"there is no such thing in this workspace",
              "the request cannot be answered at the moment, or its change may have been made without a response: "
              "repeat it later, a change with the same Idempotency-Key"}


def imported(name):
    """The modules that this one imports, directly or not, at once or later."""
    found, wanted = set(), [name]
    while wanted:
        each = wanted.pop()
        if each not in found:
            found.add(each)
            wanted += re.findall(r'(?:from |import\()"\./([a-z_]+\.js)"', (PAGES / each).read_text())
    return found


def template(text, at):
    """(the key of the template whose text begins there, where it ends)"""
    key, values = "", 0
    while text[at] != "`":
        if text[at] == "\\":
            key, at = key + text[at + 1], at + 2
        elif text.startswith("${", at):
            key, values, at = f"{key}{{{values}}}", values + 1, at + 2
            depth = 1
            while depth:
                if text[at] == "`":
                    at = template(text, at + 1)[1]
                elif text[at] == '"':
                    at = re.compile(r'"(?:[^"\\]|\\.)*"').match(text, at).end()
                else:
                    depth += {"{": 1, "}": -1}.get(text[at], 0)
                    at += 1
        else:
            key, at = key + text[at], at + 1
    return key, at + 1


def texts(name):
    text = re.sub(r"^ *//.*$", "", (PAGES / name).read_text(), flags=re.M)
    return {template(text, m.end())[0] for m in re.finditer(r"(?<![\w.`])t`", text)}


def language(path):
    """{English: translated}"""
    found = re.findall(r'^    "((?:[^"\\]|\\.)*)":\s+"((?:[^"\\]|\\.)*)",$', path.read_text(), re.M)
    return {k.replace('\\"', '"'): v for k, v in found}


class Texts(unittest.TestCase):
    def test_every_language_has_every_text_of_the_portal(self):
        wanted = set().union(*(texts(name) for name in imported("portal.js")))
        self.assertGreater(len(wanted), 200)
        files = list(PAGES.glob("texts_*.js"))
        for path in files:
            with self.subTest(path.name):
                known = language(path)
                self.assertEqual(wanted - set(known), set(), "add these")
                self.assertEqual(set(known) - wanted - OF_THE_API, set(), "remove these")
                for english, other in known.items():
                    self.assertEqual(sorted(re.findall(r"\{\d\}", english)), sorted(re.findall(r"\{\d\}", other)), english)
        # Each file can be chosen.
        chosen = re.search(r"LANGUAGES = \[(.*?)\]", (PAGES / "texts.js").read_text())[1]
        self.assertEqual(sorted(re.findall(r'"(\w+)"', chosen)), sorted(p.stem[6:] for p in files))


if __name__ == "__main__":
    unittest.main()

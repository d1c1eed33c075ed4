"""The runner of guides runs every block and reports every failure."""

import pathlib
import tempfile
import unittest

from guide import Guide

TEXT = """# A guide

## One

Words.

1. In a list:

   ```sh
   cd /srv/place
   greeting="good day"     # kept for the next block
   ```

## Two

<!-- file: made.yaml -->
```yaml
listen: 127.0.0.1:8080
```
<!-- append: made.yaml -->
```yaml
more: yes
```

```sh
grep -c . made.yaml
for word in a b; do echo "$greeting, $word"; done
service restart "two words"
```
<!-- output -->
```text
2
good day, …
… b
restarted two words
```

```json
{"shown": "only"}
```

<!-- not run: needs a name in the world's DNS -->
```sh
false
```
"""


class Guides(unittest.TestCase):
    def guide(self, text, **how):
        folder = tempfile.TemporaryDirectory(prefix="gr guide-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "place").mkdir()
        path = self.folder / "guide.md"
        path.write_text(text)
        guide = Guide(path, self.folder, **how)
        self.addCleanup(guide.close)
        return guide

    def whole(self, text=TEXT, **more):
        self.asked = []

        def service(words):
            self.asked.append(words)
            return f"{words[0]}ed {words[1]}\n"

        return self.guide(text, commands={"service": service}, replace={
            "/srv/place": "../place", ":8080": ":9", **more})

    def test_blocks_are_run_in_order_and_keep_folder_and_variables(self):
        guide = self.whole()
        self.assertEqual(guide.run("One"), "")
        self.assertIn("good day, a\ngood day, b\n", guide.run("Two"))
        self.assertEqual(self.asked, [["restart", "two words"]])
        self.assertEqual((self.folder / "place" / "made.yaml").read_text(),
                         "listen: 127.0.0.1:9\nmore: yes\n")
        guide.finish()

    def test_a_command_that_fails_is_shown_with_its_line(self):
        guide = self.guide("# A\n\n```sh\necho before\nfalse | cat\necho after\n```\n")
        with self.assertRaisesRegex(
                AssertionError, r"guide.md, line 4 \(A\): exit 1(?s:.*)before"):
            guide.run()

    def test_another_output_is_a_failure(self):
        guide = self.whole(TEXT.replace("good day, …", "good night, …"))
        with self.assertRaisesRegex(AssertionError, "not printed: good night"):
            guide.run()

    def test_a_block_that_was_not_run_or_replaced_is_a_failure(self):
        guide = self.whole()
        guide.run("One")
        with self.assertRaisesRegex(AssertionError, "never run: .*Two"):
            guide.finish()
        guide = self.whole(port="1")
        guide.run()
        with self.assertRaisesRegex(AssertionError, r"does not say \['port'\]"):
            guide.finish()

    def test_a_function_that_fails_fails_the_command(self):
        def broken(words):
            raise ValueError("no such unit")
        guide = self.guide("# A\n```sh\nservice x\n```\n",
                           commands={"service": broken})
        with self.assertRaisesRegex(AssertionError, "ValueError: no such unit"):
            guide.run()

    def test_an_unknown_heading_is_a_failure(self):
        with self.assertRaisesRegex(AssertionError, "no block under 'Three'"):
            self.whole().run("Three")


unittest.main(verbosity=2)

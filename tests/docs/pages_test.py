#!/usr/bin/env python3
"""The reader of pages and their checker, against small pages of known faults."""

import pathlib
import tempfile
import unittest

import check_pages
import pages

PAGE = """# Some `code`, and more

See [there](#some-code-and-more) and `--epochs`.

```sh
ripieno-train --a \\
  --b | cat > file   # --comment
cat > x.ini <<'EOF'
--not-an-option
EOF
```
  ```python
  # tool.py FILE: does
  print()
  ```
"""

PROGRAM = """#!/bin/sh
if [ "$1" = make ]; then
  echo "  -v, --verbose  say more"
else
  printf "Usage: x\\n\\ncommands:\\n  make   makes\\n"
fi
"""


class PagesTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name) / "page.md"
        self.path.write_text(PAGE)
        self.page = pages.read_page(self.path)

    def test_blocks_have_language_line_and_file_name(self):
        self.assertEqual([(block.language, block.line) for block in self.page.blocks], [("sh", 5), ("python", 12)])
        self.assertEqual(self.page.blocks[1].file_name, "tool.py")
        self.assertEqual(self.page.blocks[1].lines[1], "print()")
        self.assertIsNone(self.page.blocks[0].file_name)

    def test_links_code_and_anchors_come_from_prose_alone(self):
        self.assertEqual(self.page.links, [(3, "#some-code-and-more")])
        self.assertEqual(self.page.inline_code, [(1, "code"), (3, "--epochs")])
        self.assertEqual(self.page.anchors, {"some-code-and-more"})

    def test_commands_are_joined_and_without_comments_and_documents(self):
        self.assertEqual(check_pages.joined(self.page.blocks[0]),
                         ["ripieno-train --a --b", "cat > file", "cat > x.ini"])

    def test_a_block_that_does_not_end_is_an_error(self):
        self.path.write_text("```sh\nls\n")
        with self.assertRaisesRegex(ValueError, "line 1"):
            pages.read_page(self.path)


class CheckerTest(unittest.TestCase):
    """A tree of one page, beside programs that are scripts."""

    def check(self, text):
        with tempfile.TemporaryDirectory() as name:
            root = pathlib.Path(name)
            for folder in ("docs", "bin", "drivers"):
                (root / folder).mkdir()
            (root / "drivers/a.cpp").write_text("int first;\n  int second;\n")
            for driver in check_pages.DRIVERS:
                (root / "bin" / driver).write_text(PROGRAM)
                (root / "bin" / driver).chmod(0o755)
            (root / "README.md").write_text(text)
            return check_pages.Checker(root.resolve(), root).run()

    def test_a_right_page_has_no_fault(self):
        self.assertEqual(self.check("# A b\n[x](#a-b) [y](drivers/a.cpp) `drivers/a.cpp` `--verbose`\n```sh\n"
                                    "ripieno-train make --verbose\n```\n```cpp\nint first;\nint second;\n```\n"), [])

    def test_every_fault_is_found(self):
        for text, fault in (("[x](nothing.md)", "no such file"), ("# A\n[x](#b)", "no such heading"),
                            ("`drivers/b.cpp`", "no such file"), ("`b.hpp`", "no such file"),
                            ("`--wrong`", "no program has"), ("`ripieno-train make --wrong`", "has no option --wrong"),
                            ("```\nls\n```", "does not say"), ("```sh\nripieno-dataset mke\n```", "no command mke"),
                            ("```cpp\nint second;\nint first;\n```", "no source file")):
            faults = self.check(text + "\n")
            self.assertEqual(len(faults), 1, (text, faults))
            self.assertIn(fault, faults[0])


if __name__ == "__main__":
    unittest.main()

"""README.md and docs/*.md as the tests read them: fenced blocks, prose, links and headings.

The info string of a fenced block says what becomes of it:
    sh        commands that a test runs, in order, in a folder of the page's own
    console   commands shown only, because they need a cluster, a package manager or much time
    python, ini, json, csv
              files, where the first line is a comment that begins with a file name; they lie in that folder
    cpp       lines of a source file that the build compiles
    text, cmake and others
              only shown
"""

import dataclasses
import pathlib
import re

FENCE = re.compile(r"^( *)```([\w-]*)\s*$")
NAMED_FILE = re.compile(r"#\s*([\w-]+\.(?:py|ini|csv|txt))\b")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
CODE = re.compile(r"`([^`]+)`")


@dataclasses.dataclass
class Block:
    language: str
    line: int
    lines: list

    @property
    def text(self):
        return "\n".join(self.lines) + "\n"

    @property
    def file_name(self):
        match = NAMED_FILE.match(self.lines[0]) if self.lines else None
        return match[1] if match and self.language in ("python", "ini", "csv") else None


@dataclasses.dataclass
class Page:
    path: pathlib.Path
    blocks: list = dataclasses.field(default_factory=list)
    prose: list = dataclasses.field(default_factory=list)  # (line number, text)

    @property
    def links(self):
        return [(number, target) for number, text in self.prose for target in LINK.findall(CODE.sub("", text))]

    @property
    def inline_code(self):
        return [(number, code) for number, text in self.prose for code in CODE.findall(text)]

    @property
    def anchors(self):
        return {slug(text.lstrip("#").strip()) for _, text in self.prose if re.match(r"#{1,6} ", text)}


def slug(heading):
    """The anchor that GitHub gives a heading."""
    plain = LINK.sub(lambda match: match[0][1:match[0].index("]")], heading).replace("`", "").lower()
    return re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")


def read_page(path):
    page, block, indent = Page(path), None, 0
    for number, line in enumerate(path.read_text().splitlines(), 1):
        fence = FENCE.match(line)
        if block is None and fence:
            block, indent = Block(fence[2], number, []), len(fence[1])
        elif block is not None and fence and not fence[2]:
            page.blocks.append(block)
            block = None
        elif block is not None:
            block.lines.append(line[indent:] if line[:indent].isspace() else line)
        else:
            page.prose.append((number, line))
    if block is not None:
        raise ValueError(f"{path} line {block.line}: the block does not end")
    return page


def all_pages(root):
    return [read_page(path) for path in [root / "README.md", *sorted((root / "docs").glob("*.md"))]]

"""The places in the sources that throw an error for the user, and the words by which an output shows one of them."""

import dataclasses
import re

PARTS = ("accounting", "io", "framework", "drivers")
LEAST_CHARACTERS = 5


@dataclasses.dataclass(frozen=True)
class Site:
    place: str
    kind: str
    fragments: tuple  # literal parts of the text, in order


def arguments_from(text, begin):
    """The arguments of a call from behind its opening bracket to the closing one."""
    depth, position, quoted = 1, begin, False
    while depth:
        character = text[position]
        if quoted:
            position += character == "\\"
            quoted = character != '"'
        elif character == '"':
            quoted = True
        else:
            depth += (character in "({[") - (character in ")}]")
        position += 1
    return text[begin:position - 1]


def find(source):
    """Sites that have at least some words of their own; those that pass on the text of another are left out."""
    sites = []
    for path in sorted(path for part in PARTS for path in (source / part).rglob("*.cpp")):
        text = path.read_text()
        for match in re.finditer(r"\b(Usage|Data|Privacy|Comm)Error[({]", text):
            arguments = re.sub(r'"\s*"', "", arguments_from(text, match.end()))
            literals = re.findall(r'"((?:[^"\\]|\\.)*)"', arguments)
            fragments = tuple(literal.replace('\\"', '"').strip() for literal in literals
                              if len(literal.strip()) >= LEAST_CHARACTERS)
            if fragments:
                line = text.count("\n", 0, match.start()) + 1
                sites.append(Site(f"{path.relative_to(source)}:{line}", match[1] + "Error", fragments))
    return sites


def seen_in(sites, output):
    """Sites with the first and most of their other words in one line. (Alternatives of one text never appear together.)"""
    lines = [line for line in output.splitlines() if ": error: " in line]

    def shows(line, site):
        found = sum(fragment in line for fragment in site.fragments)
        return site.fragments[0] in line and 2 * found > len(site.fragments)

    return [site for site in sites if any(shows(line, site) for line in lines)]


def named_by_tests(source, sites):
    """Sites of which some test in C++ expects words."""
    tests = "\n".join(path.read_text() for path in (source / "tests").rglob("*.cpp"))
    return [site for site in sites if any(fragment in tests for fragment in site.fragments)]

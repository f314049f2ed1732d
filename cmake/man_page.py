#!/usr/bin/env python3
"""man_page.py PROGRAM PAGE.1: a manual page of what `PROGRAM --help`, and `--help` of each of its commands, print."""

import re
import subprocess
import sys
from pathlib import Path

ENTRY = re.compile(r"^  (\S.*?)(?:\s{2,}(\S.*))?$")  # a term, and the beginning of its text unless that is on the next line
SECTION = re.compile(r"^(\w[\w ]*):$")


def roff(text):
    """Text as roff takes it literally."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    escaped = "".join(c if c.isascii() else f"\\[u{ord(c):04X}]" for c in escaped)
    return "\\&" + escaped if escaped.startswith((".", "'")) else escaped


def help_of(program, *command):
    return subprocess.run([program, *command, "--help"], check=True, capture_output=True, text=True).stdout


def entries(lines):
    """[(term, text)] of the indented lines of a section; what is indented further belongs to the entry before."""
    found = []
    for line in lines:
        entry = ENTRY.match(line)
        if entry:
            found.append((entry[1], [entry[2]] if entry[2] else []))
        elif found and line.strip():
            found[-1][1].append(line.strip())
    return [(term, " ".join(text)) for term, text in found]


def without_examples(lines):
    """The lines of commands; that of an example, which the command's own section repeats, left out."""
    return [line for line in lines if not re.match(r"^ +ripieno-\w+ ", line)]


def parse(text):
    """(usage, summary, [(section, lines)]) of a help text."""
    usage, summary, *rest = text.splitlines()
    sections, tail = [], []
    for line in rest:
        title = SECTION.match(line)
        if title:
            sections.append((title[1], []))
        elif line.startswith("  "):
            if not sections:
                sections.append(("arguments", []))
            sections[-1][1].append(line)
        elif line and not line.endswith("--help' tells the options of a command."):  # the page tells them itself
            tail.append(line)
    return usage.removeprefix("Usage: "), " ".join([summary, *tail]), sections


def section_roff(title, lines, heading):
    """A section; lines of examples stay lines, all others are terms and their texts."""
    page = [f'.{heading} "{roff(title.upper() if heading == "SH" else title)}"']
    if title == "for example":
        return page + [".nf", *(roff(line.strip()) for line in lines), ".fi"]
    for term, text in entries(without_examples(lines)):
        page += [".TP", f".B {roff(term)}", roff(text)]
    return page


def command_roff(program, *command):
    """A section for the command, and one for each of its own commands."""
    usage, summary, sections = parse(help_of(program, *command))
    page = [f'.SH "{roff(" ".join(command).upper())}"', ".B " + roff(usage), ".PP", roff(summary)]
    for title, lines in sections:
        if title != "general":  # those are the same for all commands, and told once
            page += section_roff(title, lines, "SS")
    for name in command_names(dict(sections).get("commands", [])):
        page += command_roff(program, *command, name)
    return page


def command_names(lines):
    """Names of the commands that a section lists."""
    return [found[1] for line in lines if (found := re.match(r"^  ([a-z][a-z-]*)\s{2,}\S", line))]


def page_of(program):
    name = Path(program).name
    version = subprocess.run([program, "--version"], check=True, capture_output=True, text=True).stdout.split()[1]
    usage, summary, sections = parse(help_of(program))
    page = [f'.TH "{roff(name.upper())}" 1 "" "Ripieno {version}" "Ripieno"', ".ad l", ".SH NAME",
            f"{roff(name)} \\- {roff(summary.split('. ')[0].rstrip('.'))}", ".SH SYNOPSIS", ".B " + roff(usage),
            ".SH DESCRIPTION", roff(summary)]
    for title, lines in sections:
        page += section_roff(title, lines, "SH")
    commands = command_names(dict(sections).get("commands", []))
    for command in commands:
        page += command_roff(program, command)
    if commands:
        general = dict(parse(help_of(program, commands[-1]))[2]).get("general", [])
        page += section_roff("general options", general, "SH")
    return "\n".join(page) + "\n"


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(page_of(sys.argv[1]), encoding="ascii")

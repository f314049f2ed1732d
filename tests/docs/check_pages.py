#!/usr/bin/env python3
"""Checks what README.md and docs/*.md say against the source tree and the built programs.

    check_pages.py SOURCE BUILD

Every relative link and anchor resolves; every block says what it is; every option exists in --help of the program that it
is given to; every file, test and benchmark named in backticks exists; every C++ snippet stands, line by line, in a source
file that the build compiles. Exit status 1 with a line for each fault.
"""

import functools
import pathlib
import re
import subprocess
import sys

import pages

DRIVERS = ("ripieno-train", "ripieno-dataset", "ripieno-privacy")
PARTS = ("accounting", "io", "framework", "drivers", "tests", "benchmarks", "slurm", "docs", "scripts", "cmake")
COMMAND = re.compile(r"\b(?:ripieno-(?:train|dataset|privacy)|mpiexec|mpirun|sbatch|srun|cmake|ctest|scripts/\w+)\b")
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*")
# Options that pages name by themselves and that belong to benchmarks, or to programs of others.
FOREIGN = {"--array", "--build", "--cold", "--component", "--config", "--cpus-per-task", "--cuda", "--dependency", "--fit",
           "--gpus-per-node", "--gpus-per-task", "--help", "--install", "--mpi", "--nodes", "--ntasks-per-node", "--only",
           "--oversubscribe", "--prefix", "--preset", "--requeue", "--signal", "--strategies", "--target", "--tests"}


def joined(block):
    """The commands of a block, one a line, without comments and here documents."""
    text = re.sub(r"\s*\\\n\s*", " ", block.text)
    text = re.sub(r"<<'?(\w+)'?(.*?)\n.*?\n\1\n", r"\2\n", text, flags=re.DOTALL)
    text = re.sub(r"(^|\s)#.*", "", text)
    return [command.strip() for command in re.split(r"\||;|&&|\n", text) if command.strip()]


class Programs:
    """The built programs' own account of their commands and options."""

    def __init__(self, build):
        self.build = build

    @functools.cache
    def help(self, words):
        program = self.build / "bin" / words[0]
        return subprocess.run([program, *words[1:], "--help"], text=True, capture_output=True, check=True).stdout

    def commands(self, words):
        text = self.help(words)
        if "\ncommands:\n" not in text:
            return []
        return re.findall(r"^  ([a-z][\w-]*) ", text.split("\ncommands:\n")[1].split("\n\n")[0], re.MULTILINE)

    def options(self, words):
        return set(re.findall(r"^  (?:-\w, )?(--[a-z0-9-]+)", self.help(words), re.MULTILINE))

    def all_options(self, words):
        own = self.options(words)
        return own.union(*(self.all_options((*words, command)) for command in self.commands(words)))

    def resolve(self, arguments):
        """The program and subcommand that `arguments` begin with, or the word that is no subcommand."""
        words = (arguments[0],)
        for word in arguments[1:]:
            commands = self.commands(words)
            if not commands or word.startswith(("-", "…")):
                break
            if word not in commands:
                return words, word
            words = (*words, word)
        return words, None


class Checker:
    def __init__(self, source, build):
        self.source, self.programs, self.faults = source, Programs(build), []
        self.pages = pages.all_pages(source)
        self.anchors = {page.path: page.anchors for page in self.pages}
        sources = [path for part in PARTS for path in (source / part).rglob("*") if path.is_file()]
        self.names = {path.name for path in sources}
        self.compiled = {path: stripped(path.read_text()) for path in sources if path.suffix == ".cpp"}
        cmake = "".join(path.read_text() for path in sources if path.suffix == ".cmake" or path.name == "CMakeLists.txt")
        self.built_names = set(re.findall(r"\bbench-[\w-]+|\bripieno-[\w-]+|\b\w+_example\b", cmake))
        self.test_names = set(re.findall(r"TEST(?:_F|_P)?\(\w+,\s*(\w+)\)", "".join(
            "\n".join(lines) for path, lines in self.compiled.items() if "tests" in path.parts)))
        self.known_options = FOREIGN.union(*(self.programs.all_options((driver,)) for driver in DRIVERS))

    def fault(self, page, line, message):
        self.faults.append(f"{page.path.relative_to(self.source)} line {line}: {message}")

    def check_links(self, page):
        for line, target in page.links:
            if re.match(r"https?://", target):
                continue
            name, _, anchor = target.partition("#")
            path = (page.path.parent / name).resolve() if name else page.path
            if not path.exists():
                self.fault(page, line, f"link to {target}: no such file")
            elif anchor and anchor not in self.anchors.get(path, set()):
                self.fault(page, line, f"link to {target}: no such heading")

    def check_block(self, page, block):
        if not block.language:
            kind = "sh or console" if any(COMMAND.search(line) for line in block.lines) else "text, or the language"
            self.fault(page, block.line, f"the block does not say what it is ({kind})")
        if block.language in ("sh", "console"):
            for command in joined(block):
                self.check_command(page, block.line, command)
        if block.language == "cpp" and not self.stands_in_a_source(block):
            self.fault(page, block.line, "these lines stand in no source file that is compiled")

    def check_command(self, page, line, command):
        words = [word.rpartition("/")[2] if "/ripieno-" in word else word for word in command.split()]
        begin = next((i for i, word in enumerate(words) if word in DRIVERS), None)
        if begin is None:
            return
        program, unknown = self.programs.resolve(words[begin:])
        if unknown:
            self.fault(page, line, f"{' '.join(program)} has no command {unknown}")
            return
        for option in OPTION.findall(" ".join(words[begin:])):
            if option not in self.programs.options(program):
                self.fault(page, line, f"{' '.join(program)} has no option {option}")

    def stands_in_a_source(self, block):
        wanted = stripped(block.text)
        return any(lines[i:i + len(wanted)] == wanted for lines in self.compiled.values()
                   for i, text in enumerate(lines) if text == wanted[0])

    def check_inline(self, page, line, code):
        if any(driver in code.split() for driver in DRIVERS):
            self.check_command(page, line, code)
        else:
            for option in OPTION.findall(code):
                if option not in self.known_options:
                    self.fault(page, line, f"no program has an option {option}")
        for word in code.split():
            self.check_name(page, line, word.rstrip(",.;:"))

    def check_name(self, page, line, word):
        if re.fullmatch(r"Invariant_\w+|(?=.*[a-z])([A-Z][a-z]*){7,}", word):
            known = word in self.test_names
        elif re.fullmatch(r"[\w-]+\.(cpp|hpp)", word):
            known = word in self.names
        elif re.fullmatch(rf"(?:{'|'.join(PARTS)})/[\w./*-]+", word):
            known = any(self.source.glob(word.rstrip("/")))
        elif re.fullmatch(r"bench-[\w-]+|build/cpu/bin/[\w-]+", word):
            known = word.rpartition("/")[2] in self.built_names
        else:
            return
        if not known:
            self.fault(page, line, f"{word}: no such file, program or test")

    def check_contents(self):
        """README.md lists every page of docs/."""
        listed = {target for _, target in self.pages[0].links}
        for page in self.pages[1:]:
            name = f"docs/{page.path.name}"
            if name not in listed:
                self.fault(self.pages[0], 1, f"no link to {name}")

    def run(self):
        for page in self.pages:
            self.check_links(page)
            for block in page.blocks:
                self.check_block(page, block)
            for line, code in page.inline_code:
                self.check_inline(page, line, code)
        self.check_contents()
        return self.faults


def stripped(text):
    return [line.strip() for line in text.splitlines() if line.strip()]


def main():
    checker = Checker(pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve())
    faults = checker.run()
    print("\n".join(faults))
    blocks = [block.language for page in checker.pages for block in page.blocks]
    print(f"{len(checker.pages)} pages, {len(faults)} faults; blocks: " +
          ", ".join(f"{blocks.count(language)} {language or 'bare'}" for language in sorted(set(blocks))))
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Triggers the errors of the drivers that a command line can trigger, and reads each.

    errors_test.py SOURCE BUILD

Every command ends with its documented exit code and one line `PROGRAM: error: WHAT (WHY); TRY`. At the end stands how many of
the places in the sources that throw an error were seen in these lines, and how many of the others a test elsewhere names.
"""

import collections
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import error_cases
import error_sites

MOST_CHARACTERS = 600


def grammar_faults(program, text):
    """What is wrong with a program's standard error, which should hold one error line, warnings before it."""
    lines = [line for line in text.splitlines() if line.startswith(f"{program}: error: ")]
    others = [line for line in text.splitlines() if not re.match(rf"{program}: (error|warning): ", line)]
    if len(lines) != 1 or others:
        return [f"{len(lines)} error lines and {len(others)} others"]
    error = lines[0].removeprefix(f"{program}: error: ")
    first = error.split()[0]
    plain = re.sub(r"[\[(][^\[\]()]+, [^\[\]()]+[\])]|2\^53\)", "", error)  # intervals, which may be half open
    rules = {
        "ends in a full stop": error.endswith((".", "!")),
        "begins with a capital": first.isalpha() and first[0].isupper() and not first.isupper(),
        "has unequal parentheses": plain.count("(") != plain.count(")"),
        "has an empty part": "()" in error or "; ;" in error or error.endswith((";", "(", ":")),
        "has two blanks": "  " in error,
        "speaks of C++": re.search(r"std::|what\(\)|terminate|Exception raised from|\.cpp", error) is not None,
        "is too long": len(error) > MOST_CHARACTERS,
    }
    return [rule for rule, broken in rules.items() if broken]


def run(command, build, folder):
    program, *arguments = command.arguments.split()
    done = subprocess.run([build / "bin" / program, *arguments], cwd=folder, capture_output=True, text=True, timeout=120,
                          env=os.environ | command.environment, stdin=subprocess.DEVNULL, check=False)
    faults = grammar_faults(program, done.stderr)
    if done.returncode != command.code:
        faults.append(f"exit code {done.returncode} instead of {command.code}")
    if command.text not in done.stderr:
        faults.append(f"does not say '{command.text}'")
    return done.stderr, faults


def main():
    source, build = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
    cases = error_cases.CASES
    with tempfile.TemporaryDirectory(prefix="ripieno-errors-") as name:
        folder = pathlib.Path(name)
        error_cases.make_files(folder, source, build)
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            results = list(pool.map(lambda case: run(case, build, folder), cases))
    failed = 0
    for case, (text, faults) in zip(cases, results):
        if faults:
            failed += 1
            print(f"{case.arguments}\n  {text.strip()}\n  " + "; ".join(faults))
    sites = error_sites.find(source)
    seen = error_sites.seen_in(sites, "\n".join(text for text, _ in results))
    elsewhere = error_sites.named_by_tests(source, [site for site in sites if site not in seen])
    kinds = collections.Counter(site.kind for site in seen)
    print(f"{len(cases)} errors triggered, {failed} wrong; of {len(sites)} places that throw with a text of their own "
          f"{len(seen)} were seen ({', '.join(f'{count} {kind}' for kind, count in sorted(kinds.items()))}), "
          f"{len(elsewhere)} more are named by other tests")
    if os.environ.get("RIPIENO_FULL"):
        for site in sites:
            if site not in seen and site not in elsewhere:
                print(f"  {site.place}: {' … '.join(site.fragments)}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()

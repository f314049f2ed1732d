#!/usr/bin/env python3
"""Decides from the files of a run alone, and without any code of the product, whether its invariants hold.

    check_run.py OUT        prints what it counted; exit status 1 and a message when something does not hold

It needs operator.jsonl (--operator-log), in which a run notes each release after it was made.
"""

import dataclasses
import hashlib
import json
import pathlib
import re
import sys

import h5py

STEP = re.compile(rb'\{"seg":(\d+),"step":(\d+),"hash":"([0-9a-f]{32})"\}')
LINE = re.compile(rb'(.*),"hash":"([0-9a-f]{32})"\}', re.DOTALL)
SHORTEST_RECORD = len(b'{"seg":1,"step":0,"hash":""}') + 32


class Violation(Exception):
    pass


def require(condition, message):
    if not condition:
        raise Violation(message)


@dataclasses.dataclass
class Segment:
    first_step: int
    nonce: str
    records: int = 0
    torn: int = 0


@dataclasses.dataclass
class Ledger:
    segments: list = dataclasses.field(default_factory=list)
    heads: dict = dataclasses.field(default_factory=dict)  # position in the file -> hash of the line that ends there
    next_steps: dict = dataclasses.field(default_factory=dict)  # position -> (segment, next step)

    @property
    def charged(self):
        return sum(segment.records + segment.torn for segment in self.segments)


def chain(previous, text):
    return hashlib.sha256(previous + text).digest()[:16]


def read_ledger(content):
    ledger, head, position = Ledger(), bytes(16), 0
    lines = content.split(b"\n")
    for number, line in enumerate(lines[:-1], 1):
        match = LINE.fullmatch(line)
        require(match and chain(head, match[1]).hex() == match[2].decode(), f"line {number} breaks the hash chain")
        head, position = bytes.fromhex(match[2].decode()), position + len(line) + 1
        if step := STEP.fullmatch(line):
            segment = ledger.segments[-1]
            require(int(step[1]) == len(ledger.segments), f"line {number} names another segment")
            require(int(step[2]) == segment.first_step + segment.records, f"line {number} is out of order")
            segment.records += 1
        elif number > 1:
            start = line.find(b'{"segment":')
            header = json.loads(line[start:])
            require(header["segment"] == len(ledger.segments) + 1, f"line {number} is not the next segment")
            require(header["torn_bytes"] == start, f"line {number} hides what was torn")
            if start > 0:
                ledger.segments[-1].torn += max(1, start // SHORTEST_RECORD)
            ledger.segments.append(Segment(header["first_step"], header["nonce_hash"]))
        ledger.heads[position] = head.hex()
        if ledger.segments:
            segment = ledger.segments[-1]
            ledger.next_steps[position] = (len(ledger.segments), segment.first_step + segment.records)
    if lines[-1]:
        ledger.segments[-1].torn += 1
    nonces = [segment.nonce for segment in ledger.segments]
    require(len(set(nonces)) == len(nonces), "two segments have the same keys")
    return ledger


def releases(path):
    """Notes of releases that can be read, and lines that cannot."""
    if not path.exists():
        return 0, 0
    good = broken = 0
    for line in path.read_bytes().split(b"\n"):
        try:
            good += "step" in json.loads(line)
        except ValueError:
            broken += bool(line)
    return good, broken


def check_checkpoints(folder, ledger):
    """Each whole one stands where the ledger stood; none is ahead of it."""
    found = 0
    for path in sorted(folder.glob("step-*.h5")):
        with h5py.File(path, "r") as file:
            step, length, head = (file.attrs[name] for name in ["step", "ledger_bytes", "ledger_head"])
        text = [value.decode() if isinstance(value, bytes) else str(value) for value in (step, length, head)]
        require(ledger.heads.get(int(text[1])) == text[2], f"{path.name} was written with another ledger")
        require(ledger.next_steps[int(text[1])][1] == int(text[0]), f"{path.name} is not at the ledger's step")
        require(path.stat().st_mode & 0o777 == 0o600, f"{path.name} can be read by others")
        found += 1
    return found


def check(out, earlier=b""):
    """Checks the run; `earlier` is what its ledger held at some time before. Returns counts and the ledger's content."""
    out = pathlib.Path(out)
    path = out / "ledger.jsonl"
    content = path.read_bytes() if path.exists() else b""
    require(content.startswith(earlier), "the ledger has lost or changed what it held")
    if not content:
        require(not list(out.glob("checkpoints/step-*.h5")), "there are checkpoints but no ledger")
        return {"charged": 0, "released": 0, "segments": 0, "checkpoints": 0}, content
    ledger = read_ledger(content)
    released, broken = releases(out / "operator.jsonl")
    require(released <= ledger.charged, f"{released} releases were made but {ledger.charged} are counted")
    # A blow may fall between record and release, or between release and note: one record for each that had a segment.
    unexplained = ledger.charged - released - broken - len(ledger.segments)
    require(unexplained <= 0, f"{ledger.charged} records for {released} releases in {len(ledger.segments)} segments")
    return {"charged": ledger.charged, "released": released, "unreadable_notes": broken,
            "segments": len(ledger.segments), "checkpoints": check_checkpoints(out / "checkpoints", ledger)}, content


if __name__ == "__main__":
    try:
        print(json.dumps(check(sys.argv[1])[0]))
    except Violation as violation:
        print(f"check_run: {violation}", file=sys.stderr)
        sys.exit(1)

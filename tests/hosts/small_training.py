"""A training run that takes seconds: made-up data, a tiny model, and where the programs are."""

import array
import json
import os
import pathlib
import random
import struct
import subprocess

import hosts

BIN = pathlib.Path(os.environ.get("RIPIENO_BIN_DIR", pathlib.Path(__file__).resolve().parents[2] / "build/cpu/bin"))
TRAIN = BIN / "ripieno-train"
EXAMPLES = 400
FEATURES = 4


def make_dataset(folder):
    """EXAMPLES rows of FEATURES normal numbers in three classes, imported into two shards; the manifest's path."""
    numbers = random.Random(7)
    folder.mkdir(parents=True)
    rows = [[numbers.gauss(0, 1) for _ in range(FEATURES)] for _ in range(EXAMPLES)]
    values = array.array("f", [value for row in rows for value in row])
    values.byteswap()  # IDX files are big-endian
    labels = bytes(2 if row[0] > 0.5 else int(row[1] > 0) for row in rows)
    (folder / "x.idx").write_bytes(struct.pack(">HBBII", 0, 0x0D, 2, EXAMPLES, FEATURES) + values.tobytes())
    (folder / "y.idx").write_bytes(struct.pack(">HBBI", 0, 0x08, 1, EXAMPLES) + labels)
    subprocess.run([BIN / "ripieno-dataset", "import", "idx", "--images", folder / "x.idx", "--labels", folder / "y.idx",
                    "--out", folder, "--name", "tiny", "--classes", "3", "--shards", "2"],
                   check=True, capture_output=True)
    return folder / "tiny.json"


def train_command(data, out, **changes):
    """ripieno-train with a small run's options, some of them changed; None for a value makes a flag of it."""
    options = {"data": data, "out": out, "model": "mlp", "model-arg": "hidden=8", "expected-batch": 32, "steps": 20,
               "noise-multiplier": 1.5, "delta": 1e-5, "clipping-norm": 1, "lr": 0.5, "momentum": 0.9, "threads": 1}
    options |= {name.replace("_", "-"): value for name, value in changes.items()}
    command = [str(TRAIN)]
    for name, value in options.items():
        command += [f"--{name}"] if value is None else [f"--{name}", str(value)]
    return command


def ranks_on(network, host):
    """Process ids of the ranks on one host of a network (hosts.py), as seen from here."""
    return [pid for pid in network.processes(host, str(TRAIN)) if hosts.command_line(pid).startswith(str(TRAIN))]


def result(out):
    return json.loads((pathlib.Path(out) / "result.json").read_text())

#!/usr/bin/env python3
"""Poisson batches of normalised float32 rows: our stream beside what people use in Python, as ratios within one run.

usage: io_peers.py [--rounds N] [--cold] [--small] [--only NAME]... [--program build/cpu/bin/bench-io-measure]
Run it with the Python of the tests' virtual environment (scripts/setup --tests). All methods draw their batch, read it
and convert it; they take turns within a round, and the figures are medians over the rounds. Warm: examples a second of
processor time, one process, page cache full; DataLoader's workers of wall time. --cold: of wall time, the page cache
dropped before each (root only).
"""

import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import h5py
import numpy as np
import torch
import torch.utils.data

RATES = (0.001, 0.01, 0.1)
SETS = {  # name: shape of an example, number of examples, type on the disk
    "784 B": ((28, 28), 400_000, np.uint8),
    "3 KB": ((3, 32, 32), 100_000, np.uint8),
    "150 KB": ((3, 224, 224), 8_000, np.uint8),
    "512 tokens": ((512,), 100_000, np.int32),
}
SCALE = np.float32(1 / 255)


def converted(rows):
    """As a model takes them: bytes as numbers in [0, 1], tokens as int64."""
    return rows.astype(np.float32) * SCALE if rows.dtype == np.uint8 else rows.astype(np.int64)


def make_set(folder, shape, count, dtype):
    """An HDF5 file as people write it, and the same as a dataset of ours."""
    path = folder / "plain.h5"
    rng = np.random.default_rng(1)
    with h5py.File(path, "w") as file:
        x = file.create_dataset("x", (count, *shape), dtype)
        file.create_dataset("y", data=np.zeros(count, np.int64))
        block = max(1, (1 << 24) // int(np.prod(shape)))
        for begin in range(0, count, block):
            n = min(block, count - begin)
            x[begin:begin + n] = rng.integers(0, 256, (n, *shape), dtype=dtype)
    return path


class Single(torch.utils.data.Dataset):
    """The dataset that tutorials show: opened in the worker, one row a call."""

    def __init__(self, path):
        self.path, self.file = path, None

    def __getitem__(self, index):
        if self.file is None:
            self.file = h5py.File(self.path, "r")
        return torch.from_numpy(converted(self.file["x"][index]))


class PoissonBatches(torch.utils.data.Sampler):
    """As Opacus draws: a coin an example, torch.rand(N) < q."""

    def __init__(self, count, rate):
        self.count, self.rate = count, rate

    def __iter__(self):
        while True:
            yield torch.nonzero(torch.rand(self.count) < self.rate).flatten().tolist()


def draw(count, rate):
    return np.flatnonzero(torch.rand(count).numpy() < rate)


class Peers:
    def __init__(self, path, shape, count, dtype, rate):
        self.path, self.count, self.rate = path, count, rate
        self.file = h5py.File(path, "r")
        self.map = np.memmap(path, dtype, "r", self.file["x"].id.get_offset(), (count, *shape))
        self.ram = torch.from_numpy(self.file["x"][:])
        self.loaders = {}

    def loader(self, workers):
        if workers not in self.loaders:
            loader = torch.utils.data.DataLoader(Single(self.path), batch_sampler=PoissonBatches(self.count, self.rate),
                                                 num_workers=workers, persistent_workers=workers > 0)
            self.loaders[workers] = iter(loader)
        return self.loaders[workers]

    def one_batch(self):
        return len(next(self.loader(0)))

    def rate_of_workers(self, workers):
        """Examples a second of wall time, without the batches that the workers made while others had their turn."""
        loader, batches = self.loader(workers), 2 * workers  # as many as they make ahead
        for _ in range(batches):
            next(loader)
        return timed(lambda: sum(len(next(loader)) for _ in range(batches)), time.perf_counter)

    def fancy(self):
        ids = draw(self.count, self.rate)
        return len(converted(self.file["x"][ids]))

    def memmap(self):
        ids = draw(self.count, self.rate)
        return len(converted(self.map[ids]))

    def tensor(self):
        ids = torch.from_numpy(draw(self.count, self.rate))
        rows = self.ram[ids]
        return len(rows.to(torch.float32) * float(SCALE) if rows.dtype == torch.uint8 else rows.to(torch.int64))


def timed(body, clock):
    start = clock()
    examples = body()
    return examples / max(clock() - start, 1e-9)


def ours(program, manifest, rate, method, seed, state):
    text = subprocess.run([program, manifest, str(rate), method, str(seed), state], check=True, capture_output=True,
                          text=True).stdout
    return float(text.split()[0 if state == "warm" else 1])


def drop_caches():
    os.sync()
    pathlib.Path("/proc/sys/vm/drop_caches").write_text("3")


def measure(arguments, manifest, path, shape, count, dtype, rate):
    peers = Peers(path, shape, count, dtype, rate)
    state = "cold" if arguments.cold else "warm"
    methods = {name: (lambda seed, m=name: ours(arguments.program, manifest, rate, m, seed, state))
               for name in (("stream", "pread") if arguments.cold else ("stream", "memory", "memcpy"))}
    clock = time.perf_counter if arguments.cold else time.process_time
    if arguments.cold:
        methods["memmap"] = lambda seed: timed(peers.memmap, clock)
    else:
        methods.update({
            "DataLoader+h5py, 0 workers": lambda seed: timed(peers.one_batch, clock),
            # Workers are other processes, whose processor time is not this one's.
            "DataLoader+h5py, 1 worker": lambda seed: peers.rate_of_workers(1),
            "DataLoader+h5py, 2 workers": lambda seed: peers.rate_of_workers(2),
            "h5py fancy indexing": lambda seed: timed(peers.fancy, clock),
            "numpy memmap": lambda seed: timed(peers.memmap, clock),
            "torch tensor in memory": lambda seed: timed(peers.tensor, clock),
        })
    rates = {name: [] for name in methods}
    for seed in range(arguments.rounds):
        for name, method in methods.items():
            if arguments.cold:
                drop_caches()
            rates[name].append(method(seed))
    stream = rates["stream"]
    for name, values in rates.items():
        if name == "stream":
            continue
        ratio = statistics.median(a / b for a, b in zip(stream, values))
        print(f"  {name:28} {statistics.median(values):12.0f} ex/s   stream is {ratio:7.2f} x", flush=True)
    print(f"  {'stream':28} {statistics.median(stream):12.0f} ex/s", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    root = pathlib.Path(__file__).parent.parent
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--cold", action="store_true")
    parser.add_argument("--small", action="store_true", help="a tenth of the examples, for a quick look")
    parser.add_argument("--only", action="append", choices=SETS, metavar="NAME", help="of: " + ", ".join(SETS))
    parser.add_argument("--program", default=str(root / "build/cpu/bin/bench-io-measure"))
    parser.add_argument("--dataset-program", default=str(root / "build/cpu/bin/ripieno-dataset"))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    for name in arguments.only or SETS:
        shape, count, dtype = SETS[name]
        count = count // 10 if arguments.small else count
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            path = make_set(folder, shape, count, dtype)
            subprocess.run([arguments.dataset_program, "import", "hdf5", "--from", path, "--out", folder / "ours",
                            "--shards", "4", "-q"], check=True)
            for rate in RATES:
                print(f"{name}, {count} examples, q = {rate}, {'cold' if arguments.cold else 'warm'}", flush=True)
                measure(arguments, str(folder / "ours/train.json"), path, shape, count, dtype, rate)


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Runs the commands of one page as a reader would who typed them in a clone after the build.

    run_page.py SOURCE BUILD PAGE.md

Each `sh` block runs under `bash -euo pipefail` in a new folder that looks like the clone; the files that the page shows
lie there before. In place of all 60000 images of Fashion-MNIST the commands find the first 10000, and 1000 to test on. Blocks
that are only shown are listed. Exit status 1 where a command fails.
"""

import gzip
import os
import pathlib
import struct
import subprocess
import sys
import tempfile

import pages

FASHION_MNIST = pathlib.Path("/usr/share/datasets/fashion-mnist")
TIME_LIMIT_S = 300
BUILT = {"build", "data", "run"}  # folders of a clone that the commands make themselves


def shorten_idx(source, target, count):
    """Writes the first `count` entries of a gzip-compressed IDX file of bytes."""
    with gzip.open(source) as file:
        magic = file.read(4)
        _, *sizes = struct.unpack(f">{magic[3]}I", file.read(4 * magic[3]))
        entry = 1
        for size in sizes:
            entry *= size
        values = file.read(count * entry)
    with gzip.open(target, "wb", compresslevel=1) as file:
        file.write(magic + struct.pack(f">{magic[3]}I", count, *sizes) + values)


def make_clone(source, build, folder):
    """Links to everything in the source tree but to what commands write."""
    for entry in source.iterdir():
        if entry.name not in BUILT and not entry.name.startswith("."):
            (folder / entry.name).symlink_to(entry)
    (folder / "build").mkdir()
    (folder / "build/cpu").symlink_to(build)
    images = folder / "data/source"
    images.mkdir(parents=True)
    for split, count in (("train", 10000), ("t10k", 1000)):
        for kind in ("images-idx3", "labels-idx1"):
            name = f"{split}-{kind}-ubyte.gz"
            shorten_idx(FASHION_MNIST / name, images / name, count)
    return images


def environment(build):
    launcher = {"OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_hwloc_base_binding_policy": "none"}
    path = [str(build / "bin"), os.path.dirname(sys.executable), os.environ["PATH"]]
    return os.environ | launcher | {"PATH": os.pathsep.join(path)}


def first_command(block):
    return next((line for line in block.lines if line and not line.startswith("#")), "")


def run_blocks(page, folder, images, variables):
    for block in page.blocks:
        if block.file_name:
            (folder / block.file_name).write_text(block.text)
    for block in page.blocks:
        if block.language != "sh":
            continue
        commands = block.text.replace(str(FASHION_MNIST), str(images))
        done = subprocess.run(["bash", "-euo", "pipefail", "-c", commands], cwd=folder, env=variables, text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=TIME_LIMIT_S, check=False)
        print(f"--- {page.path.name} line {block.line}\n{done.stdout}", end="")
        if done.returncode != 0:
            sys.exit(f"{page.path} line {block.line}: exit status {done.returncode}")


def main():
    source, build, page = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), pages.read_page(pathlib.Path(sys.argv[3]))
    count = sum(block.language == "sh" for block in page.blocks)
    if count:
        with tempfile.TemporaryDirectory(prefix="ripieno-docs-") as name:
            folder = pathlib.Path(name)
            run_blocks(page, folder, make_clone(source, build, folder), environment(build))
    shown = [block for block in page.blocks if block.language == "console"]
    print(f"{page.path.name}: {count} blocks of commands ran, {len(shown)} are only shown")
    for block in shown:
        print(f"  line {block.line}: {first_command(block)}")


if __name__ == "__main__":
    main()

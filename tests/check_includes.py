#!/usr/bin/env python3
"""Checks the #include lines of the source tree: dependencies point one way, heavy headers stay out of public ones.

usage: check_includes.py [ROOT]
Prints one line FILE:LINE: what is wrong, for each fault; exit code 1 when there are any.
"""

import pathlib
import re
import sys

# A folder may include from itself and from those before it.
LAYERS = ["accounting/base", "accounting", "io", "framework", "drivers"]
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
HEAVY = re.compile(r"^(mpi\.h|hdf5(_hl)?\.h|H5\w+\.h|nccl\.h|torch/torch\.h|torch/all\.h)$")
TORCH = re.compile(r"^(torch|ATen|c10)/")
# What a layer must build without.
FOREIGN = {
    "accounting/base": re.compile(rf"{TORCH.pattern}|{HEAVY.pattern}"),
    "accounting": re.compile(rf"{TORCH.pattern}|{HEAVY.pattern}"),
    "io": re.compile(rf"{TORCH.pattern}|^mpi\.h$|^nccl\.h$"),
}


def layer_of(path):
    """Name of the layer of a path such as accounting/ledger/plan.hpp; None outside the layers."""
    matches = [layer for layer in LAYERS if path == layer or path.startswith(layer + "/")]
    return max(matches, key=len, default=None)


def is_internal(path):
    return path.endswith("_internal.hpp")


def fault(path, quote, target):
    """Why the file at `path` may not include `target`; None when it may."""
    layer = layer_of(path)
    public_header = path.endswith(".hpp") and not is_internal(path)
    if quote == '"':
        if layer == "drivers":  # executables: nobody includes from there
            return None
        return f'"{target}" is not found from other folders; write <ripieno/...>'
    if public_header and HEAVY.match(target):
        return f"<{target}> belongs into .cpp files and *_internal.hpp headers"
    if public_header and is_internal(target):
        return f"<{target}> is internal; a header that others include may not"
    if layer in FOREIGN and FOREIGN[layer].match(target):
        return f"{layer} must build without <{target}>"
    if not target.startswith("ripieno/"):
        return None
    included = target.removeprefix("ripieno/")
    if included == "version.hpp":
        return None
    included_layer = "framework" if included == "ripieno.hpp" else layer_of(included)
    if included_layer is None:
        return f"<{target}> is in none of the folders {', '.join(LAYERS)}"
    if LAYERS.index(included_layer) > LAYERS.index(layer):
        return f"{layer} may not include {included_layer} (<{target}>)"
    return None


def faults_of_file(root, file):
    path = file.relative_to(root).as_posix()
    text = file.read_text(encoding="utf-8")
    if path.endswith(".hpp") and "#pragma once" not in text:
        yield f"{path}:1: no #pragma once"
    for number, line in enumerate(text.splitlines(), start=1):
        if match := INCLUDE.match(line):
            if why := fault(path, match[1], match[2]):
                yield f"{path}:{number}: {why}"


def check(root):
    """All faults below `root`, and the number of files that were read."""
    files = sorted(
        file
        for folder in sorted({layer.split("/")[0] for layer in LAYERS})
        for file in (root / folder).rglob("*")
        if file.suffix in {".hpp", ".cpp", ".cu", ".cuh"}
    )
    return [line for file in files for line in faults_of_file(root, file)], len(files)


def main(arguments):
    root = pathlib.Path(arguments[0] if arguments else pathlib.Path(__file__).parent.parent).resolve()
    faults, count = check(root)
    if count == 0:
        faults.append(f"{root}: no source files")
    for line in faults:
        print(line)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Opens in Python what ripieno-train wrote.

    check_trained.py script ORIGINAL.pt OUT FROZEN_PREFIX   TorchScript: trained weights in place, the others unchanged
    check_trained.py dictionary OUT                         a dictionary that torch.load reads with weights_only=True
"""

import json
import pathlib
import sys
import warnings

import h5py
import torch

warnings.filterwarnings("ignore", category=FutureWarning)  # TorchScript is deprecated in Python


def stored(out):
    with h5py.File(out / "model.h5") as file:
        return {name: torch.from_numpy(dataset[()]) for name, dataset in file.items()}, file.attrs["ledger_head"]


def check_script(original, out, frozen_prefix):
    notes = {"ledger_head": "", "model_sha256": ""}
    trained = torch.jit.load(out / "model.pt", _extra_files=notes)
    before = torch.jit.load(original).state_dict()
    after = trained.state_dict()
    parameters, ledger_head = stored(out)
    assert before.keys() == after.keys(), (before.keys(), after.keys())
    result = json.loads((out / "result.json").read_text())
    assert notes["ledger_head"].decode() == ledger_head == result["ledger_head"]
    assert notes["model_sha256"].decode() == result["model"]["sha256"]
    for name, p in trained.named_parameters():
        frozen = frozen_prefix != "-" and name.startswith(frozen_prefix)
        assert torch.equal(p, before[name]) == frozen, f"{name} frozen: {frozen}"
        assert torch.equal(p, parameters[name]), f"{name} differs from model.h5"
        assert p.requires_grad, f"{name} lost requires_grad"
    trained(torch.load(original.with_name(original.stem + "-input.pt"), weights_only=True))


def check_dictionary(out):
    dictionary = torch.load(out / "model.pt", weights_only=True)
    parameters, _ = stored(out)
    assert dictionary.keys() == parameters.keys(), (dictionary.keys(), parameters.keys())
    for name, value in dictionary.items():
        assert value.shape == parameters[name].shape and torch.equal(value, parameters[name]), name


def main():
    arguments = iter(sys.argv[1:])
    checked = 0
    for kind in arguments:
        if kind == "script":
            check_script(pathlib.Path(next(arguments)), pathlib.Path(next(arguments)), next(arguments))
        else:
            check_dictionary(pathlib.Path(next(arguments)))
        checked += 1
    print(f"{checked} models are right")


if __name__ == "__main__":
    main()

"""Commands that must fail, and the files that they fail on."""

import dataclasses
import shutil
import struct
import subprocess

USAGE, DATA, PRIVACY, COMMUNICATION = 2, 3, 4, 5

# Options of commands that are right but for what a case adds or leaves out.
NAMES = {
    "schedule": "--noise-multiplier 1 --sample-rate 0.1 --steps 10",
    "goal": "--epsilon 1 --delta 1e-5",
    "mechanism": "ripieno-privacy mechanism --delta 1e-5 --noise-multiplier 1 --kind",
    "plan": "--expected-batch 20 --clipping-norm 1 --delta 1e-5 --lr 1 --out run",
    "noise": "--steps 5 --noise-multiplier 1",
    "train": "ripieno-train --config train.ini --threads 1 -q",
    "csv": "ripieno-dataset import csv --out new --schema",
}


@dataclasses.dataclass(frozen=True)
class Case:
    arguments: str
    code: int
    text: str
    environment: dict = dataclasses.field(default_factory=dict, hash=False)


def cases(code, *pairs):
    return [Case(arguments, code, text) for arguments, text in pairs]


COMMON = cases(
    USAGE,
    ("ripieno-privacy", "no command given"),
    ("ripieno-privacy epsilo", "did you mean epsilon?"),
    ("ripieno-privacy epsilon", "--noise-multiplier is missing"),
    ("ripieno-privacy epsilon {schedule} --delta 1e-5 --step 3", "did you mean --steps?"),
    ("ripieno-privacy epsilon {schedule} --delta 1e-5 extra", "'extra' is no option"),
    ("ripieno-privacy epsilon {schedule} --delta 1e-5 -v -q", "contradict each other"),
    ("ripieno-privacy epsilon {schedule} --delta 1e-5 --delta 1e-6", "is given twice"),
    ("ripieno-privacy epsilon {schedule} --delta small", "--delta is 'small' (must be a number)"),
    ("ripieno-privacy epsilon {schedule} --delta 1e-5 --json=perhaps", "--json"),
    ("ripieno-privacy epsilon --config none.ini", "cannot read none.ini"),
    ("ripieno-privacy epsilon --config section.ini", "unknown section [optimiser]"),
    ("ripieno-privacy epsilon --config key.ini", "unknown key 'detla'; did you mean delta?"),
    ("ripieno-privacy epsilon --config twice.ini", "'delta' is given twice"),
    ("ripieno-privacy epsilon --config form.ini", "is not of the form 'key = value'"),
    ("ripieno-privacy analyze", "LEDGER is missing"),
)

ACCOUNTING = cases(
    USAGE,
    ("ripieno-privacy epsilon --noise-multiplier -1 --sample-rate 0.1 --steps 10 --delta 1e-5", "is -1"),
    ("ripieno-privacy epsilon --noise-multiplier nan --sample-rate 0.1 --steps 10 --delta 1e-5", "noise"),
    ("ripieno-privacy epsilon --noise-multiplier 1 --sample-rate 1.5 --steps 10 --delta 1e-5", "is 1.5"),
    ("ripieno-privacy epsilon --noise-multiplier 1 --sample-rate 0.1 --steps -1 --delta 1e-5", "--steps is -1"),
    ("ripieno-privacy epsilon --noise-multiplier 1 --sample-rate 0.1 --steps 1.5 --delta 1e-5", "must be an integer"),
    ("ripieno-privacy epsilon {schedule} --delta 1", "is 1"),
    ("ripieno-privacy delta {schedule} --epsilon -1", "is -1"),
    ("ripieno-privacy calibrate {goal} --steps 10", "neither is given"),
    ("ripieno-privacy calibrate {goal} --steps 10 --sample-rate 0.1 --noise-multiplier 1", "both are given"),
    ("ripieno-privacy calibrate --epsilon 0 --delta 1e-5 --steps 10 --sample-rate 0.1", "epsilon is 0"),
    ("ripieno-privacy calibrate --epsilon 1 --delta 0 --steps 10 --sample-rate 0.1", "the target delta is 0"),
    ("ripieno-privacy calibrate --epsilon 1e-9 --delta 1e-99 --steps 10 --sample-rate 1", "no noise multiplier up to"),
    ("ripieno-privacy calibrate --epsilon 1e-9 --delta 1e-99 --steps 9000000000 --noise-multiplier 0.01", "no sample rate"),
    ("{mechanism} truncated-poisson", "needs --"),
    ("{mechanism} bernoulli", "must be one of poisson"),
    ("{mechanism} truncated-poisson --sample-rate 0.1 --batch 0 --num-examples 100 --steps 10", "1 or more"),
    ("{mechanism} without-replacement --batch 200 --num-examples 100 --steps 10", "a batch of 200 of 100 examples"),
    ("{mechanism} k-out-of-t --participations 20 --steps 10", "must be in [1, steps]"),
    ("{mechanism} balls-in-bins --bins 3 --steps 10", "multiple of the number of bins"),
    ("{mechanism} poisson --sample-rate 0.1 --steps 10 --group 0", "the group has 0 examples"),
    ("{mechanism} cyclic-poisson --bins 0 --steps 10 --sample-rate 0.1 --strategy band-mf --coefficient 1", "0"),
    ("{mechanism} cyclic-poisson --bins 1 --steps 10 --sample-rate 0.1 --strategy band-mf --coefficient 1 "
     "--coefficient 0.5", "the strategy has more than 1 bands"),
    ("{mechanism} matrix-factorisation --strategy lambda-cgd --lambda 1.5 --steps 10", "lambda"),
    ("{mechanism} matrix-factorisation --strategy bsr --bandwidth 0 --steps 10", "bandwidth"),
    ("{mechanism} matrix-factorisation --strategy band-mf --steps 10", "band"),
    ("{mechanism} matrix-factorisation --min-separation 0 --steps 10", "the minimum separation is 0"),
    ("{mechanism} matrix-factorisation --participations 0 --steps 10", "0 participations"),
    ("ripieno-privacy analyze good.jsonl --delta 0", "--delta is 0"),
    ("ripieno-privacy audit --canaries canaries.csv", "neither is given"),
    ("ripieno-privacy audit --canaries canaries.csv --epsilon 1 --ledger good.jsonl --delta 1e-5", "both are given"),
    ("ripieno-privacy audit --canaries canaries.csv --epsilon 1", "--delta is missing"),
    ("ripieno-privacy audit --canaries canaries.csv {goal} --confidence 2", "the confidence of an audit is 2"),
) + cases(
    DATA,
    ("ripieno-privacy analyze none.jsonl", "cannot read none.jsonl"),
    ("ripieno-privacy analyze canaries.csv", "canaries.csv"),
    ("ripieno-privacy analyze empty.txt", "empty.txt"),
    ("ripieno-privacy analyze broken.jsonl", "broken.jsonl"),
    ("ripieno-privacy analyze good.jsonl --plot no/plot.svg", "cannot write no/plot.svg"),
    ("ripieno-privacy audit --canaries none.csv {goal}", "cannot read none.csv"),
    ("ripieno-privacy audit --canaries empty.txt {goal}", "no list of canaries"),
    ("ripieno-privacy audit --canaries odd.csv {goal}", "line 2: not a canary"),
) + cases(
    PRIVACY,
    ("ripieno-privacy analyze good.jsonl copy.jsonl", "was made twice from the same keys"),
    ("ripieno-privacy analyze good.jsonl other.jsonl", "are over different data"),
    ("ripieno-privacy audit --canaries canaries.csv --epsilon 0.01 --delta 1e-5", "refutes the accounted epsilon"),
)

DATASETS = cases(
    USAGE,
    ("ripieno-dataset import", "no command given"),
    ("ripieno-dataset import parquet", "unknown command 'parquet'"),
    ("ripieno-dataset verify", "is missing"),
    ("ripieno-dataset import images --from pictures --out new --size large", "HEIGHTxWIDTH is expected"),
    ("ripieno-dataset import csv good.csv --schema good.json --out new --privacy-unit person", "--privacy-unit"),
    ("ripieno-dataset import text --from text --out new --example window --length 0", "windows of no length"),
    ("ripieno-dataset import csv good.csv --schema good.json --out new --shards 0", "shard"),
    ("ripieno-dataset split table/train.json --part a --out new", "is not NAME=FRACTION"),
    ("ripieno-dataset split table/train.json --part a=2 --out new", "a fraction in (0, 1]"),
    ("ripieno-dataset split table/train.json --part a=0.5 --out new", "the parts do not sum to 1"),
    ("ripieno-dataset split table/train.json --part a=0.999 --part b=0.001 --out new", "part b would be empty"),
    ("ripieno-dataset reshard table/train.json --out table --force", "would replace its own source"),
    ("ripieno-dataset reshard table/train.json images/train.json --out new", "2 datasets are named"),
    ("ripieno-dataset features --data images/train.json --map wavelets --out new", "must be one of"),
) + cases(
    DATA,
    ("ripieno-dataset import fashion-mnist --from text --out new", "no train-images-idx3-ubyte[.gz] in text"),
    ("ripieno-dataset import idx --images none --labels labels.idx --out new", "none"),
    ("ripieno-dataset import idx --images good.csv --labels labels.idx --out new", "good.csv"),
    ("ripieno-dataset import idx --images cut.idx --labels labels.idx --out new", "cut.idx"),
    ("ripieno-dataset import idx --images images.idx --labels images.idx --out new", "does not hold labels"),
    ("ripieno-dataset import idx --images images.idx --labels short.idx --out new", "differ in length"),
    ("ripieno-dataset import npy --x none.npy --y y.npy --out new", "none.npy"),
    ("ripieno-dataset import npy --x good.csv --y y.npy --out new", "good.csv"),
    ("ripieno-dataset import npy --x complex.npy --y y.npy --out new", "complex.npy"),
    ("ripieno-dataset import npy --x x.npy --y short.npy --out new", "differ in length"),
    ("{csv} none.json good.csv", "none.json"),
    ("{csv} good.csv good.csv", "cannot parse good.csv"),
    ("{csv} unknown-key.json good.csv", "unknown key 'maen'"),
    ("{csv} unknown-type.json good.csv", "unknown type 'vector'"),
    ("{csv} std.json good.csv", "unusable mean or std"),
    ("{csv} value-twice.json good.csv", "a value is listed twice"),
    ("{csv} no-values.json good.csv", "a category without values"),
    ("{csv} no-classes.json good.csv", "the classes are not clear"),
    ("{csv} no-feature.json good.csv", "no feature"),
    ("{csv} two-labels.json good.csv", "two labels, or two ids"),
    ("{csv} no-label.json good.csv", "what to predict is not clear"),
    ("{csv} column-twice.json good.csv", "is listed twice"),
    ("{csv} no-list.json good.csv", "columns is not a list"),
    ("{csv} one-more.json good.csv", "no column 'extra'"),
    ("{csv} one-less.json good.csv", "column 'size' is not in the schema"),
    ("{csv} good.json none.csv", "none.csv"),
    ("{csv} good.json empty.txt", "a line of column names is expected"),
    ("{csv} good.json head.csv", "no record in head.csv"),
    ("{csv} good.json fields.csv", "has 4 fields"),
    ("{csv} good.json word.csv", "column 'size'"),
    ("{csv} good.json gap.csv", "column 'size'"),
    ("{csv} good.json label.csv", "column 'kind'"),
    ("{csv} good.json quote.csv", "opens a quote"),
    ("ripieno-dataset import images --from text --out new", "text"),
    ("ripieno-dataset import images --from pictures --out new", "broken.png"),
    ("ripieno-dataset import text --from pictures/a --out new --example window --length 9000", "no text in"),
    ("ripieno-dataset import hdf5 --from none.h5 --x x --y y --out new", "none.h5"),
    ("ripieno-dataset import hdf5 --from good.csv --x x --y y --out new", "good.csv"),
    ("ripieno-dataset import hdf5 --from bad/good_0.h5 --x pixels --y y --out new", "dataset 'pixels'"),
    ("ripieno-dataset import csv good.csv --schema good.json --out table", "exists already"),
    ("ripieno-dataset info none", "none"),
    ("ripieno-dataset info text", "no dataset in text"),
    ("ripieno-dataset info bad/manifest_cut.json", "cannot parse bad/manifest_cut.json"),
    ("ripieno-dataset info good.json", "key 'format' is unusable"),
    ("ripieno-dataset info foreign.json", "is not a dataset manifest"),
    ("ripieno-dataset verify bad/manifest_missing.json", "no such file"),
    ("ripieno-dataset verify text", "no dataset in text"),
    ("ripieno-dataset verify bad/good_0.h5 bad/good_1.h5", "is missing"),
    ("ripieno-dataset verify bad/good_0.h5 bad/dup_copy_of_good_1.h5 bad/good_1.h5 bad/good_2.h5", "bad/"),
    *((f"ripieno-dataset verify bad/{name}.h5", name) for name in (
        "actually_zip", "big_endian_f32", "bitflip_data", "count_attr_lies", "empty_file", "external_link", "f64",
        "future_version", "garbage_header", "label_10", "len_mismatch", "lfs_pointer", "missing_x", "missing_y", "nan_f32",
        "no_attrs", "renamed_keras", "truncated_tail", "unallocated", "unknown_filter", "vlen_tokens", "wrong_magic")),
    ("ripieno-dataset features --data table/train.json --out new", "cannot be made of examples of shape [2]"),
)

TRAINING = cases(
    USAGE,
    ("ripieno-train", "--data is missing"),
    ("{train} --steps 5 --epochs 1", "exactly one of --steps and --epochs"),
    ("ripieno-train --data table {plan} --noise-multiplier 1 --epochs -1", "--epochs is -1"),
    ("ripieno-train --data table {plan} --steps 5", "exactly one of --noise-multiplier and --target-epsilon"),
    ("ripieno-train --data table {plan} --steps 5 --target-epsilon -1", "epsilon"),
    ("ripieno-train --data table {plan} {noise} --augment-flip", "examples that are no images cannot be augmented"),
    ("ripieno-train --data table {plan} {noise} --augment-views 3", "all views of an example would be the same"),
    ("ripieno-train --data table {plan} {noise} --augment-flip --augment-views 0", "0 views of each example"),
    ("ripieno-train --data table {plan} {noise} --augment-shift -1", "a shift by -1 pixels"),
    ("ripieno-train --data table {noise} --clipping-norm 0 --expected-batch 20 --delta 1e-5 --lr 1 --out run", "is 0"),
    ("ripieno-train --data table {noise} --clipping-norm 1 --expected-batch 999 --delta 1e-5 --lr 1 --out run",
     "expected batch is 999"),
    ("ripieno-train --data table {noise} --clipping-norm 1 --expected-batch 20 --delta 0 --lr 1 --out run", "delta is 0"),
    ("{train} --model mpl", "did you mean 'mlp'?"),
    ("{train} --model mlp --model-arg hiden=3", "has no argument 'hiden'"),
    ("{train} --model mlp --model-arg hidden=none", "cannot take hidden=none"),
    ("{train} --model mlp --model-arg activation=step", "activation is one of"),
    ("{train} --model tanh-cnn", "cannot take examples of shape"),
    ("{train} --freeze layer", "--freeze layer matches no parameter"),
    ("{train} --freeze *", "leaves no parameter to train"),
    ("{train} --loss hinge", "hinge"),
    ("{train} --precision fp16", "--precision fp16 is not offered"),
    ("{train} --precision int8", "available: fp32, bf16"),
    ("{train} --out kept --keep 0", "--keep is 0"),
    ("{train} --field z=x", "NAME=DATASET is expected"),
    ("{train} --stage-to copy --field x=x", "--stage-to with --field"),
    ("{train} --clipping adaptive --adaptive-quantile 2", "target_quantile cannot be 2"),
    ("{train} --clipping adaptive --adaptive-min 5 --adaptive-max 1", "it must exceed clipping_norm_min"),
    ("{train} --clipping adaptive --adaptive-min 2", "clipping norm is 1"),
    ("{train} --clipping adaptive --adaptive-noise 0.001", "costs more than"),
) + cases(
    DATA,
    ("ripieno-train --data none {plan} {noise}", "none"),
    ("ripieno-train --data text {plan} {noise}", "no dataset in text"),
    ("ripieno-train --data table/train-00000-of-00001.h5 {plan} {noise}", "is no manifest"),
    ("{train} --model none.pt", "cannot read model none.pt"),
    ("{train} --model fake.pt", "is no TorchScript file"),
    ("{train} --init-from good.csv", "good.csv"),
    ("{train} --eval-data images/train.json", "examples differ in shape"),
    ("{train} --out empty.txt/run", "cannot make empty.txt/run"),
) + cases(
    PRIVACY,
    ("{train} --resume never --out spent", "holds the ledger of another run"),
    ("{train} --out lost", "holds checkpoints but no ledger"),
    ("ripieno-train --data users/train.json {plan} {noise}", "user"),
) + [
    Case("{train}", COMMUNICATION, "MPI sees one process", {"SLURM_NTASKS": "4", "SLURM_PROCID": "0", "SLURM_STEP_ID": "0"}),
    Case("{train} --max-restarts 2", COMMUNICATION, "requeued 3 times", {"SLURM_RESTART_COUNT": "3"}),
]

CASES = [dataclasses.replace(case, arguments=case.arguments.format(**NAMES))
         for case in COMMON + ACCOUNTING + DATASETS + TRAINING]


def column(name, kind, **rest):
    members = "".join(f', "{key}": {value}' for key, value in rest.items())
    return f'{{"name": "{name}", "type": "{kind}"{members}}}'


def schema(*columns):
    return '{"columns": [' + ", ".join(columns) + "]}\n"


SIZE, AGE, KIND = column("size", "number"), column("age", "number"), column("kind", "label", values='["a", "b"]')
ROWS = "".join(f"{i % 7},{i % 5},{'ab'[i % 2]}\n" for i in range(60))
TEXTS = {
    "train.ini": "data = table/train.json\nexpected-batch = 20\nclipping-norm = 1\ndelta = 1e-5\nlr = 1\nsteps = 5\n"
                 "noise-multiplier = 1\nout = run\n",
    "section.ini": "[optimiser]\nlr = 1\n",
    "key.ini": "detla = 1\n",
    "twice.ini": "delta = 1e-5\ndelta = 1e-6\n",
    "form.ini": "delta\n",
    "empty.txt": "",
    "canaries.csv": "included,guess\n" + "1,1\n0,0\n" * 200,
    "odd.csv": "included,guess\n2,1\n",
    "good.csv": "size,age,kind\n" + ROWS,
    "head.csv": "size,age,kind\n",
    "fields.csv": "size,age,kind\n1,2,a,3\n",
    "word.csv": "size,age,kind\nlarge,2,a\n",
    "gap.csv": "size,age,kind\n,2,a\n",
    "label.csv": "size,age,kind\n1,2,c\n",
    "quote.csv": 'size,age,kind\n"1,2,a\n',
    "good.json": schema(SIZE, AGE, KIND),
    "users.json": schema(column("age", "id"), SIZE, KIND),
    "unknown-key.json": schema(column("size", "number", maen=1), AGE, KIND),
    "unknown-type.json": schema(column("size", "vector"), AGE, KIND),
    "std.json": schema(column("size", "number", mean=1, std=0), AGE, KIND),
    "value-twice.json": schema(SIZE, AGE, column("kind", "label", values='["a", "a"]')),
    "no-values.json": schema(column("size", "category"), AGE, KIND),
    "no-classes.json": schema(SIZE, AGE, column("kind", "label")),
    "no-feature.json": schema(column("size", "ignore"), column("age", "ignore"), KIND),
    "two-labels.json": schema(SIZE, KIND, column("age", "label", classes=9)),
    "no-label.json": schema(SIZE, AGE, column("kind", "ignore")),
    "column-twice.json": schema(SIZE, SIZE, AGE, KIND),
    "no-list.json": '{"columns": 3}\n',
    "one-more.json": schema(SIZE, AGE, KIND, column("extra", "number")),
    "foreign.json": '{"format": "other", "version": 1}\n',
    "one-less.json": schema(AGE, KIND),
    "text/a.txt": "",
    "pictures/a/broken.png": "no image",
    "fake.pt": "no model",
    "lost/checkpoints/step-000000000005.h5": "",
}


def idx(*shape, values=None):
    size = 1
    for length in shape:
        size *= length
    return struct.pack(f">BBBB{len(shape)}I", 0, 0, 8, len(shape), *shape) + (values or bytes(i % 10 for i in range(size)))


def npy(descr, shape, data):
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}"
    header += " " * (63 - (10 + len(header)) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + data


BINARIES = {
    "images.idx": idx(60, 8, 8),
    "cut.idx": idx(60, 8, 8)[:-9],
    "labels.idx": idx(60),
    "short.idx": idx(59),
    "x.npy": npy("<f4", (3, 2), bytes(24)),
    "complex.npy": npy("<c8", (3, 2), bytes(48)),
    "y.npy": npy("<i8", (3,), bytes(24)),
    "short.npy": npy("<i8", (2,), bytes(16)),
}


def make_files(folder, source, build):
    for name, text in TEXTS.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    for name, content in BINARIES.items():
        (folder / name).write_bytes(content)
    shutil.copytree(source / "tests/data/bad-shards", folder / "bad")

    def make(arguments):
        program, *rest = arguments.format(**NAMES).split()
        subprocess.run([build / "bin" / program, *rest], cwd=folder, check=True)

    make("ripieno-dataset import csv good.csv --schema good.json --out table -q")
    make("ripieno-dataset import csv good.csv --schema users.json --out users --privacy-unit user -q")
    make("ripieno-dataset import idx --images images.idx --labels labels.idx --out images -q")
    make("{train} --out spent")
    make("{train} --data images --out other")
    good = (folder / "spent/ledger.jsonl").read_text()
    (folder / "good.jsonl").write_text(good)
    (folder / "copy.jsonl").write_text(good)
    (folder / "broken.jsonl").write_text(good.replace('"step":3', '"step":4'))
    shutil.copy(folder / "other/ledger.jsonl", folder / "other.jsonl")

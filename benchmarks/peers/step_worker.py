"""One way to make a step, in a process of its own: step_worker.py KIND MODEL THREADS

Answers each line of standard input with one step and a line of JSON: wall_ms, cpu_ms and peak_mib so far. The kinds:
plain (not private), opacus-hooks, opacus-ghost, torch-func, opake. Every private kind clips to 1 and adds no noise.
"""

import json
import os
import resource
import sys
import time
import warnings

import torch
from torch import nn
from torch.nn import functional as F

import step_models

LEARNING_RATE = 1e-3
MEMORY_LIMIT = 12 << 30
# What stores the gradient of every example does so for as many at once.
STORED_BYTES = 256 << 20

warnings.filterwarnings("ignore")


def parts(model, x, y):
    numel = sum(p.numel() for p in model.parameters())
    size = max(1, min(len(x), STORED_BYTES // (4 * numel)))
    return size, list(zip(x.split(size), y.split(size)))


def plain(model, x, y):
    params = list(model.parameters())

    def step():
        gradients = torch.autograd.grad(F.cross_entropy(model(x), y), params)
        with torch.no_grad():
            for p, g in zip(params, gradients):
                p.sub_(g, alpha=LEARNING_RATE)

    return step


def opacus_hooks(model, x, y):
    from opacus import GradSampleModule
    from opacus.optimizers import DPOptimizer

    wrapped = GradSampleModule(model)
    optimizer = DPOptimizer(
        torch.optim.SGD(wrapped.parameters(), lr=LEARNING_RATE), noise_multiplier=0.0, max_grad_norm=1.0,
        expected_batch_size=len(x))
    _, pieces = parts(model, x, y)

    def step():
        for i, (px, py) in enumerate(pieces):
            optimizer.zero_grad()
            F.cross_entropy(wrapped(px), py).backward()
            optimizer.signal_skip_step(do_skip=i + 1 < len(pieces))
            optimizer.step()

    return step


def opacus_ghost(model, x, y):
    from opacus.grad_sample.grad_sample_module_fast_gradient_clipping import GradSampleModuleFastGradientClipping
    from opacus.optimizers.optimizer_fast_gradient_clipping import DPOptimizerFastGradientClipping
    from opacus.utils.fast_gradient_clipping_utils import DPLossFastGradientClipping

    wrapped = GradSampleModuleFastGradientClipping(model, max_grad_norm=1.0, use_ghost_clipping=True)
    optimizer = DPOptimizerFastGradientClipping(
        torch.optim.SGD(wrapped.parameters(), lr=LEARNING_RATE), noise_multiplier=0.0, max_grad_norm=1.0,
        expected_batch_size=len(x))
    criterion = DPLossFastGradientClipping(wrapped, optimizer, nn.CrossEntropyLoss(), "mean")

    def step():
        optimizer.zero_grad()
        criterion(wrapped(x), y).backward()
        optimizer.step()

    return step


def example_loss(model):
    def loss(params, x, y):
        return F.cross_entropy(torch.func.functional_call(model, params, (x[None],)), y[None])

    return loss


def update(params, gradients):
    for name, gradient in gradients.items():
        params[name].sub_(gradient, alpha=LEARNING_RATE)


def torch_func(model, x, y):
    params = {name: p.detach() for name, p in model.named_parameters()}
    per_example = torch.func.vmap(torch.func.grad(example_loss(model)), in_dims=(None, 0, 0))
    _, pieces = parts(model, x, y)

    def step():
        total = {name: torch.zeros_like(p) for name, p in params.items()}
        for px, py in pieces:
            gradients = per_example(params, px, py)
            squares = sum(g.flatten(1).square().sum(1) for g in gradients.values())
            factors = (1 / squares.sqrt()).clamp(max=1)
            for name, g in gradients.items():
                total[name] += torch.tensordot(factors, g, 1)
        update(params, {name: g / len(x) for name, g in total.items()})

    return step


def opake(model, x, y):
    from opake.dpsgd import clipped_grad

    params = {name: p.detach() for name, p in model.named_parameters()}
    size, _ = parts(model, x, y)
    gradient, state = clipped_grad(
        example_loss(model), argnums=0, batch_argnums=(1, 2), clipping_norm=1.0, normalize_by=len(x),
        microbatch_size=size)

    def step():
        nonlocal state
        clipped, state = gradient(params, x, y, state=state)
        update(params, clipped.pytree)

    return step


KINDS = {
    "plain": plain,
    "opacus-hooks": opacus_hooks,
    "opacus-ghost": opacus_ghost,
    "torch-func": torch_func,
    "opake": opake,
}


def main():
    kind, name, threads = sys.argv[1:]
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_LIMIT, MEMORY_LIMIT))
    torch.set_num_threads(int(threads))
    torch.manual_seed(1)
    # Only the protocol goes to standard output.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    if kind.startswith("opacus"):
        from opacus.layers import DPLSTM

        step_models.LSTM = DPLSTM
    model, x, y = step_models.MODELS[name]()
    step = KINDS[kind](model, x, y)
    for _ in sys.stdin:
        wall, cpu = time.perf_counter(), time.process_time()
        step()
        answer = {
            "wall_ms": 1e3 * (time.perf_counter() - wall),
            "cpu_ms": 1e3 * (time.process_time() - cpu),
            "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        }
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()

"""One epsilon by other accountants, beside Ripieno's interval: time and width, or error, per setting.

    build/cpu/bin/bench-accounting --json | $(benchmarks/peers/setup accounting) benchmarks/peers/accounting.py

Every tool and setting runs in a process of its own, the imports before the clock starts; CPU time, the best of three.
A figure below Ripieno's lower end is marked `below`: whoever publishes it claims too much.
"""

import json
import math
import multiprocessing
import sys
import time

TIMEOUT_S = 60
REPEATS = 3


def dp_accounting_pld(sigma, rate, steps, delta):
    from dp_accounting import dp_event
    from dp_accounting.pld import pld_privacy_accountant

    event = dp_event.SelfComposedDpEvent(dp_event.PoissonSampledDpEvent(rate, dp_event.GaussianDpEvent(sigma)), steps)

    def run():
        accountant = pld_privacy_accountant.PLDAccountant(value_discretization_interval=1e-4)
        return accountant.compose(event).get_epsilon(delta)

    return run


def dp_accounting_rdp(sigma, rate, steps, delta):
    from dp_accounting import dp_event
    from dp_accounting.rdp import rdp_privacy_accountant

    event = dp_event.SelfComposedDpEvent(dp_event.PoissonSampledDpEvent(rate, dp_event.GaussianDpEvent(sigma)), steps)
    return lambda: rdp_privacy_accountant.RdpAccountant().compose(event).get_epsilon(delta)


def prv_accountant(sigma, rate, steps, delta):
    from prv_accountant import PoissonSubsampledGaussianMechanism, PRVAccountant

    def run():
        mechanism = PoissonSubsampledGaussianMechanism(noise_multiplier=sigma, sampling_probability=rate)
        accountant = PRVAccountant(
            prvs=mechanism, max_self_compositions=steps, eps_error=0.01, delta_error=delta / 1000
        )
        return accountant.compute_epsilon(delta=delta, num_self_compositions=steps)[2]

    return run


def opacus_prv(sigma, rate, steps, delta):
    from opacus.accountants import PRVAccountant

    def run():
        accountant = PRVAccountant()
        accountant.history = [(sigma, rate, steps)]
        return accountant.get_epsilon(delta)

    return run


def opacus_rdp(sigma, rate, steps, delta):
    from opacus.accountants import RDPAccountant

    def run():
        accountant = RDPAccountant()
        accountant.history = [(sigma, rate, steps)]
        return accountant.get_epsilon(delta)

    return run


def opake_pld(sigma, rate, steps, delta):
    import dataclasses

    # Opake asks for a weak reference slot in a way that CPython 3.11.7 refuses.
    plain = dataclasses.dataclass
    dataclasses.dataclass = lambda cls=None, /, **options: plain(cls, **(options | {"weakref_slot": False}))
    import opake.accounting
    from opake.api.accounting.core import opake_accounting as native

    dataclasses.dataclass = plain
    config = native.DiscretizationConfig(discretization=1e-4)

    def run():
        step = native.gaussian_pld(sigma, config)
        if rate < 1:
            step = native.poisson_pld(step, rate)
        return step.self_compose(steps).epsilon_at(delta)

    return run


TOOLS = {
    "dp-accounting PLD": dp_accounting_pld,
    "dp-accounting RDP": dp_accounting_rdp,
    "prv-accountant": prv_accountant,
    "Opacus PRV": opacus_prv,
    "Opacus RDP": opacus_rdp,
    "Opake PLD": opake_pld,
}


def child(name, setting, results):
    import warnings

    warnings.simplefilter("ignore")
    try:
        run = TOOLS[name](*setting)
    except Exception as error:  # noqa: BLE001: whatever a tool throws is its result here
        run = None
        failure = error
    results.put("ready")
    try:
        if run is None:
            raise failure
        best, epsilon = math.inf, math.nan
        begin = time.monotonic()
        for _ in range(REPEATS):
            start = time.process_time()
            epsilon = float(run())
            best = min(best, time.process_time() - start)
            if time.monotonic() - begin > 2:
                break
        results.put((best, epsilon))
    except Exception as error:  # noqa: BLE001
        results.put(type(error).__name__)


def measure(name, setting):
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    process = context.Process(target=child, args=(name, setting, results))
    process.start()
    try:
        results.get(timeout=10 * TIMEOUT_S)  # the imports
        return results.get(timeout=TIMEOUT_S)
    except Exception:  # noqa: BLE001: the queue stayed empty
        return "did not finish"
    finally:
        process.terminate()
        process.join()


def seconds(value):
    return f"{value * 1e6:.0f} us" if value < 1e-3 else f"{value * 1e3:.1f} ms" if value < 1 else f"{value:.1f} s"


def cell(result, row):
    if isinstance(result, str):
        return result
    took, epsilon = result
    if not math.isfinite(epsilon):
        return f"{seconds(took)}, {epsilon}"
    if epsilon < row["epsilon_lower"] * (1 - 1e-9):
        return f"{seconds(took)}, below: {epsilon:.6g}"
    return f"{seconds(took)}, +{(epsilon - row['epsilon_lower']) / row['epsilon_lower']:.0e}"


def main():
    rows = json.load(sys.stdin)
    names = sys.argv[1:] or list(TOOLS)
    print("| setting | epsilon | Ripieno: time, width | " + " | ".join(names) + " |")
    print("|---" * (3 + len(names)) + "|")
    for row in rows:
        setting = (row["noise_multiplier"], row["sample_rate"], row["steps"], row["delta"])
        width = (row["epsilon"] - row["epsilon_lower"]) / row["epsilon"]
        cells = [cell(measure(name, setting), row) for name in names]
        print(
            f"| {row['name']} | {row['epsilon']:.6g} | {seconds(row['seconds'])}, {width:.0e} | "
            + " | ".join(cells)
            + " |",
            flush=True,
        )


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Several hosts on this machine: network, host name, processes and /dev/shm of their own, joined by a software switch.

    hosts.py start [-n N] [--folder DIR]    prints the folder; hosts are called head, n1 … nN
    hosts.py exec DIR HOST COMMAND...       in the current folder
    hosts.py cable DIR HOST KEY=VALUE...    delay_ms=, loss=, cut=; HOST may be "*"
    hosts.py cut|heal DIR HOST              a silent black hole, and back
    hosts.py off DIR HOST                   power failure: its cable is cut and every process on it ends
    hosts.py stop DIR [--keep]              ends everything and removes the folder

All files are shared. On the head, mpirun reaches the other hosts without further options:

    hosts.py exec DIR head mpirun --host n1,n2,n3,n4 PROGRAM

Every host lives in a process namespace inside the head's, so that ending the head's process 1 ends all of it. Nothing is
made in the machine's own network namespace; several such networks may run at once. Needs root.
"""

import argparse
import contextlib
import importlib.machinery
import importlib.util
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
NETWORK = "10.77.0"
START_TIMEOUT_S = 30

ENTER = ["--net", "--uts", "--mount", "--pid"]
UNSHARE = ["unshare", "--net", "--uts", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]


class HostsError(Exception):
    pass


def obstacle():
    """Why hosts cannot be made here; None when they can."""
    for tool in ["ip", "nsenter", "setpriv", "unshare"]:
        if shutil.which(tool) is None:
            return f"{tool} is not installed (scripts/setup --tests)"
    if not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        return "/dev/net/tun cannot be opened (root, and a kernel with tun, are needed)"
    probe = subprocess.run([*UNSHARE, "mount", "-t", "tmpfs", "tmpfs", "/dev/shm"], capture_output=True, text=True)
    return f"namespaces are not permitted here ({probe.stderr.strip()})" if probe.returncode else None


def find_wire():
    """The switch, from RIPIENO_WIRE or the newest build."""
    if path := os.environ.get("RIPIENO_WIRE"):
        return path
    built = sorted(HERE.parents[1].glob("build/*/tests/wire"), key=lambda path: path.stat().st_mtime)
    if not built:
        raise HostsError("the switch is not built; run: cmake --build --preset cpu --target wire")
    return str(built[-1])


def load_script(path):
    """A Python program whose file has no suffix, as a module."""
    loader = importlib.machinery.SourceFileLoader(path.name, str(path))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(path.name, loader))
    loader.exec_module(module)
    return module


def wait_for(condition, timeout_s, what):
    """The condition's first true value."""
    end = time.monotonic() + timeout_s
    while not (value := condition()):
        if time.monotonic() > end:
            raise HostsError(f"{what}: not within {timeout_s} s")
        time.sleep(0.01)
    return value


def only_child(pid):
    try:
        children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except FileNotFoundError:
        return None
    return int(children[0]) if children else None


def pids_in_namespaces(pid):
    """The process's id in each process namespace it is in, outermost first."""
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("NSpid:"):
            return [int(number) for number in line.split()[1:]]
    return []


def command_line(pid):
    """Empty for a process that has ended."""
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


class Hosts:
    """Hosts that are running, known by their folder."""

    def __init__(self, folder, children=()):
        self.folder = pathlib.Path(folder).resolve()
        self.children = children
        if not (self.folder / "run/head.pid").exists():
            raise HostsError(f"{folder} is not the folder of running hosts")

    @classmethod
    def start(cls, count=4, folder=None, outlive=False):
        """Hosts head, n1 … n<count>. Unless `outlive`, they end with the calling process, however that ends."""
        if reason := obstacle():
            raise HostsError(reason)
        wire = find_wire()
        folder = pathlib.Path(folder or tempfile.mkdtemp(prefix="hosts.", dir="/var/tmp")).resolve()
        names = ["head"] + [f"n{i}" for i in range(1, count + 1)]
        addresses = {name: f"{NETWORK}.{i or 254}" for i, name in enumerate(names)}
        for part in ["run", "log", *(f"tmp/{name}" for name in names)]:
            (folder / part).mkdir(parents=True)
        lines = ["127.0.0.1 localhost", *(f"{address} {name}" for name, address in addresses.items())]
        (folder / "hosts").write_text("\n".join(lines) + "\n")

        children = []

        def spawn(name, command):
            with open(folder / f"log/{name}", "w") as log:
                children.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                                 start_new_session=True))
            return children[-1]

        def init_of(name, ancestor, generations):
            """Process 1 of the host, in this process's namespace, noted in run/NAME.pid."""
            def look():
                pid = ancestor.pid
                for _ in range(generations):
                    pid = pid and only_child(pid)
                # Until unshare's child has its namespaces it is an ordinary process.
                return pid if pid and pids_in_namespaces(pid)[-1] == 1 else None

            pid = wait_for(look, START_TIMEOUT_S, f"{name} does not start; see {folder}/log/{name}")
            (folder / f"run/{name}.pid").write_text(str(pid))
            return pid

        tied = [] if outlive else ["setpriv", "--pdeathsig", "KILL"]
        head = init_of("head", spawn("head", [*tied, *UNSHARE, HERE / "host_init", folder, "head", addresses["head"]]), 1)
        try:
            inside = ["nsenter", "-t", str(head), "--pid", "--mount"]
            spawned = {name: spawn(name, [*inside, *UNSHARE, HERE / "host_init", folder, name, addresses[name]])
                       for name in names[1:]}
            ports = ["head=1"]
            for name, process in spawned.items():
                pid_in_head = pids_in_namespaces(init_of(name, process, 2))[-2]
                (folder / f"run/{name}.pid-in-head").write_text(str(pid_in_head))
                ports.append(f"{name}={pid_in_head}")
            spawn("wire", [*inside, wire, folder / "run/wire", *ports])
            for name in names:
                wait_for((folder / f"run/{name}.ready").exists, START_TIMEOUT_S,
                         f"{name} has no network; see {folder}/log/{name} and {folder}/log/wire")
        except BaseException:
            os.kill(head, signal.SIGKILL)
            raise
        return cls(folder, children)

    @property
    def names(self):
        """Without the head."""
        found = [path.stem for path in (self.folder / "run").glob("n*.ready")]
        return sorted(found, key=lambda name: int(name[1:]))

    def pid(self, host):
        """Of the host's process 1."""
        try:
            return int((self.folder / f"run/{host}.pid").read_text())
        except FileNotFoundError:
            raise HostsError(f"there is no host {host}") from None

    def environment(self, host):
        """Temporary files apart; Open MPI as root, started by rsh_agent, yielding where ranks outnumber cores."""
        return {
            "RIPIENO_HOSTS": str(self.folder),
            "TMPDIR": str(self.folder / "tmp" / host),
            "OMPI_ALLOW_RUN_AS_ROOT": "1",
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            "OMPI_MCA_mpi_yield_when_idle": "1",
            "OMPI_MCA_btl_base_warn_component_unused": "0",
            "OMPI_MCA_plm_rsh_agent": str(HERE / "rsh_agent"),
        }

    def command(self, host, command):
        """`command` (a list) as a command that runs on the host. When it is killed, `command` is."""
        return ["nsenter", "-t", str(self.pid(host)), *ENTER, f"--wd={os.getcwd()}", "setpriv", "--pdeathsig", "KILL",
                "env", *(f"{key}={value}" for key, value in self.environment(host).items()), *map(str, command)]

    def run(self, host, command, **options):
        """subprocess.run on the host, by default with its output as text."""
        options = {"capture_output": True, "text": True, **options}
        return subprocess.run(self.command(host, command), **options)

    def popen(self, host, command, **options):
        return subprocess.Popen(self.command(host, command), **options)

    def processes(self, host, part=""):
        """Ids, as seen from here, of the host's living processes whose command line holds `part`, without its first."""
        namespace = os.readlink(f"/proc/{self.pid(host)}/ns/pid")
        found = []
        for path in pathlib.Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if os.readlink(path / "ns/pid") == namespace and int(path.name) != self.pid(host):
                    line = command_line(path.name)
                    if line and part in line:
                        found.append(int(path.name))
        return sorted(found)

    def cable(self, host, **properties):
        """delay_ms=, loss=, cut= of the host's cable; "*" for all."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as wire:
            wire.connect(str(self.folder / "run/wire"))
            wire.send(" ".join([host, *(f"{key}={value}" for key, value in properties.items())]).encode())
            reply = wire.recv(1024).decode()
        if reply != "ok":
            raise HostsError(reply)

    def cut(self, host):
        self.cable(host, cut=1)

    def heal(self, host):
        self.cable(host, cut=0)

    def power_off(self, host):
        self.cut(host)
        os.kill(self.pid(host), signal.SIGKILL)

    def stop(self, keep=False):
        """Ends every process on every host."""
        pids = [int(path.read_text()) for path in (self.folder / "run").glob("*.pid")]
        pids = [pid for pid in pids if str(self.folder) in command_line(pid)]  # ids of old hosts may be others' now
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        wait_for(lambda: not any(map(command_line, pids)), START_TIMEOUT_S, "hosts do not end")
        for child in self.children:
            child.wait()
        if not keep:
            shutil.rmtree(self.folder)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    start = commands.add_parser("start")
    start.add_argument("-n", type=int, default=4, metavar="N", dest="count")
    start.add_argument("--folder", metavar="DIR", help="made; must not exist")
    for name in ["exec", "cable", "cut", "heal", "off", "stop"]:
        command = commands.add_parser(name)
        command.add_argument("folder", metavar="DIR")
        if name != "stop":
            command.add_argument("host", metavar="HOST")
        if name in ["exec", "cable"]:
            command.add_argument("words", nargs=argparse.REMAINDER, metavar="WORD")
        if name == "stop":
            command.add_argument("--keep", action="store_true", help="the folder, with its logs")
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    if arguments.command == "start":
        print(Hosts.start(arguments.count, arguments.folder, outlive=True).folder)
        return 0
    hosts = Hosts(arguments.folder)
    match arguments.command:
        case "exec":
            command = hosts.command(arguments.host, arguments.words)
            os.execvp(command[0], command)
        case "cable":
            hosts.cable(arguments.host, **dict(word.partition("=")[::2] for word in arguments.words))
        case "cut":
            hosts.cut(arguments.host)
        case "heal":
            hosts.heal(arguments.host)
        case "off":
            hosts.power_off(arguments.host)
        case "stop":
            hosts.stop(arguments.keep)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except HostsError as error:
        print(f"hosts: error: {error}", file=sys.stderr)
        sys.exit(1)

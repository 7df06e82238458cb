"""The program that tries to get out. Its text is run in the jail by `probe`; it reports each attempt as a line of JSON.

Every attempt is harmless where it succeeds: the files are the prober's own, the signal is number 0, the connection goes
to the prober's own port.
"""

CANARY = r"""
import json, os, socket, sys, time

given = json.loads(sys.stdin.read())
inside = given["canary"], given["outside"]
canary, outside = inside


def read():
    open(canary).read()

def read_environment():
    open(f"/proc/{os.getppid()}/environ", "rb").read()

def write():
    open(os.path.join(outside, "written"), "w").write("x")

def append():
    open(canary, "a").write("x")

def truncate():
    os.truncate(canary, 0)

def chmod():
    os.chmod(canary, 0o777)

def chown():
    os.chown(canary, os.getuid(), os.getgid())

def touch():
    os.utime(canary, (1, 1))

def attribute():
    os.setxattr(canary, "user.canary", b"x")

def rename():
    os.rename(canary, os.path.join(outside, "renamed"))

def remove():
    os.unlink(os.path.join(outside, "removable"))

def hard_link():
    os.link(canary, "linked")

def soft_link():
    os.symlink(canary, "pointer")
    open("pointer").read()

def connect():
    socket.create_connection(("127.0.0.1", given["port"]), timeout=2).close()

def datagram():
    socket.socket(socket.AF_INET, socket.SOCK_DGRAM).close()

def local_socket():
    socket.socket(socket.AF_UNIX).close()

def netlink():
    socket.socket(socket.AF_NETLINK, socket.SOCK_RAW).close()

def signal_parent():
    os.kill(os.getppid(), 0)

def signal_group():
    os.killpg(os.getpgid(os.getppid()), 0)

def fork_and_outlive():
    if os.fork() == 0:
        os.setsid()
        for fd in range(3):
            os.close(fd)
        time.sleep(given["outlive"])
        open(os.path.join(outside, "outlived"), "w").close()
        os._exit(0)

def spawn():
    os.posix_spawn("/bin/true", ["true"], {})

def memory():
    held = bytearray(given["memory"])

def raise_limit():
    import resource
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

def memory_file():
    os.close(os.memfd_create("x"))

def namespace():
    import ctypes
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(0x10000000) != 0:
        raise OSError(ctypes.get_errno(), "unshare")

def trace():
    import ctypes
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.ptrace(16, os.getppid(), 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "ptrace")

def execute_scratch():
    with open("tool", "w") as file:
        file.write("#!/bin/true\n")
    os.chmod("tool", 0o700)
    os.execv("./tool", ["tool"])

def execute():
    os.execv("/bin/true", ["true"])


for attempt in given["attempts"]:
    print(json.dumps({"trying": attempt}), flush=True)
    try:
        globals()[attempt]()
        outcome = "done"
    except BaseException as error:
        outcome = type(error).__name__
    print(json.dumps({"attempt": attempt, "outcome": outcome}), flush=True)
print(json.dumps({"environment": sorted(os.environ)}), flush=True)
"""

# In this order: the last two replace the process where they succeed.
ATTEMPTS = (
    "read",
    "read_environment",
    "write",
    "append",
    "truncate",
    "chmod",
    "chown",
    "touch",
    "attribute",
    "rename",
    "remove",
    "hard_link",
    "soft_link",
    "connect",
    "datagram",
    "local_socket",
    "netlink",
    "signal_parent",
    "signal_group",
    "fork_and_outlive",
    "spawn",
    "memory",
    "raise_limit",
    "memory_file",
    "namespace",
    "trace",
    "execute_scratch",
    "execute",
)
FLOOD = "import os\nwhile True:\n    os.write(1, b'x' * 65536)\n"

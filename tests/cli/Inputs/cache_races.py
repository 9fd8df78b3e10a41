"""cache_races.py TCRUN MODEL FOLDER: the cache on disk under processes that start together, that are killed wherever they
are, that may not write, and whose files cannot grow. Each must compute what a run without a cache does, bit for bit, and
leave a cache that the next one can use."""
import ctypes
import os
import resource
import shutil
import subprocess
import sys

tcrun, model, folder = sys.argv[1:]
cache = os.path.join(folder, "cache")
PROCESSES, KILLS = 4, 6
PR_CAPBSET_DROP, CAP_DAC_OVERRIDE = 24, 1


def start(name, *options, where=cache, prefix=(), **how):
    env = dict(os.environ, TC_CACHE_DIR=where)
    output = os.path.join(folder, name + ".safetensors")
    command = [*prefix, tcrun, "run", model, "--backend=cpu", "--random", "--quiet", "--threads=1", "--output=" + output, *options]
    return subprocess.Popen(command, env=env, stderr=subprocess.PIPE, text=True, **how)


def check(name, process):
    """Its messages, once it has ended well with the right results."""
    errors = process.communicate()[1]
    if process.returncode != 0:
        sys.exit("%s: ended with %d: %s" % (name, process.returncode, errors))
    with open(os.path.join(folder, name + ".safetensors"), "rb") as file:
        if file.read() != wanted:
            sys.exit("%s: other results" % name)
    return errors


def files():
    return sorted(os.path.join(d, f) for d, _, names in os.walk(cache) for f in names)


def uses_cache(name):
    """A further run finds the plan and all code."""
    log = check(name, start(name, "--logs=cache"))
    if "hit" not in log or "miss" in log or "damaged" in log:
        sys.exit("%s: the cache is of no use: %s" % (name, log))


def fills_cache(name):
    check(name, start(name))
    uses_cache(name + " again")


shutil.rmtree(folder, ignore_errors=True)
os.makedirs(folder)
without = start("without", "--set", "cache.enabled=false")
if without.wait() != 0:
    sys.exit(without.stderr.read())
with open(os.path.join(folder, "without.safetensors"), "rb") as reference:
    wanted = reference.read()

together = {"process %d" % i: start("process %d" % i) for i in range(PROCESSES)}
for title, one in together.items():
    check(title, one)
uses_cache("behind them")
print("together: the same results, one cache")

# Each is killed behind another line of its log: between looking entries up, writing code and writing the plan.
shutil.rmtree(cache)
for line in range(1, KILLS + 1):
    one = start("killed", "--logs=+cache")
    for _ in range(line):
        one.stderr.readline()
    one.kill()
    one.communicate()
fills_cache("behind kills")
print("killed: the next ones are right")

# A temporary file that somebody left, and entries that are cut, empty, or of another kind.
entries = files()
with open(entries[0] + ".1.0", "wb") as left:
    left.write(b"half")
for number, path in enumerate(entries):
    with open(path, "r+b") as entry:
        entry.truncate((0, 7, 40)[number % 3])
fills_cache("damaged")
print("damaged: made anew")


MAY_WRITE = 99


def may_not_write():
    """Who may do everything gives it up."""
    if os.geteuid() == 0 and ctypes.CDLL(None, use_errno=True).prctl(PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, 0, 0, 0) != 0:
        os._exit(MAY_WRITE)


def read_only(name, expected, log):
    one = start(name, "--logs=cache", preexec_fn=may_not_write)
    if one.wait() == MAY_WRITE:
        print("%s: not tried, nothing is read-only for this user" % name)
        return
    text = check(name, one)
    if expected not in text:
        sys.exit("%s: no '%s' in: %s" % (name, expected, text))
    print("%s: %s" % (name, log))


for directory, _, _ in os.walk(cache):
    os.chmod(directory, 0o500)
before = files()
read_only("read-only", "hit", "what is there is used")
if files() != before:
    sys.exit("read-only: it was written to")
for directory, _, _ in os.walk(cache):
    os.chmod(directory, 0o700)
shutil.rmtree(cache)
os.mkdir(cache, 0o500)
read_only("read-only and empty", "no cache", "done without")
os.chmod(cache, 0o700)


def full(bytes_of_files):
    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (bytes_of_files, bytes_of_files))

    return limit


# What comes out goes to a file, too: it is small, code is larger, and is cut where the disk is full.
os.makedirs(cache, exist_ok=True)
limit = max(len(wanted), 1)
small = start("full", "--logs=cache", preexec_fn=full(limit), restore_signals=False)
text = check("full", small)
if "not written" not in text:
    sys.exit("full: nothing was too large for %d bytes: %s" % (limit, text))
if any(os.path.basename(f).count(".") for f in files()):
    sys.exit("full: cut files are left: %s" % files())
fills_cache("behind a full disk")
print("full: nothing cut is left")

# A disk of its own with hardly any place, in a namespace of mounts that goes with the process: two runs, then what is left of
# files that were not finished.
NO_DISK = 99
SMALL_DISK = ('mount -t tmpfs -o size=16k none "$TC_CACHE_DIR" 2>/dev/null || exit %d\n"$@" && "$@" || exit\n'
              'find "$TC_CACHE_DIR" -type f -name "*.*" >&2' % NO_DISK)
if shutil.which("unshare"):
    small = start("small disk", "--logs=cache", prefix=["unshare", "--map-root-user", "--mount", "sh", "-c", SMALL_DISK, "sh"])
    text = small.communicate()[1]
if not shutil.which("unshare") or "unshare: " in text or small.returncode == NO_DISK:
    print("small disk: not tried, nobody may mount one")
else:
    if small.returncode != 0 or "not written" not in text or "No space left" not in text:
        sys.exit("small disk: ended with %d: %s" % (small.returncode, text))
    with open(os.path.join(folder, "small disk.safetensors"), "rb") as file:
        if file.read() != wanted:
            sys.exit("small disk: other results")
    if text.splitlines()[-1].startswith(cache):
        sys.exit("small disk: cut files are left: %s" % text)
    print("small disk: done without what has no room")

clear = subprocess.run([tcrun, "cache", "clear"], env=dict(os.environ, TC_CACHE_DIR=cache), stdout=subprocess.PIPE, text=True)
print("clear: ended with %d, %d files left" % (clear.returncode, sum("shrunk" not in f for f in files())))

# lit: every .tc file under tests/ir and .test file under tests/cli is a script of RUN lines.
#   %tcrun   the program       %FileCheck   LLVM's       %plugins   its plugins       %S, %s, %t as ever
import ctypes
import os
import shutil
import subprocess

import lit.formats

config.name = "tc"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".tc", ".test"]
config.excludes = ["Inputs"]
source = lit_config.params["source"]
build = lit_config.params["build"]
config.test_source_root = os.path.join(source, "tests")
config.test_exec_root = os.path.join(build, "tests", "lit")
filecheck = next((p for p in ("FileCheck-19", "FileCheck") if shutil.which(p)), None)
if filecheck is None:
    lit_config.fatal("FileCheck is not installed (llvm-19-tools)")
config.substitutions.append(("%tcrun", os.path.join(build, "bin", "tcrun")))
config.substitutions.append(("%FileCheck", filecheck))
config.substitutions.append(("%plugins", os.path.join(build, "plugins")))
config.substitutions.append(("%source", source))
# A test meets no settings but its own: no caches, no configuration of the person who runs it.
config.environment["TC_CACHE_DIR"] = os.path.join(config.test_exec_root, "cache")
config.environment["XDG_CONFIG_HOME"] = os.path.join(config.test_exec_root, "config")
# The compiler of kernels for GPUs, as the plugin finds it.
nvrtc = ("libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so", "/usr/local/cuda/lib64/libnvrtc.so")


def opens(library):
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True


if any(opens(library) for library in nvrtc):
    config.available_features.add("nvrtc")
    # Some versions of it report registers and spills when they are loaded as a library, others do not.
    dump = [os.path.join(build, "bin", "tcrun"), "dump", os.path.join(source, "tests", "cli", "Inputs", "softmax.tc"),
            "--backend=cuda", "--set", "cuda.arch=sm_90", "--stage=code"]
    if "bytes spill stores" in subprocess.run(dump, stdout=subprocess.PIPE, text=True, env=config.environment).stdout:
        config.available_features.add("nvrtc-report")
# A device for kernels in OpenCL C.
backends = subprocess.run([os.path.join(build, "bin", "tcrun"), "backends"], stdout=subprocess.PIPE, text=True)
if any(line.startswith("opencl ") and "[" in line for line in backends.stdout.splitlines()):
    config.available_features.add("opencl")

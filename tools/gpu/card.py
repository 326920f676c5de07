# SPDX-License-Identifier: Apache-2.0
"""card - finds the GPU and CUDA's libraries

cuDNN and cuBLAS are the system's or those of Python packages (nvidia-cudnn-cu13, nvidia-cublas),
whose folders site-packages/nvidia/*/lib are not in the loader's path.
"""

import ctypes
import glob
import os
import shutil
import subprocess
import sys
import sysconfig

NO_GPU = "no NVIDIA GPU here: a driver and a GPU that it sees are needed; " \
         "--emulated runs the same on the processor"
SYSTEM_TOOLKITS = ("/usr/local/cuda", "/usr/local/cuda-*")
SYSTEM_HEADERS = ("/usr/local/include", "/usr/include", "/usr/include/*-linux-gnu")
ASKED = "name,driver_version,memory.total,compute_cap"


def said(command, env=None, limit_s=60):
    """A program's output; "" if it is missing or fails."""
    try:
        run = subprocess.run(command, capture_output=True, text=True, env=env, timeout=limit_s)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return run.stdout.strip() if run.returncode == 0 else ""


def python_folders():
    """site-packages of this interpreter, and of the `python3` that is found first."""
    folders = [sysconfig.get_paths()["purelib"], sysconfig.get_paths()["platlib"]] + sys.path
    other = said(["python3", "-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])"])
    return [f for f in dict.fromkeys(folders + [other]) if f and os.path.isdir(f)]


def package_folders(kind):
    """Folders include/ or lib/ of NVIDIA's Python packages, as nvidia/cudnn/lib."""
    return [f for site in python_folders()
            for f in sorted(glob.glob(os.path.join(site, "nvidia", "*", kind)))]


def holder(folders, *names):
    """The first folder that has a file of one of these patterns."""
    return next((f for f in folders for n in names if glob.glob(os.path.join(f, n))), None)


def toolkit():
    """The CUDA Toolkit's folder, nvcc with its headers, or None."""
    roots = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH")]
    roots += [f for pattern in SYSTEM_TOOLKITS for f in sorted(glob.glob(pattern), reverse=True)]
    roots += [os.path.dirname(f) for f in package_folders("bin")]      # nvidia/cu13/bin
    nvcc = shutil.which("nvcc")
    if nvcc:
        roots.insert(0, os.path.dirname(os.path.dirname(os.path.realpath(nvcc))))
    wanted = (os.path.join("bin", "nvcc"), os.path.join("include", "cuda_runtime_api.h"))
    return next((r for r in roots if r and all(os.path.exists(os.path.join(r, w))
                                               for w in wanted)), None)


def system_folders(root):
    return [os.path.join(root, "lib64"), os.path.join(root, "lib"), "/usr/local/lib"] + \
        sorted(glob.glob("/usr/lib/*-linux-gnu")) + ["/usr/lib64"]


class Libraries:
    """Where cuDNN's header and the folders of the libraries are.

    cudnn_include  has cudnn.h       cudnn_lib   has libcudnn.so.*
    cublas_lib     has libcublas.so.*            each None when nothing was found
    """

    def __init__(self, root):
        self.root = root
        headers = [os.path.join(root, "include")] + \
            [f for pattern in SYSTEM_HEADERS for f in sorted(glob.glob(pattern))] if root else []
        systems = system_folders(root) if root else []
        self.cudnn_include = holder(package_folders("include") + headers, "cudnn.h")
        self.cublas_include = holder(headers + package_folders("include"), "cublas_v2.h")
        self.cudnn_lib = holder(package_folders("lib") + systems, "libcudnn.so.*")
        self.cublas_lib = holder(package_folders("lib") + systems, "libcublas.so.*")

    def folders(self):
        """For LD_LIBRARY_PATH: cuDNN's parts look for cuBLAS and NVRTC too."""
        found = [self.cudnn_lib, self.cublas_lib] + package_folders("lib")
        return [f for f in dict.fromkeys(found) if f]

    def missing(self):
        """What a build for a GPU needs and is missing, a line each."""
        if self.root is None:
            return ["no nvcc with cuda_runtime_api.h in PATH, CUDA_HOME, /usr/local/cuda or "
                    "Python's packages: install the CUDA Toolkit"]
        static = [os.path.join(self.root, "lib64"), os.path.join(self.root, "lib")] + \
            sorted(glob.glob(os.path.join(self.root, "targets", "*", "lib")))
        wanted = ((holder(static, "libcudart_static.a"), "libcudart_static.a of the CUDA Toolkit"),
                  (self.cublas_include, "cublas_v2.h: package libcublas-dev-13-0"),
                  (self.cublas_lib, "libcublas.so: package libcublas-13-0, or pip install "
                                    "nvidia-cublas"),
                  (self.cudnn_include, "cudnn.h: package cudnn9-cuda-13, or pip install "
                                       "nvidia-cudnn-cu13"),
                  (self.cudnn_lib, "libcudnn.so: package cudnn9-cuda-13, or pip install "
                                   "nvidia-cudnn-cu13"))
        return ["no " + what for found, what in wanted if found is None]

    def environment(self, stand_ins=False):
        """This process's environment, with nvcc in PATH and, unless stand-ins are used, the
        libraries in the loader's path."""
        env = dict(os.environ)
        old = [f for f in [env.get("LD_LIBRARY_PATH")] if f]
        env["LD_LIBRARY_PATH"] = os.pathsep.join(([] if stand_ins else self.folders()) + old)
        env["PYTHONUNBUFFERED"] = "1"
        if self.root:
            env["PATH"] = os.path.join(self.root, "bin") + os.pathsep + env.get("PATH", "")
        return env


class Card:
    """name, driver, memory_mib, capability ("90") of the first GPU; None if not reported."""

    def __init__(self):
        line = said([smi(), f"--query-gpu={ASKED}", "--format=csv,noheader,nounits"])
        fields = [f.strip() for f in line.splitlines()[0].split(",")] if line else []
        self.name, self.driver, self.memory_mib, self.capability = (fields + [None] * 4)[:4]
        if self.name is None and driver_devices() > 0:
            self.name, self.driver = "NVIDIA GPU", "unknown"
        digits = (self.capability or "").replace(".", "")
        self.capability = digits if digits.isdigit() else None

    @property
    def here(self):
        return self.name is not None


def smi():
    places = [shutil.which("nvidia-smi"), "/usr/local/nvidia/bin/nvidia-smi",
              "/usr/bin/nvidia-smi"]
    return next((p for p in places if p and os.path.exists(p)), "nvidia-smi")


def driver_devices():
    """How many GPUs the driver itself sees; 0 without one."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
        count = ctypes.c_int(0)
        if driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0:
            return count.value
    except OSError:
        pass
    return 0


def cudnn_version(libraries):
    """"9.19.0", read in a separate process so that this one does not load the library."""
    code = ("import ctypes,glob,os,sys; "
            "l=ctypes.CDLL(sorted(glob.glob(os.path.join(sys.argv[1],'libcudnn.so.*')))[0]); "
            "l.cudnnGetVersion.restype=ctypes.c_size_t; v=l.cudnnGetVersion(); "
            "print(f'{v//10000}.{v//100%100}.{v%100}')")
    if libraries.cudnn_lib is None:
        return "not found"
    return said([sys.executable, "-c", code, libraries.cudnn_lib],
                env=libraries.environment()) or "does not load"


def commit(root):
    text = said(["git", "-C", root, "rev-parse", "--short=12", "HEAD"])
    changed = said(["git", "-C", root, "status", "--porcelain", "--untracked-files=no"])
    return (text or "unknown") + (" with changes" if changed else "")

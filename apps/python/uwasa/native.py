# SPDX-License-Identifier: Apache-2.0
"""The functions of uwasa/session.h, through ctypes, which releases the GIL while they run."""

import ctypes
import importlib.metadata
import pathlib
import re
from ctypes import CFUNCTYPE, POINTER, byref, c_bool, c_char_p, c_int, c_size_t, c_uint32, c_void_p

try:
    version = importlib.metadata.version("uwasa")
except importlib.metadata.PackageNotFoundError:     # not installed by pip
    version = "unknown"

Line = CFUNCTYPE(None, c_void_p, c_char_p)
Stop = CFUNCTYPE(c_bool, c_void_p)
ERRORS = {-1: InterruptedError, -5: MemoryError, -7: OSError, -12: FloatingPointError,
          -13: FileNotFoundError, -14: PermissionError, -16: OSError}   # uwasa/status.h


class Arrays(ctypes.Structure):
    """struct uw_data_arrays of uwasa/data.h."""
    _fields_ = [("x", c_void_p), ("y", c_void_p), ("samples_n", c_uint32), ("channels", c_uint32),
                ("height", c_uint32), ("width", c_uint32), ("y_n", c_uint32), ("whole", c_bool),
                ("features", POINTER(c_char_p)), ("classes", POINTER(c_char_p)),
                ("classes_n", c_uint32)]


def load():
    library = ctypes.CDLL(str(pathlib.Path(__file__).with_name("_session.so")))
    options = POINTER(c_char_p)
    for name, result, *arguments in (
            ("new", c_void_p), ("free", None), ("listen", None, Line, Line, Stop, c_void_p),
            ("error", c_char_p), ("open", c_int, c_char_p, options),
            ("fit", c_int, c_char_p, POINTER(Arrays), POINTER(Arrays), options),
            ("evaluate", c_int, c_char_p, POINTER(Arrays), options),
            ("predict", c_int, c_void_p, c_uint32, c_bool, c_void_p),
            ("save", c_int, c_char_p), ("load", c_int, c_char_p),
            ("get_weights", c_int, POINTER(c_void_p), POINTER(c_size_t)),
            ("set_weights", c_int, c_char_p, c_size_t, c_bool)):
        function = getattr(library, "uw_session_" + name)
        function.restype = result
        function.argtypes = arguments if name == "new" else [c_void_p, *arguments]
    return library


library = load()


def texts(options):
    """{"lr": 0.1, "nesterov": True} as pairs of texts that end with NULL; None is left out."""
    flat = []
    for name, value in options.items():
        if value is not None:
            flat += [name.encode(), text(value).encode()]
    return (c_char_p * (len(flat) + 1))(*flat, None)


def text(value):
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return ",".join(text(v) for v in value)
    return str(value)


def spoken(sentence):
    """--weight-decay of a sentence of the program, as Python spells it."""
    return re.sub(r"--([a-z][a-z0-9-]*)", lambda found: found[1].replace("-", "_"), sentence)


class Session:
    """A struct uw_session; callers see to it that one thread uses it at a time."""

    def __init__(self, line, event, stop):
        self.heard = Line(lambda _, words: line(spoken(words.decode(errors="replace")))), \
            Line(lambda _, json: event(json.decode(errors="replace"))), Stop(lambda _: stop())
        self.pointer = library.uw_session_new()
        if not self.pointer:
            raise MemoryError("uwasa: out of memory")
        library.uw_session_listen(self.pointer, *self.heard, None)

    def call(self, name, *arguments):
        """Returns the code, or raises what the runtime says."""
        code = getattr(library, "uw_session_" + name)(self.pointer, *arguments)
        if code < 0:
            sentence = library.uw_session_error(self.pointer).decode(errors="replace")
            raise ERRORS.get(code, ValueError)(spoken(sentence) or "stopped")
        return code

    def weights(self):
        """The weights as the bytes of a safetensors file."""
        start, size = c_void_p(), c_size_t()
        self.call("get_weights", byref(start), byref(size))
        return ctypes.string_at(start, size.value)

    def __del__(self):
        if getattr(self, "pointer", None):
            library.uw_session_free(self.pointer)
            self.pointer = None

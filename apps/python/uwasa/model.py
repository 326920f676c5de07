# SPDX-License-Identifier: Apache-2.0
"""A model that is trained and asked in this process."""

import contextlib
import json
import os
import signal
import tempfile
import threading
import weakref
from ctypes import byref

import numpy

from . import arrays
from .history import History, Screen
from .native import Session, texts
from .program import flags, run


class Model:
    """A neural network with its weights.

        model = uwasa.Model("lenet5")                        a name of `uwasa models`
        model = uwasa.Model("mine.onnx", "mine.safetensors")
        model = uwasa.Model({"name": "mine", "input": [2], "layers": [...]}, seed=2)

    model    a built-in name, an ONNX file, a JSON file (`uwasa models --help`), or its dict
    weights  a safetensors file, or a dict as load takes; without it those of an ONNX file, else
             initial ones of `seed`
    options  of `uwasa train --help`, for every later call that does not say otherwise

    One thread uses a model at a time; others train theirs meanwhile."""

    def __init__(self, model, weights=None, *, verbose=1, **options):
        self.history, self.input, self.parameters, self.classes = History(), (), 0, None
        self.name = self._file_of(model)
        self._said, self._found = set(), []
        self._lock, self._pid, self._verbose = threading.Lock(), os.getpid(), verbose
        self._kept = texts(self._checked(options) | {"weights": self._path(weights)})
        self._options = {k: v for k, v in options.items() if k in ("output", "shape")}
        me = weakref.proxy(self)        # the session does not keep the model alive
        self._session = Session(lambda text: me._line(text), lambda line: me._event(line),
                                lambda: me._raised is not None)
        with self._busy(verbose):
            self._session.call("open", os.fsencode(self.name), self._kept)
        if isinstance(weights, dict):
            self.load(weights)

    def fit(self, x, y=None, *, test=None, verbose=None, **options):
        """Train, from the weights that the model has; a new optimizer begins. Returns a History.

            model.fit(x, y, epochs=3, batch=20, lr=0.1, validation=0.1, patience=5, keep="best")
            model.fit(x, y, test=(x_test, y_test), optimizer="adam", weight_decay=1e-4)
            model.fit("csv:mine.csv", epochs=20)             what `uwasa train --data` reads

        x     [samples, ...] in the shape of model.input; float32 that is contiguous is not copied; a
              DataFrame's columns are found by their names in later calls
        y     labels (whole numbers, words, or one-hot), values, or a class for each pixel or token:
              below 0, or 255 in bytes, it does not count; a tuple of them for several outputs; None:
              loss="autoencoder". What labels are called is model.classes
        test  (x, y), tested after each epoch; a dataset names its own, as "csv:mine.csv,test=other.csv"
        missing       "drop": samples with NaN, or None, are left out; "mean": the column's mean is put
                      in its place, and with scale="standard" in later calls, too
        scale         "standard": x gets mean 0 and deviation 1, here and in later calls; 255
        target_scale  "standard", "none" or a number that y is divided by; without it values that are
                      far from 1 are learned with mean 0 and deviation 1 by a model that starts from
                      nothing. Answers are in the units of y

        Ctrl-C stops: the model has the weights so far, model.history what was told. After an error
        it has the weights of before."""
        if test is not None and not (isinstance(test, (tuple, list)) and len(test) == 2):
            raise ValueError('test: needs (x, y); a dataset names its own, as "csv:mine.csv,test=other.csv"')
        gaps = arrays.Gaps(options.pop("missing", None), self._means())
        train, keep, classes = self._data(x, y, verbose, gaps)
        data = b"arrays" if train else os.fsencode(x)
        for name in ("scale", "target_scale"):
            if name in options:
                data += f",{name.replace('_', '-')}={options.pop(name)}".encode()
        known = self._known | {"classes": classes} if classes else self._known
        held, keep_held, _ = self._data(*test, verbose, gaps, known) if test is not None else (None,) * 3
        with self._busy(verbose):
            self.history = History()
            self.history.notes = self._found
            self._session.call("fit", data, byref(train) if train else None, byref(held) if held else None,
                               texts(self._checked(options)))
        del keep, keep_held
        return self.history

    def predict(self, x, *, verbose=None):
        """What the model says: [n, classes] probabilities, [n, outputs] values in the units of the
        training data, the [n] errors of an autoencoder, or [n, places] whole numbers, the classes
        of pixels or tokens in their order. The class is predict(x).argmax(1), and where labels were
        words, or no numbers from 0, model.classes has what they are called."""
        numbers = self._forward(x, False, self._answers, verbose)
        if self.answer == "mask":
            return numbers.astype(numpy.int64)
        return numbers[:, 0] if self.answer == "error" else numbers

    def forward(self, x, *, verbose=None):
        """[n, outputs] of the last layer as they are, as PyTorch's model(x) in eval mode."""
        return self._forward(x, True, self._outputs, verbose)

    def evaluate(self, x, y=None, *, verbose=None, **options):
        """Test; returns a dict: loss, samples, and of classes accuracy, classes (precision, recall,
        f1), confusion; of values mae, rmse, r2; as `uwasa eval` computes them."""
        gaps = arrays.Gaps(options.pop("missing", None), self._means())
        if gaps.how == "mean" and gaps.means is None:
            raise ValueError("missing: 'mean' is that of training, which is kept with scale='standard' only")
        held, keep, _ = self._data(x, y, verbose, gaps)
        with self._busy(verbose):
            self._session.call("evaluate", b"arrays" if held else os.fsencode(x),
                               byref(held) if held else None, texts(self._checked(options)))
        del keep
        return self._test

    def save(self, file):
        """Write the weights as safetensors, with PyTorch's names and shapes where layers are PyTorch's
        modules; to_torch_state_dict translates the others, as of LSTM and of attention by hand."""
        with self._busy(0):
            self._session.call("save", os.fsencode(file))

    def load(self, weights, *, loose=False, verbose=None):
        """Take weights: of a safetensors file, or of a dict of arrays or PyTorch's tensors, such as
        a state_dict. loose=True, or "FILE,loose": what fits, and the rest stays as it is."""
        with self._busy(verbose):
            if isinstance(weights, dict):
                of = arrays.write_safetensors(weights)
                self._session.call("set_weights", of, len(of), loose)
            else:
                file = os.fsencode(weights)
                self._session.call("load", file + b",loose" * (loose and not file.endswith(b",loose")))

    def state_dict(self):
        """{name: float32 array}, copies of the weights, under the names that save writes."""
        with self._busy(0):
            return arrays.read_safetensors(self._session.weights())

    def to_torch_state_dict(self):
        """The same as tensors of PyTorch: network.load_state_dict(model.to_torch_state_dict()). The
        network then computes what forward does, of samples that are scaled as in training."""
        import torch
        return {theirs: torch.from_numpy(a[first:first + rows].reshape(shape))
                for name, a in self.state_dict().items()
                for theirs, first, rows, shape in self._torch.get(name, [[name, 0, len(a), a.shape]])}

    def export(self, file):
        """Write the trained model as ONNX (.onnx) or C (.c). The file that it was read from is read
        again, by `uwasa convert`."""
        with tempfile.TemporaryDirectory(prefix="uwasa-") as folder:
            weights = os.path.join(folder, "weights.safetensors")
            self.save(weights)
            run("convert", self.name, os.fspath(file), "--weights", weights, *flags(self._options))

    def __repr__(self):
        return f"<uwasa.Model {self.name}: {self.parameters} parameters, input {self.input}>"

    # ---- one call into the runtime ----

    @staticmethod
    def _checked(options):
        for name in ("model", "data", "json", "profile", "weights"):
            if name in options:
                raise TypeError(f"{name}: is no option here")
        return options

    def _file_of(self, model):
        if not isinstance(model, dict):
            return os.fspath(model)
        self._folder = tempfile.TemporaryDirectory(prefix="uwasa-")     # as long as the model
        path = os.path.join(self._folder.name, "model.json")
        with open(path, "w") as file:
            json.dump(model, file)
        return path

    @staticmethod
    def _path(weights):
        return None if weights is None or isinstance(weights, dict) else os.fspath(weights)

    def _data(self, x, y, verbose, gaps, known=None):
        """Arrays for the runtime; None for a text, which names a dataset."""
        self._found = []
        if isinstance(x, (str, os.PathLike)):
            if y is not None:
                raise ValueError(f"y: is in {x}, give no other")
            if gaps.how is not None:
                raise ValueError(f"missing: is an option of the table, as in {x},missing={gaps.how}")
            return None, None, None
        return arrays.data(x, y, self.input, self._told(verbose), self._outputs, known or self._known, gaps)

    def _means(self):
        """The means of training for gaps; None: there are none, as without scale="standard"."""
        return self._known.get("mean") if any(self._known.get("mean") or ()) else None

    def _told(self, verbose):
        screen = Screen(self._verbose if verbose is None else verbose)

        def tell(sentence):
            self._found.append(sentence)
            self._say(screen, sentence)
        return tell

    def _say(self, screen, sentence):
        if sentence not in self._said:          # once is enough
            self._said.add(sentence)
            screen.line(sentence)

    def _forward(self, x, raw, width, verbose):
        self._found = []
        if isinstance(x, (str, os.PathLike)):
            flag = "--data " if ":" in str(x) else ""
            raise ValueError(f"x: {x}: predict takes an array of samples; evaluate reads datasets, and "
                             f"`uwasa predict --model M --weights FILE {flag}{x}` answers them")
        x = arrays.samples(x, self.input, self._told(verbose), self._known)
        out = numpy.empty((x.shape[0], width), numpy.float32)
        with self._busy(verbose):
            self._session.call("predict", x.ctypes.data, x.shape[0], raw, out.ctypes.data)
        return out

    @contextlib.contextmanager
    def _busy(self, verbose):
        """Around a call: nobody else calls, and Ctrl-C and errors of callbacks come out after it."""
        if os.getpid() != self._pid:
            raise RuntimeError("uwasa.Model: does not survive os.fork(); open it in the child")
        if not self._lock.acquire(blocking=False):
            raise RuntimeError("uwasa.Model: another thread, or its own callback, is using it")
        self._raised, self._screen = None, Screen(self._verbose if verbose is None else verbose)
        catches = threading.current_thread() is threading.main_thread() and \
            signal.getsignal(signal.SIGINT) is signal.default_int_handler

        def interrupt(*_):
            self._raised = KeyboardInterrupt()
        try:
            if catches:
                signal.signal(signal.SIGINT, interrupt)
            try:
                yield
            except InterruptedError:
                if self._raised is None:
                    raise
        finally:
            if catches:
                signal.signal(signal.SIGINT, signal.default_int_handler)
            self._screen.clear()
            self._lock.release()
        if self._raised is not None:
            raise self._raised

    def _line(self, sentence):
        self._found.append(sentence)
        self._say(self._screen, sentence)

    def _event(self, line):
        event = json.loads(line)
        if event["event"] == "model":
            self.input, self.answer = tuple(event["input"]), event["answer"]
            self.parameters, self._torch = event["parameters"], event["torch"]
            self._outputs, self._answers = event["outputs_n"], event["numbers_n"]
            self._known = event["data"]
            self.classes = self._known.get("classes")
        elif event["event"] == "test":
            del event["event"]
            self._test = event
        else:
            self.history.add(event)
            self._screen.show(event, self.history)

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""other_exporters.py UWASA [--networks A,B] [-v]

Train networks that Keras (with tf2onnx) and scikit-learn (with skl2onnx) export, as others write
them. Keras's: the losses of six steps must be those of Keras, from the same weights on the same
samples, with batch norm as a constant, since that is how it is exported. scikit-learn's: the first
loss must be that of the model's own answers, and training must lessen it. The chosen loss is what `uwasa train` takes it to be.

Prints one line a network that differs and the counts. A network that is known not to work must
fail. Exit status 0 when all is as expected, 1 when not, 77 without the packages: a virtual
environment with tensorflow-cpu, tf2onnx, scikit-learn and skl2onnx has them."""

import argparse
import json
import logging
import os
import subprocess
import sys
import tempfile
import warnings

os.environ.update(TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="", TF_ENABLE_ONEDNN_OPTS="0")
try:
    import numpy as np
    import tensorflow as tf
    import keras
    from keras import layers as L
    np.object = object      # tf2onnx still asks for it
    import tf2onnx
    import skl2onnx
    from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
    from sklearn.metrics import log_loss, mean_squared_error
    from sklearn.neural_network import MLPClassifier, MLPRegressor
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import MinMaxScaler, StandardScaler
except ImportError as e:
    print(f"other_exporters.py: {e}", file=sys.stderr)
    sys.exit(77)

BATCH, STEPS, LR, TOLERANCE = 4, 6, 0.05, 1e-4
SEQUENCE, IMAGE, VALUES, WORDS = (10, 6), (12, 12, 3), (8,), (10,)
KNOWN = {       # name: why it does not agree
    "lstm": "an LSTM layer has two biases that train, Keras's has one",
    "both_ways": "likewise", "seq2seq": "likewise",
}


def chain(shape, *layers):
    return lambda: keras.Sequential([keras.Input(shape), *(make() for make in layers)])


def graph(shape, make):
    def build():
        x = keras.Input(shape)
        return keras.Model(x, make(x))
    return build


def classes(n=5):
    return lambda: L.Dense(n, activation="softmax")


def squeeze_and_excite(x):
    y = L.Conv2D(8, 3, activation="swish")(x)
    scale = L.Reshape((1, 1, 8))(L.GlobalAveragePooling2D()(y))
    y = L.Multiply()([y, L.Dense(8, activation="sigmoid")(scale)])
    return classes()()(L.GlobalAveragePooling2D()(y))


def transformer(x):
    h = L.Dense(8)(x)
    h = L.LayerNormalization()(h + L.MultiHeadAttention(2, 4)(h, h))
    h = L.LayerNormalization()(h + L.Dense(8)(L.Dense(16, activation="gelu")(h)))
    return classes()()(L.GlobalAveragePooling1D()(h))


def unet(x):
    a = L.Conv2D(4, 3, padding="same", activation="relu")(x)
    b = L.Conv2D(8, 3, padding="same", activation="relu")(L.MaxPooling2D()(a))
    c = L.Concatenate()([L.UpSampling2D()(b), a])
    return classes()()(L.Flatten()(L.Conv2D(4, 3, padding="same", activation="relu")(c)))


def seq2seq(x):
    _, h, c = L.LSTM(7, return_state=True)(x)
    return classes()()(L.LSTM(7)(L.Dense(4)(x), initial_state=[h, c]))


NETWORKS = {
    "mlp": chain(VALUES, lambda: L.Dense(16, activation="relu"), classes()),
    "logits": chain(VALUES, lambda: L.Dense(16, activation="tanh"), lambda: L.Dense(5)),
    "binary": chain(VALUES, lambda: L.Dense(16, activation="relu"),
                    lambda: L.Dense(1, activation="sigmoid")),
    "regression": chain(VALUES, lambda: L.Dense(16, activation="relu"), lambda: L.Dense(1)),
    "cnn": chain(IMAGE, lambda: L.Conv2D(8, 3, activation="relu"), L.MaxPooling2D,
                 lambda: L.Conv2D(8, 3, strides=2, padding="same"), L.Flatten, classes()),
    "pools": chain(IMAGE, lambda: L.Conv2D(8, 3, activation="leaky_relu"),
                   lambda: L.AveragePooling2D(2), L.GlobalMaxPooling2D, classes()),
    "batchnorm": chain(IMAGE, lambda: L.Conv2D(8, 3), L.BatchNormalization, L.ReLU,
                       L.GlobalAveragePooling2D, classes()),
    "depthwise": chain(IMAGE, lambda: L.DepthwiseConv2D(3, padding="same"), L.ReLU,
                       lambda: L.SeparableConv2D(8, 3), L.GlobalAveragePooling2D, classes()),
    "squeeze_and_excite": graph(IMAGE, squeeze_and_excite),
    "prelu": chain(IMAGE, lambda: L.Conv2D(8, 3), lambda: L.PReLU(shared_axes=[1, 2]), L.Flatten,
                   classes()),
    "conv1d": chain((20, 3), lambda: L.Conv1D(8, 3, activation="relu"), L.MaxPooling1D,
                    lambda: L.Conv1D(8, 3, padding="causal", dilation_rate=2),
                    L.GlobalAveragePooling1D, classes()),
    "gru": chain(SEQUENCE, lambda: L.GRU(7), classes()),
    "gru_reset_first": chain(SEQUENCE, lambda: L.GRU(7, reset_after=False), classes()),
    "simple_rnn": chain(SEQUENCE, lambda: L.SimpleRNN(7), classes()),
    "lstm": chain(SEQUENCE, lambda: L.LSTM(7), classes()),
    "both_ways": chain(SEQUENCE, lambda: L.Bidirectional(L.LSTM(7)), classes()),
    "seq2seq": graph(SEQUENCE, seq2seq),
    "embedding": chain(WORDS, lambda: L.Embedding(20, 6), L.GlobalAveragePooling1D, classes()),
    "time_distributed": chain(SEQUENCE, lambda: L.TimeDistributed(L.Dense(4)), L.Flatten,
                              classes()),
    "layernorm": chain(VALUES, lambda: L.Dense(16, activation="gelu"), L.LayerNormalization,
                       classes()),
    "transformer": graph(SEQUENCE, transformer),
    "unet": graph((8, 8, 3), unet),
}


def classic(rng):
    three, two = rng.integers(0, 3, 120), rng.integers(0, 2, 120)
    x = rng.standard_normal((120, 8)).astype("f")
    value = x[:, 0] * 2 + rng.standard_normal(120)
    net = {"hidden_layer_sizes": (16,), "max_iter": 20}
    return x, {
        "mlp_classifier": (MLPClassifier(**net), three),
        "mlp_two_classes": (MLPClassifier(activation="tanh", **net), two),
        "mlp_regressor": (MLPRegressor(**net), value),
        "scaled_classifier": (make_pipeline(StandardScaler(), MLPClassifier(**net)), three),
        "scaled_regressor": (make_pipeline(StandardScaler(), MLPRegressor(**net)), value),
        "min_max": (make_pipeline(MinMaxScaler(), MLPClassifier(**net)), three),
        "logistic": (LogisticRegression(), three),
        "logistic_two": (LogisticRegression(), two),
        "scaled_logistic": (make_pipeline(StandardScaler(), LogisticRegression()), three),
        "linear": (LinearRegression(), value),
        "ridge": (Ridge(), value),
    }


def train(uwasa, path, table, steps, batch):
    command = [uwasa, "train", "--model", path, "--data", f"csv:{table},{table}", "--no-shuffle",
               "--steps", str(steps), "--batch", str(batch), "--lr", str(LR), "--json", "-"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    events = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    losses = [e["loss"] for e in events if e["event"] == "step"]
    return losses if len(losses) == steps else done.stderr.strip().splitlines()[-1:]


def keras_losses(model, x, y):
    last, outputs = model.layers[-1], model.output_shape[-1]
    soft = getattr(last.activation, "__name__", "") == "softmax"

    def loss(target, answer):
        if outputs == 5:
            return keras.losses.sparse_categorical_crossentropy(target, answer,
                                                                from_logits=not soft)
        kind = keras.losses.binary_crossentropy if last.activation.__name__ == "sigmoid" \
            else keras.losses.mean_squared_error
        return kind(tf.cast(target[:, None], tf.float32), answer)
    optimizer, losses = keras.optimizers.SGD(LR), []
    for k in range(STEPS):
        part = slice(k * BATCH, (k + 1) * BATCH)
        with tf.GradientTape() as tape:
            value = tf.reduce_mean(loss(tf.constant(y[part]), model(tf.constant(x[part]))))
        losses.append(float(value))
        gradients = tape.gradient(value, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return losses


def run_keras(uwasa, name, folder):
    """What is wrong; None: nothing."""
    keras.utils.set_random_seed(3)
    rng = np.random.default_rng(5)
    model = NETWORKS[name]()
    for w in model.trainable_variables:         # an exporter leaves out biases of zeros
        w.assign(w.numpy() + 0.1 * rng.standard_normal(w.shape).astype("f"))
    shape, samples = model.inputs[0].shape[1:], BATCH * STEPS
    x = rng.standard_normal((samples, *shape)).astype("f")
    if shape == WORDS:
        x = rng.integers(0, 20, (samples, *shape)).astype("f")
    y = {"regression": rng.standard_normal(samples).astype("f"),
         "binary": rng.integers(0, 2, samples)}.get(name, rng.integers(0, 5, samples))
    path, table = os.path.join(folder, f"{name}.onnx"), os.path.join(folder, f"{name}.csv")
    signature = (tf.TensorSpec((None, *shape), tf.float32, name="x"),)
    function = tf.function(lambda x: model(x, training=False), input_signature=signature)
    file, _ = tf2onnx.convert.from_function(function, input_signature=signature, opset=15)
    with open(path, "wb") as f:
        f.write(file.SerializeToString())
    np.savetxt(table, np.c_[x.reshape(samples, -1), y], fmt="%.9g", delimiter=",")
    want, got = keras_losses(model, x, y), train(uwasa, path, table, STEPS, BATCH)
    if isinstance(got[0], str):
        return got[0]
    far = max(abs(a - b) for a, b in zip(want, got))
    return None if far < TOLERANCE else f"Keras {want[:3]}, uwasa {got[:3]}"


def run_classic(uwasa, name, folder):
    x, models = classic(np.random.default_rng(0))
    model, y = models[name]
    model.fit(x, y)
    path, table = os.path.join(folder, f"{name}.onnx"), os.path.join(folder, f"{name}.csv")
    with open(path, "wb") as f:
        f.write(skl2onnx.to_onnx(model, x[:1]).SerializeToString())
    np.savetxt(table, np.c_[x, y], fmt="%.9g", delimiter=",")
    want = log_loss(y, model.predict_proba(x)) if hasattr(model, "predict_proba") \
        else mean_squared_error(y, model.predict(x))
    got = train(uwasa, path, table, 20, len(x))
    if isinstance(got[0], str):
        return got[0]
    good = abs(want - got[0]) < TOLERANCE and got[-1] <= got[0] + 1e-6
    return None if good else f"scikit-learn {want}, uwasa {got[0]} to {got[-1]}"


def main():
    known = [*NETWORKS, *classic(np.random.default_rng(0))[1]]
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("uwasa")
    p.add_argument("--networks", default=",".join(known))
    p.add_argument("-v", action="store_true", help="print every network")
    args = p.parse_args()
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    agree = unexpected = 0
    names = args.networks.split(",")
    with tempfile.TemporaryDirectory(prefix="uwasa-exporters-") as folder:
        for name in names:
            wrong = (run_keras if name in NETWORKS else run_classic)(args.uwasa, name, folder)
            agree += wrong is None
            odd = (wrong is None) == (name in KNOWN)
            unexpected += odd
            if odd or args.v:
                print(f"{name}: {wrong or 'agrees'}", flush=True)
    print(f"{agree} of {len(names)} networks agree, {len(KNOWN)} are known not to")
    return 1 if unexpected else 0


if __name__ == "__main__":
    sys.exit(main())

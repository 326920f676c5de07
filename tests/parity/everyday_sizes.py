# SPDX-License-Identifier: Apache-2.0
"""The networks of everyday_networks.py in the sizes that people train beside a sensor, for
tools/bench_pytorch."""

import everyday_networks as n

SERIES = (128, 6)
NETWORKS = {        # name: (what makes it, shape of a sample)
    "resnet18": (lambda: n.ResNet18(32), (3, 64, 64)),
    "densenet40": (lambda: n.DenseNet(12, 12), n.IMAGE),
    "mobilenet_v3": (n.MobileNetV3, (3, 64, 64)), "efficientnet": (n.EfficientNet, (3, 64, 64)),
    "unet": (lambda: n.UNet(16), (3, 64, 64)), "squeezenet": (n.SqueezeNet, (3, 64, 64)),
    "shufflenet": (n.ShuffleNet, (3, 64, 64)), "convnext": (n.ConvNeXt, (3, 64, 64)),
    "vit": (lambda: n.ViT(64), n.IMAGE), "mixer": (lambda: n.Mixer(64, 4, 4), n.IMAGE),
    "lstm": (lambda: n.TwoLSTMs(64), SERIES),
    "deep_conv_lstm": (lambda: n.DeepConvLSTM(32, 64), SERIES),
    "activity": (lambda: n.Activity(64), (6, 128)),
    "time_transformer": (lambda: n.TimeTransformer(64, 128), SERIES),
    "plain_rows": (n.PlainRows, (20,))}

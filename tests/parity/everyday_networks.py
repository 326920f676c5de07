# SPDX-License-Identifier: Apache-2.0
"""The networks that most people train, small: each has the structure of the one it is named after.
Of exported_networks.py."""

import torch
from torch import nn
import torch.nn.functional as F


def conv_bn(i, o, k=3, s=1, g=1, act=nn.ReLU):
    layers = [nn.Conv2d(i, o, k, s, k // 2, groups=g, bias=False), nn.BatchNorm2d(o)]
    if act:
        layers.append(act())
    return nn.Sequential(*layers)


class Basic(nn.Module):
    def __init__(self, i, o, st=1):
        super().__init__()
        self.conv1 = nn.Conv2d(i, o, 3, st, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(o)
        self.conv2 = nn.Conv2d(o, o, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(o)
        self.down = (
            nn.Sequential(nn.Conv2d(i, o, 1, st, bias=False), nn.BatchNorm2d(o))
            if st != 1 or i != o
            else None
        )

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        return F.relu(y + (self.down(x) if self.down is not None else x))


class ResNet18(nn.Module):
    def __init__(self, w=8):
        super().__init__()
        self.conv1 = nn.Conv2d(3, w, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(w)
        self.pool = nn.MaxPool2d(3, 2, 1)
        layers = []
        i = w
        for k, m in enumerate([1, 2, 4, 8]):
            layers += [Basic(i, w * m, 1 if k == 0 else 2), Basic(w * m, w * m)]
            i = w * m
        self.layers = nn.Sequential(*layers)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(i, 5)

    def forward(self, x):
        x = self.pool(F.relu(self.bn1(self.conv1(x))))
        x = self.avgpool(self.layers(x))
        return self.fc(torch.flatten(x, 1))


class DenseNet(nn.Module):
    def __init__(self, g=4, n=3):
        super().__init__()
        self.c = nn.Conv2d(3, 8, 3, 1, 1, bias=False)
        self.layers = nn.ModuleList()
        i = 8
        self.transitions = nn.ModuleList()
        for b in range(3):
            for k in range(n):
                self.layers.append(
                    nn.Sequential(
                        nn.BatchNorm2d(i), nn.ReLU(), nn.Conv2d(i, g, 3, 1, 1, bias=False)
                    )
                )
                i += g
            if b < 2:
                self.transitions.append(
                    nn.Sequential(
                        nn.BatchNorm2d(i),
                        nn.ReLU(),
                        nn.Conv2d(i, i, 1, bias=False),
                        nn.AvgPool2d(2),
                    )
                )
        self.n = n
        self.bn = nn.BatchNorm2d(i)
        self.fc = nn.Linear(i, 5)

    def forward(self, x):
        x = self.c(x)
        j = 0
        for b in range(3):
            for k in range(self.n):
                x = torch.cat([x, self.layers[j](x)], 1)
                j += 1
            if b < 2:
                x = self.transitions[b](x)
        return self.fc(F.relu(self.bn(x)).mean((2, 3)))


class SqueezeExcite(nn.Module):
    def __init__(self, c, r=4, gate=nn.Hardsigmoid):
        super().__init__()
        self.avg = nn.AdaptiveAvgPool2d(1)
        self.f1 = nn.Conv2d(c, max(c // r, 2), 1)
        self.f2 = nn.Conv2d(max(c // r, 2), c, 1)
        self.g = gate()

    def forward(self, x):
        return x * self.g(self.f2(F.relu(self.f1(self.avg(x)))))


class InvertedResidual(nn.Module):
    def __init__(self, i, o, e, k, st, se, act, gate):
        super().__init__()
        layers = [conv_bn(i, e, 1, act=act), conv_bn(e, e, k, st, e, act)]
        if se:
            layers.append(SqueezeExcite(e, 4, gate))
        layers.append(conv_bn(e, o, 1, act=None))
        self.b = nn.Sequential(*layers)
        self.r = st == 1 and i == o

    def forward(self, x):
        return x + self.b(x) if self.r else self.b(x)


class MobileNetV3(nn.Module):
    def __init__(self):
        super().__init__()
        H = nn.Hardswish
        self.f = nn.Sequential(
            conv_bn(3, 8, 3, 2, act=H),
            InvertedResidual(8, 8, 8, 3, 2, True, nn.ReLU, nn.Hardsigmoid),
            InvertedResidual(8, 12, 24, 3, 1, False, nn.ReLU, nn.Hardsigmoid),
            InvertedResidual(12, 12, 32, 5, 1, True, H, nn.Hardsigmoid),
            conv_bn(12, 32, 1, act=H),
        )
        self.c = nn.Sequential(nn.Linear(32, 24), H(), nn.Linear(24, 5))

    def forward(self, x):
        return self.c(torch.flatten(F.adaptive_avg_pool2d(self.f(x), 1), 1))


class EfficientNet(nn.Module):
    def __init__(self):
        super().__init__()
        H = nn.SiLU
        self.f = nn.Sequential(
            conv_bn(3, 8, 3, 2, act=H),
            InvertedResidual(8, 8, 8, 3, 1, True, H, nn.Sigmoid),
            InvertedResidual(8, 12, 32, 3, 2, True, H, nn.Sigmoid),
            InvertedResidual(12, 12, 48, 5, 1, True, H, nn.Sigmoid),
            conv_bn(12, 32, 1, act=H),
        )
        self.c = nn.Linear(32, 5)

    def forward(self, x):
        return self.c(F.adaptive_avg_pool2d(self.f(x), 1).flatten(1))


class UNet(nn.Module):
    def __init__(self, c=6):
        super().__init__()
        d = lambda i, o: nn.Sequential(
            nn.Conv2d(i, o, 3, padding=1),
            nn.BatchNorm2d(o),
            nn.ReLU(),
            nn.Conv2d(o, o, 3, padding=1),
            nn.ReLU(),
        )
        self.d1 = d(3, c)
        self.d2 = d(c, 2 * c)
        self.d3 = d(2 * c, 4 * c)
        self.u2 = nn.ConvTranspose2d(4 * c, 2 * c, 2, 2)
        self.c2 = d(4 * c, 2 * c)
        self.u1 = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False)
        self.c1 = d(3 * c, c)
        self.o = nn.Conv2d(c, 1, 1)

    def forward(self, x):
        a = self.d1(x)
        b = self.d2(F.max_pool2d(a, 2))
        c = self.d3(F.max_pool2d(b, 2))
        y = self.c2(torch.cat([self.u2(c), b], 1))
        y = self.c1(torch.cat([self.u1(y), a], 1))
        return self.o(y)


class Fire(nn.Module):
    def __init__(self, i, q, e):
        super().__init__()
        self.s = nn.Conv2d(i, q, 1)
        self.a = nn.Conv2d(q, e, 1)
        self.b = nn.Conv2d(q, e, 3, padding=1)

    def forward(self, x):
        x = F.relu(self.s(x))
        return torch.cat([F.relu(self.a(x)), F.relu(self.b(x))], 1)


class SqueezeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.f = nn.Sequential(
            nn.Conv2d(3, 16, 3, 2),
            nn.ReLU(),
            nn.MaxPool2d(3, 2, ceil_mode=True),
            Fire(16, 4, 8),
            Fire(16, 4, 8),
            nn.MaxPool2d(3, 2, ceil_mode=True),
            Fire(16, 8, 16),
        )
        self.c = nn.Sequential(nn.Conv2d(32, 5, 1), nn.ReLU(), nn.AdaptiveAvgPool2d((1, 1)))

    def forward(self, x):
        return torch.flatten(self.c(self.f(x)), 1)


class ShuffleUnit(nn.Module):
    def __init__(self, c):
        super().__init__()
        h = c // 2
        self.b = nn.Sequential(conv_bn(h, h, 1), conv_bn(h, h, 3, 1, h, None), conv_bn(h, h, 1))

    def forward(self, x):
        a, b = x.chunk(2, 1)
        y = torch.cat([a, self.b(b)], 1)
        n, c, h, w = y.shape
        return y.view(n, 2, c // 2, h, w).transpose(1, 2).reshape(n, c, h, w)


class ShuffleNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.c = conv_bn(3, 16, 3, 2)
        self.u = nn.Sequential(ShuffleUnit(16), ShuffleUnit(16))
        self.fc = nn.Linear(16, 5)

    def forward(self, x):
        return self.fc(self.u(self.c(x)).mean([2, 3]))


class ChannelNorm(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(c))
        self.bias = nn.Parameter(torch.zeros(c))

    def forward(self, x):
        u = x.mean(1, keepdim=True)
        v = (x - u).pow(2).mean(1, keepdim=True)
        x = (x - u) / torch.sqrt(v + 1e-6)
        return self.weight[:, None, None] * x + self.bias[:, None, None]


class ConvNeXtBlock(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.dw = nn.Conv2d(c, c, 7, padding=3, groups=c)
        self.n = nn.LayerNorm(c, eps=1e-6)
        self.a = nn.Linear(c, 4 * c)
        self.b = nn.Linear(4 * c, c)
        self.gamma = nn.Parameter(0.1 * torch.ones(c))

    def forward(self, x):
        y = self.dw(x).permute(0, 2, 3, 1)
        y = self.gamma * self.b(F.gelu(self.a(self.n(y))))
        return x + y.permute(0, 3, 1, 2)


class ConvNeXt(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 4, 4), ChannelNorm(8))
        self.b = nn.Sequential(ConvNeXtBlock(8), ConvNeXtBlock(8))
        self.down = nn.Sequential(ChannelNorm(8), nn.Conv2d(8, 16, 2, 2))
        self.c = ConvNeXtBlock(16)
        self.n = nn.LayerNorm(16)
        self.fc = nn.Linear(16, 5)

    def forward(self, x):
        return self.fc(self.n(self.c(self.down(self.b(self.stem(x)))).mean([-2, -1])))


class SelfAttention(nn.Module):
    def __init__(self, e, h):
        super().__init__()
        self.h = h
        self.qkv = nn.Linear(e, 3 * e)
        self.p = nn.Linear(e, e)

    def forward(self, x):
        B, N, C = x.shape
        q, k, v = (
            self.qkv(x).reshape(B, N, 3, self.h, C // self.h).permute(2, 0, 3, 1, 4).unbind(0)
        )
        a = (q @ k.transpose(-2, -1)) * (C // self.h) ** -0.5
        return self.p((a.softmax(-1) @ v).transpose(1, 2).reshape(B, N, C))


class ViTBlock(nn.Module):
    def __init__(self, e, h):
        super().__init__()
        self.n1 = nn.LayerNorm(e)
        self.a = SelfAttention(e, h)
        self.n2 = nn.LayerNorm(e)
        self.m = nn.Sequential(nn.Linear(e, 2 * e), nn.GELU(), nn.Linear(2 * e, e))

    def forward(self, x):
        x = x + self.a(self.n1(x))
        return x + self.m(self.n2(x))


class ViT(nn.Module):
    def __init__(self, e=16):
        super().__init__()
        self.patch = nn.Conv2d(3, e, 8, 8)
        self.cls = nn.Parameter(torch.randn(1, 1, e) * 0.5)
        self.pos = nn.Parameter(torch.randn(1, 17, e) * 0.3)
        self.b = nn.Sequential(ViTBlock(e, 4), ViTBlock(e, 4))
        self.n = nn.LayerNorm(e)
        self.fc = nn.Linear(e, 5)

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls.expand(x.shape[0], -1, -1), x], 1) + self.pos
        return self.fc(self.n(self.b(x))[:, 0])


class MixBlock(nn.Module):
    def __init__(self, t, c):
        super().__init__()
        self.n1 = nn.LayerNorm(c)
        self.t = nn.Sequential(nn.Linear(t, 2 * t), nn.GELU(), nn.Linear(2 * t, t))
        self.n2 = nn.LayerNorm(c)
        self.c = nn.Sequential(nn.Linear(c, 2 * c), nn.GELU(), nn.Linear(2 * c, c))

    def forward(self, x):
        x = x + self.t(self.n1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.c(self.n2(x))


class Mixer(nn.Module):
    def __init__(self, c=16, patch=8, depth=2):
        super().__init__()
        tokens = (32 // patch) ** 2
        self.p = nn.Conv2d(3, c, patch, patch)
        self.b = nn.Sequential(*[MixBlock(tokens, c) for _ in range(depth)])
        self.n = nn.LayerNorm(c)
        self.fc = nn.Linear(c, 5)

    def forward(self, x):
        x = self.p(x).flatten(2).transpose(1, 2)
        return self.fc(self.n(self.b(x)).mean(1))


class TwoLSTMs(nn.Module):
    def __init__(self, h=12):
        super().__init__()
        self.r = nn.LSTM(6, h, 2, batch_first=True)
        self.fc = nn.Linear(h, 5)

    def forward(self, x):
        y, _ = self.r(x)
        return self.fc(y[:, -1])


class DeepConvLSTM(nn.Module):
    def __init__(self, c=8, h=12):
        super().__init__()
        self.c = nn.Sequential(
            nn.Conv2d(1, c, (5, 1)), nn.ReLU(), nn.Conv2d(c, c, (5, 1)), nn.ReLU()
        )
        self.r = nn.LSTM(c * 6, h, 2, batch_first=True)
        self.fc = nn.Linear(h, 5)

    def forward(self, x):
        y = self.c(x.unsqueeze(1))
        y = y.permute(0, 2, 1, 3).flatten(2)
        y, _ = self.r(y)
        return self.fc(y[:, -1, :])


class Activity(nn.Module):
    def __init__(self, c=16):
        super().__init__()
        self.c = nn.Sequential(
            nn.Conv1d(6, c, 5, padding=2),
            nn.BatchNorm1d(c),
            nn.ReLU(),
            nn.MaxPool1d(2),
            nn.Conv1d(c, c, 5, padding=2),
            nn.ReLU(),
            nn.AdaptiveAvgPool1d(1),
        )
        self.fc = nn.Linear(c, 5)

    def forward(self, x):
        return self.fc(self.c(x).squeeze(-1))


class TimeTransformer(nn.Module):
    def __init__(self, e=16, steps=24):
        super().__init__()
        self.e = nn.Linear(6, e)
        self.pos = nn.Parameter(torch.randn(1, steps, e) * 0.3)
        self.t = nn.TransformerEncoder(
            nn.TransformerEncoderLayer(e, 4, 2 * e, dropout=0.0, batch_first=True),
            2,
            enable_nested_tensor=False,
        )
        self.fc = nn.Linear(e, 5)

    def forward(self, x):
        return self.fc(self.t(self.e(x) + self.pos).mean(1))


class PlainRows(nn.Module):
    def __init__(self):
        super().__init__()
        self.f = nn.Sequential(
            nn.Linear(20, 32),
            nn.BatchNorm1d(32),
            nn.PReLU(),
            nn.Linear(32, 16),
            nn.BatchNorm1d(16),
            nn.PReLU(16),
            nn.Linear(16, 5),
        )

    def forward(self, x):
        return self.f(x)


IMAGE, SERIES = (3, 32, 32), (24, 6)
NETWORKS = {        # name: (class, shape of a sample)
    "resnet18": (ResNet18, (3, 64, 64)), "densenet": (DenseNet, IMAGE),
    "mobilenet_v3": (MobileNetV3, IMAGE), "efficientnet": (EfficientNet, IMAGE),
    "unet": (UNet, (3, 16, 16)), "squeezenet": (SqueezeNet, IMAGE),
    "shufflenet": (ShuffleNet, IMAGE), "convnext": (ConvNeXt, IMAGE), "vit": (ViT, IMAGE),
    "mixer": (Mixer, IMAGE), "lstm": (TwoLSTMs, SERIES), "deep_conv_lstm": (DeepConvLSTM, SERIES),
    "activity": (Activity, (6, 32)), "time_transformer": (TimeTransformer, SERIES),
    "plain_rows": (PlainRows, (20,))}

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Print the vectors of test_sound.c: the formula of uwasa/sound.h in float64 with PyTorch."""
import math

import torch


def features(rate, window, hop, frames, mels, cepstra, low, high):
    n = torch.arange(window + (frames - 1) * hop, dtype=torch.float64)
    x = 0.5 * torch.sin(0.05 * n) + 0.25 * torch.sin(0.31 * n + 1) + 0.01 * torch.sin(n * n)
    x = x.float().double()
    fft = 4
    while fft < window:
        fft *= 2
    w = torch.hann_window(window, dtype=torch.float64)
    power = torch.fft.rfft(x.unfold(0, window, hop) * w, fft).abs() ** 2
    to_mel = [1127 * math.log(1 + f / 700) for f in (low, high)]
    edge = 700 * (torch.exp(torch.linspace(*to_mel, mels + 2, dtype=torch.float64) / 1127) - 1)
    hz = torch.arange(fft // 2 + 1, dtype=torch.float64)[:, None] * rate / fft
    up = (hz - edge[:-2]) / (edge[1:-1] - edge[:-2])
    down = (edge[2:] - hz) / (edge[2:] - edge[1:-1])
    y = 1 + torch.log10(power @ torch.minimum(up, down).clamp(min=0) + 1e-6) / 3
    if cepstra:
        m, j = torch.arange(mels, dtype=torch.float64), torch.arange(cepstra, dtype=torch.float64)
        y = y @ torch.cos(math.pi * j * (m[:, None] + 0.5) / mels) * math.sqrt(2 / mels)
        y[:, 0] /= math.sqrt(2)
    return y.flatten()


for config in ((16000, 480, 320, 3, 40, 10, 20, 8000), (8000, 200, 80, 2, 24, 0, 0, 3800)):
    print(config)
    numbers = [f"{v:.7f}f," for v in features(*config).tolist()]
    for i in range(0, len(numbers), 8):
        print("    " + " ".join(numbers[i:i + 8]))

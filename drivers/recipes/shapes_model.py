#!/usr/bin/env python3
"""Trains a convolution network on pictures of shapes and saves it as TorchScript, with a new last layer.

    shapes_model.py FILE.pt [--steps N]

The pictures [28, 28] are made here from random numbers, so the weights are public; a private run then trains the last
layer on them (--freeze 'features.*'). Needs PyTorch.
"""

import argparse

import torch
from torch import nn

CLASSES = 10  # of the data that the model is for


class Network(nn.Module):
    def __init__(self, outputs):
        super().__init__()
        self.features = nn.Sequential(
            nn.Unflatten(1, (1, 28)), nn.Conv2d(1, 32, 5, stride=2, padding=2), nn.GroupNorm(8, 32), nn.ReLU(),
            nn.Conv2d(32, 64, 3, stride=2, padding=1), nn.GroupNorm(8, 64), nn.ReLU(), nn.Flatten())
        self.head = nn.Linear(64 * 7 * 7, outputs)

    def forward(self, x):
        return self.head(self.features(x))


# Each shape is where a function of coordinates, about -1 to 1 inside of its frame, is true.
SHAPES = [
    lambda u, v: u**2 + v**2 < 1,  # disc
    lambda u, v: (u**2 + v**2 < 1) & (u**2 + v**2 > 0.4),  # ring
    lambda u, v: torch.maximum(u.abs(), v.abs()) < 0.9,  # square
    lambda u, v: (torch.maximum(u.abs(), v.abs()) < 0.9) & (torch.maximum(u.abs(), v.abs()) > 0.6),  # frame
    lambda u, v: (v < 0.8) & (u.abs() < (v + 1) / 2),  # triangle
    lambda u, v: (torch.minimum(u.abs(), v.abs()) < 0.25) & (torch.maximum(u.abs(), v.abs()) < 1),  # cross
    lambda u, v: (torch.maximum(u.abs(), v.abs()) < 1) & ((u.abs() > 0.3) | (v < -0.5)),  # arch
    lambda u, v: (torch.maximum(u.abs(), v.abs()) < 1) & ((u.abs() < 0.5) | (v < -0.4)),  # shirt
    lambda u, v: (torch.maximum(u.abs(), v.abs()) < 1) & (torch.sin(9 * u) > 0),  # stripes up
    lambda u, v: (torch.maximum(u.abs(), v.abs()) < 1) & (torch.sin(9 * v) > 0),  # stripes across
]


def pictures(n):
    """Pictures [n, 28, 28] in [0, 1], alike in nothing but the shape, and the shapes' numbers [n]."""
    axis = torch.linspace(-1, 1, 28)
    y, x = torch.meshgrid(axis, axis, indexing="ij")
    uniform = torch.rand(n, 8, 1, 1)
    width, height = 0.4 + 0.5 * uniform[:, 0], 0.4 + 0.5 * uniform[:, 1]
    v = (y - 0.4 * (uniform[:, 2] - 0.5)) / height
    u = (x - 0.4 * (uniform[:, 3] - 0.5)) / width + 0.6 * (uniform[:, 4] - 0.5) * v
    labels = torch.randint(len(SHAPES), (n,))
    inside = torch.empty(n, 28, 28)
    for number, shape in enumerate(SHAPES):
        chosen = labels == number
        inside[chosen] = shape(u[chosen], v[chosen]).float()
    texture = 1 - 0.5 * uniform[:, 5] * torch.rand(n, 28, 28)
    noise = 0.1 * uniform[:, 7] * torch.rand(n, 28, 28)
    return (inside * (0.4 + 0.6 * uniform[:, 6]) * texture + noise).clamp(0, 1), labels


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", metavar="FILE.pt")
    parser.add_argument("--steps", type=int, default=600, metavar="N", help="of training on shapes (600)")
    arguments = parser.parse_args()
    torch.manual_seed(1)
    model = Network(len(SHAPES))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(arguments.steps):
        x, labels = pictures(128)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), labels).backward()
        optimizer.step()
    with torch.no_grad():
        x, labels = pictures(2000)
        print(f"{100 * (model(x).argmax(1) == labels).float().mean():.1f} % of 2000 new shapes are recognised")
    model.head = nn.Linear(model.head.in_features, CLASSES)
    nn.init.zeros_(model.head.weight)
    nn.init.zeros_(model.head.bias)
    torch.jit.script(model).save(arguments.file)


if __name__ == "__main__":
    main()

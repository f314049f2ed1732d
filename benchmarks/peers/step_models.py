"""The models that steps are measured on, with a batch each: step_models.py MODEL FOLDER

writes model.pt and batch.pt to the folder, for bench-script-step. The models are those of bench-step.
"""

import sys
import warnings

import torch
from torch import nn
from torch.nn import functional as F

# The recurrent layer, which Opacus wants to be its own.
LSTM = nn.LSTM


def labels(n):
    return torch.randint(10, (n,))


def perceptron(n):
    model = nn.Sequential(
        nn.Flatten(), nn.Linear(784, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10))
    return model, torch.randn(n, 1, 28, 28), labels(n)


def tanh_cnn(n):
    model = nn.Sequential(
        nn.Conv2d(1, 16, 8, 2, 3), nn.Tanh(), nn.MaxPool2d(2, 1), nn.Conv2d(16, 32, 4, 2), nn.Tanh(),
        nn.MaxPool2d(2, 1), nn.Flatten(), nn.Linear(512, 32), nn.Tanh(), nn.Linear(32, 10))
    return model, torch.randn(n, 1, 28, 28), labels(n)


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def attention(self, x):
        n, length, width = x.shape
        q, k, v = self.qkv(x).view(n, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        return self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(n, length, width))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.narrow(F.gelu(self.wide(self.norm2(x))))


class Transformer(nn.Module):
    def __init__(self, width=256, blocks=4, length=64, vocabulary=5000):
        super().__init__()
        self.table = nn.Embedding(vocabulary, width)
        # A table looked up by position: Opacus takes no bare parameter.
        self.positions = nn.Embedding(length, width)
        self.blocks = nn.Sequential(*(Block(width, 4) for _ in range(blocks)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 10)

    def forward(self, x):
        places = torch.arange(x.shape[1]).repeat(x.shape[0], 1)
        return self.head(self.norm(self.blocks(self.table(x) + self.positions(places))).mean(1))


def transformer(n):
    return Transformer(), torch.randint(5000, (n, 64)), labels(n)


class Residual(nn.Module):
    def __init__(self, channels, width, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, width, 3, stride, 1, bias=False)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.skip = nn.Conv2d(channels, width, 1, stride, bias=False)
        self.norm1, self.norm2 = nn.GroupNorm(8, width), nn.GroupNorm(8, width)

    def forward(self, x):
        h = F.relu(self.norm1(self.conv1(x)))
        return F.relu(self.norm2(self.conv2(h)) + self.skip(x))


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(64, 10)

    def forward(self, x):
        return self.layer(x.mean((2, 3)))


def resnet(n):
    widths = [16, 16, 16, 32, 32, 64, 64]
    blocks = [Residual(a, b, 2 if b > a else 1) for a, b in zip(widths, widths[1:])]
    model = nn.Sequential(nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.GroupNorm(8, 16), nn.ReLU(), *blocks, Head())
    return model, torch.randn(n, 3, 32, 32), labels(n)


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.cells = LSTM(64, 128, batch_first=True)
        self.head = nn.Linear(128, 10)

    def forward(self, x):
        return self.head(self.cells(x)[0][:, -1])


def recurrent(n):
    return Recurrent(), torch.randn(n, 32, 64), labels(n)


MODELS = {
    "mlp-256": lambda: perceptron(256),
    "mlp-2048": lambda: perceptron(2048),
    "cnn-256": lambda: tanh_cnn(256),
    "cnn-2048": lambda: tanh_cnn(2048),
    "transformer": lambda: transformer(32),
    "resnet": lambda: resnet(64),
    "lstm": lambda: recurrent(64),
}


class Batch(nn.Module):
    def __init__(self, x, y):
        super().__init__()
        self.register_buffer("x", x)
        self.register_buffer("y", y)

    def forward(self):
        return 0


def main():
    name, folder = sys.argv[1:]
    warnings.filterwarnings("ignore", category=FutureWarning)  # TorchScript is deprecated in Python
    torch.manual_seed(1)
    model, x, y = MODELS[name]()
    # Traced, because LSTM below is a variable.
    torch.jit.trace(model, x).save(f"{folder}/model.pt")
    torch.jit.script(Batch(x, y)).save(f"{folder}/batch.pt")


if __name__ == "__main__":
    main()

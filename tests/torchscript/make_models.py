"""Makes TorchScript models and what torch.func says about them.

    make_models.py FOLDER

writes for each model NAME.pt, as a user would save it, its examples in NAME-input.pt, and for classifiers
NAME-expected.pt, whose buffers are the examples `x`, labels `y`, the logits, and the norm of each example's gradient of
the cross-entropy over all parameters by torch.func.grad. Exits with 77 where torch cannot be imported.
"""

import pathlib
import sys
import warnings

try:
    import torch
    from torch import nn
    from torch.nn import functional as F
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

warnings.filterwarnings("ignore", category=FutureWarning)  # TorchScript is deprecated in Python
EXAMPLES, CLASSES = 6, 3


def convolutional_net():
    return nn.Sequential(
        nn.Conv2d(1, 8, 5, stride=2, padding=2), nn.Tanh(), nn.MaxPool2d(2, 1), nn.Conv2d(8, 16, 3, groups=2),
        nn.Tanh(), nn.Flatten(), nn.Linear(16 * 5 * 5, CLASSES))


class Block(nn.Module):
    def __init__(self, channels, width, stride):
        super().__init__()
        self.first = nn.Conv2d(channels, width, 3, stride, 1, bias=False)
        self.norm = nn.GroupNorm(4, width)
        self.second = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.last_norm = nn.GroupNorm(4, width)
        self.shortcut = nn.Conv2d(channels, width, 1, stride)

    def forward(self, x):
        y = F.silu(self.norm(self.first(x)))
        return F.silu(self.last_norm(self.second(y)) + self.shortcut(x))


class ResNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.Sequential(Block(3, 8, 1), Block(8, 16, 2))
        self.head = nn.Linear(16, CLASSES)

    def forward(self, x):
        return self.head(self.blocks(x).mean([2, 3]))


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(20, 16)
        self.places = nn.Parameter(0.1 * torch.randn(9, 16))
        self.layers = nn.TransformerEncoder(
            nn.TransformerEncoderLayer(16, 4, 32, dropout=0.0, batch_first=True), 2, enable_nested_tensor=False)
        self.head = nn.Linear(16, CLASSES)

    def forward(self, x):
        return self.head(self.layers(self.words(x) + self.places).mean(1))


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.cells = nn.LSTM(5, 12, num_layers=2, batch_first=True)
        self.head = nn.Linear(12, CLASSES)

    def forward(self, x):
        return self.head(self.cells(x)[0][:, -1])


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 8)
        self.norm = nn.LayerNorm(8)
        self.again = nn.Linear(8, 8, bias=False)
        self.again.weight = self.first.weight
        self.head = nn.Linear(8, CLASSES)

    def forward(self, x):
        return self.head(self.again(torch.tanh(self.norm(self.first(x)))))


class Language(nn.Module):
    """Logits of every next token."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(20, 12)
        self.cells = nn.GRU(12, 12, batch_first=True)
        self.head = nn.Linear(12, 20)

    def forward(self, x, scale: float = 1.0):
        return self.head(self.cells(self.words(x))[0]) * scale


class Bag(nn.Module):
    """The mean over words, which leaves out the padding token or, as it must not, counts it."""

    def __init__(self, masked: bool):
        super().__init__()
        self.masked = masked
        self.words = nn.Embedding(20, 12)
        self.head = nn.Linear(12, CLASSES)

    def forward(self, x):
        real = (x != 19 if self.masked else x >= 0).unsqueeze(2).to(torch.float32)
        return self.head((self.words(x) * real).sum(1) / real.sum(1).clamp(min=1))


class Score(nn.Module):
    """One number for each example."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 1)

    def forward(self, x):
        return self.layer(x).squeeze(1)


def norms(model, x, y):
    params = {name: p.detach() for name, p in model.named_parameters()}

    def loss(params, x, y):
        return F.cross_entropy(torch.func.functional_call(model, params, (x[None],)), y[None])

    grad = torch.func.grad(loss)
    return torch.stack([
        torch.sqrt(sum(g.double().square().sum() for g in grad(params, x[i], y[i]).values())) for i in range(len(x))])


class Expected(nn.Module):
    def __init__(self, **buffers):
        super().__init__()
        for name, buffer in buffers.items():
            self.register_buffer(name, buffer)

    def forward(self):
        return 0


def save(path, model, x, traced=False):
    script = torch.jit.trace(model, x[:2]) if traced else torch.jit.script(model)
    script.save(f"{path}.pt")
    torch.save(x, f"{path}-input.pt")


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(5)
    cases = {
        "convolutional": (convolutional_net(), torch.randn(EXAMPLES, 1, 16, 16)),
        "resnet": (ResNet(), torch.randn(EXAMPLES, 3, 8, 8)),
        "encoder": (Encoder(), torch.randint(20, (EXAMPLES, 9))),
        "recurrent": (Recurrent(), torch.randn(EXAMPLES, 7, 5)),
        "tied": (Tied(), torch.randn(EXAMPLES, 8)),
    }
    for name, (model, x) in cases.items():
        y = torch.arange(EXAMPLES) % CLASSES
        save(folder / name, model, x, traced=name == "convolutional")
        expected = Expected(x=x, y=y, norms=norms(model, x, y), logits=model(x).detach())
        torch.jit.script(expected).save(f"{folder / name}-expected.pt")
    save(folder / "language", Language(), torch.randint(20, (EXAMPLES, 9)))
    save(folder / "bag", Bag(True), torch.randint(19, (EXAMPLES, 9)))
    save(folder / "bag-with-padding", Bag(False), torch.randint(19, (EXAMPLES, 9)))
    save(folder / "score", Score(), torch.randn(EXAMPLES, 8))


if __name__ == "__main__":
    main()

"""Write what `main.c` is built of: the digits network as an object and a header, and its data.

Run it as `python -m examples.embedded.export --out build`, then in that folder

    cc -O2 -I. ../examples/embedded/main.c digits.o -lm -o digits && ./digits
"""

import argparse
from pathlib import Path

import numpy as np

import symgrad as sg
from examples.digits import BATCH, SEED, load_split, make_parameters, network

EPOCHS = 30


def build_steps(rng: np.random.Generator, target: str = "native") -> dict[str, sg.Step]:
    """Compile the training step and the prediction of the example `digits.py`."""
    parameters = make_parameters(rng)
    x, y = sg.placeholder((BATCH, 64), name="x"), sg.placeholder((BATCH,), "int64", name="y")
    loss = sg.nn.cross_entropy(network(x, parameters), y)
    updates = sg.optim.Adam(lr=0.001).minimize(loss)
    train = sg.compile([x, y], loss, updates, name="train", target=target)
    scans = sg.placeholder(("n", 64), name="scans")
    read = sg.argmax(network(scans, parameters), axis=1)
    predict = sg.compile([scans], read, name="predict", target=target)
    return {"train": train, "predict": predict}


def write_data(path: Path, rng: np.random.Generator) -> None:
    """Write four counts, the scans and labels of both parts, and the batches of each epoch."""
    train_x, test_x, train_y, test_y = load_split()
    batches = len(train_x) // BATCH
    order = [rng.permutation(len(train_x))[: batches * BATCH] for _ in range(EPOCHS)]
    counts = (len(train_x), len(test_x), EPOCHS, batches)
    with path.open("wb") as file:
        file.write(np.array(counts, np.int64).tobytes())
        for array in (train_x, test_x):
            file.write(array.astype(np.float32).tobytes())
        for array in (train_y, test_y, np.array(order)):
            file.write(array.astype(np.int64).tobytes())


def main() -> None:
    """Export the steps and write the data."""
    parser = argparse.ArgumentParser(description="Export the digits network for C.")
    parser.add_argument("--out", type=Path, default=Path("build"), help="the folder to write to")
    parser.add_argument("--target", default="native", help='"native", "x86-64-v3", "aarch64", ...')
    parser.add_argument("--formats", nargs="+", default=["o", "h"], help='of "so", "o" and "h"')
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(SEED)
    steps = build_steps(rng)
    write_data(options.out / "digits.bin", rng)
    written = sg.export(
        steps,
        options.out / "digits",
        formats=options.formats,
        target=options.target,
        sizes={"predict": {"n": 360}},
    )
    print("wrote", ", ".join(str(path) for path in (*written, options.out / "digits.bin")))


if __name__ == "__main__":
    main()

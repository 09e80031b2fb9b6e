"""What a recogniser's output says, and how near two outputs are."""
import array
import dataclasses
import math
import operator
import pathlib


def read_alphabet(file: pathlib.Path) -> list[str]:
    """The classes of PP-OCR: blank, the dictionary's characters, space."""
    return ["", *file.read_text(encoding="utf-8").removesuffix("\n").split("\n"), " "]


def read_rows(file: pathlib.Path, classes: int) -> list[array.array]:
    """Probabilities by position, from raw F32 [positions, classes]."""
    values = array.array("f")
    values.frombytes(file.read_bytes())
    if not values or len(values) % classes:
        raise AssertionError(f"{file.name}: {len(values)} values are no rows of {classes}")
    return [values[at:at + classes] for at in range(0, len(values), classes)]


def text_of(rows: list[array.array], alphabet: list[str]) -> str:
    """Greedy CTC: the best class of every position, repetitions once, without blanks."""
    best = [row.index(max(row)) for row in rows]
    return "".join(alphabet[b] for b, before in zip(best, [0, *best]) if b != before)


def cosine(a: array.array, b: array.array) -> float:
    def product(x, y):
        return math.fsum(map(operator.mul, x, y))
    norm = math.sqrt(product(a, a) * product(b, b))
    return product(a, b) / norm if norm else 0.0


@dataclasses.dataclass(frozen=True)
class Comparison:
    expected: str
    got: str
    cosine: float  # of the whole matrix
    lowest_cosine: float  # of a position
    error: float  # the largest absolute one

    def passes(self, threshold: float) -> bool:
        return self.got == self.expected and self.cosine >= threshold and self.lowest_cosine >= threshold

    def __str__(self):
        return (f"cosine {self.cosine:.9f}, lowest of a position {self.lowest_cosine:.9f}, max error {self.error:.2e}, "
                f"{'equal' if self.got == self.expected else 'DIFFERS'}: {self.expected}"
                + ("" if self.got == self.expected else f" | {self.got}"))


def compare(expected: list[array.array], got: list[array.array], alphabet: list[str]) -> Comparison:
    if len(expected) != len(got):
        raise AssertionError(f"{len(got)} positions, expected {len(expected)}")
    whole = [sum(rows, array.array("f")) for rows in (expected, got)]
    return Comparison(text_of(expected, alphabet), text_of(got, alphabet), cosine(*whole),
                      min(map(cosine, expected, got)), max(abs(a - b) for a, b in zip(*whole)))

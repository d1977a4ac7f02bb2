"""Data set and scale of a measurement: only figures that agree in all of it stand in one table."""

from dataclasses import dataclass
from typing import Any

from hardpair.errors import printable
from hardpair.report.files import Record, mapping
from hardpair.report.paper.published import Shape
from hardpair.report.words import count, numeric, plain

SCALE_FIELDS = frozenset({"data", "epochs", "encoder", "width", "sk", "small_images", "image_size"})
"""Fields of a recipe that are part of the scale."""


@dataclass(frozen=True)
class Scale:
    """What was pretrained on what, for how long, and where it was tested."""

    data: str
    epochs: str
    shape: Shape
    small_images: bool
    image_size: str
    test: str  # empty where the columns of the table say it

    def in_words(self) -> str:
        """The whole of it as two sentences."""
        stem = ", stem for small images" * self.small_images
        tested = f"Tested on {self.test} at {self.image_size} px" if self.test else f"Tested at {self.image_size} px"
        epochs = f"{self.epochs} epoch{'s' * (self.epochs != '1')}"
        return f"{tested}. {shape_in_words(self.shape)}{stem}, trained on {self.data} for {epochs}."


def scale_of(recipe: Record, score: Record) -> Scale:
    """The scale of one score; transfer names its test set in the column."""
    return Scale(
        data=one_line(recipe.get("data", "an unnamed source")),
        epochs=one_line(recipe.get("epochs", "?")),
        shape=shape_of(recipe, score),
        small_images=recipe.get("small_images") is True,
        image_size=one_line(score.get("image_size", recipe.get("image_size", "?"))),
        test="" if score.get("protocol") == "transfer" else _test(score),
    )


def shape_of(recipe: Record, score: Record) -> Shape:
    """The encoder that was judged: that of the run, or the one that distillation made of it."""
    made = mapping(mapping(score.get("settings")).get("shape")) if score.get("protocol") == "distill" else {}
    return _shape(made, made.get("name")) if made else recipe_shape(recipe)


def recipe_shape(recipe: Record) -> Shape:
    """The encoder of the run."""
    return _shape(recipe, recipe.get("encoder"))


def _shape(fields: Record, name: Any) -> Shape:
    """The paper counts one of CMC's two streams; those of half a ResNet or less stand for it together.

    So CMC has its rows in Tables 1 and 2, where its streams are of width 1 and 2, and at small scale a row beside
    methods whose encoders are as wide as both its streams.
    """
    width, stream = _width(fields), stream_width(fields)
    counted = stream if stream is not None and width > 1 else width
    return one_line(name or "encoder"), counted, fields.get("sk") is True


def stream_width(fields: Record) -> float | None:
    """Of each of the two streams, where the encoder has two."""
    streams = fields.get("method") == "cmc" or fields.get("colour_streams") is True
    return _width(fields) / 2 if streams else None


def _width(fields: Record) -> float:
    width = numeric(fields.get("width"))
    return 1.0 if width is None else width


def shape_in_words(shape: Shape) -> str:
    """("resnet50", 2.0, False) → ResNet-50 2×."""
    name, width, kernels = shape
    depth = name.removeprefix("resnet")
    return f"{f'ResNet-{depth}' if depth.isdecimal() else name} {width:g}×{' with selective kernels' * kernels}"


def one_line(value: Any) -> str:
    """A value of a file as text that can neither break a line nor command a terminal."""
    return printable(plain(value))


def _test(score: Record) -> str:
    test = mapping(mapping(score.get("data")).get("test"))
    images = f" ({count(test['images'])} images)" if "images" in test else ""
    return one_line(test.get("name", "an unnamed set")) + images

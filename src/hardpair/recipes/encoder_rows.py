"""Recipes for the other encoders of the paper's tables: those of imagenet.py with a deeper or wider ResNet."""

from dataclasses import dataclass, replace

from hardpair.recipes import imagenet
from hardpair.recipes.recipe import Recipe


@dataclass(frozen=True)
class Row:
    """A method with an encoder, as a row of the paper's Tables 2 and 4."""

    method: str
    depth: int
    width: int
    sk: bool
    parameters: int  # of the encoder, millions
    expected: str  # published score
    streams: int = 1  # where an encoder is two streams of half its width, the tables count the width of one

    @property
    def name(self) -> str:
        """As in imagenet/byol-200-2x."""
        return f"imagenet/{self.method}-{self.depth}-{self.width}x{'-sk' * self.sk}"

    def recipe(self) -> Recipe:
        """The method's recipe with this encoder."""
        base: Recipe = getattr(imagenet, self.method)()
        return replace(
            base, name=self.name, encoder=f"resnet{self.depth}", width=float(self.width * self.streams), sk=self.sk
        )

    def describe(self) -> str:
        """What it is, its command, its cost and the score to expect."""
        kernels = " with selective kernels" * self.sk
        return (
            f"As imagenet/{self.method}, with ResNet-{self.depth} of width {self.width}{kernels}.\n\n"
            f"Command:  hardpair pretrain {self.name} --data FOLDER\n"
            f"Cost:     {self.parameters} M parameters; as many forwards per image as imagenet/{self.method}.\n"
            f"Expected: {self.expected}"
        )


ROWS = (
    Row("hnpm", 50, 2, False, 94, "79.4 linear top-1 in the paper; not reproduced."),
    Row("hnpm", 50, 4, False, 375, "80.3 linear top-1 in the paper; not reproduced."),
    Row("hnpm", 200, 2, False, 250, "81.9 linear top-1 in the paper; not reproduced."),
    Row("hnpm", 152, 3, True, 795, "81.3 top-1 with 10 % of the labels in the paper; not reproduced."),
    Row("cmc", 50, 2, False, 188, "70.6 linear top-1 (published, with stronger augmentation).", streams=2),
    Row("simclr", 50, 2, False, 94, "71.7 top-1 with 10 % of the labels (published)."),
    Row("simclr", 50, 4, False, 375, "76.5 linear top-1 (published)."),
    Row("simclrv2", 50, 2, False, 94, "75.6 linear top-1 (published)."),
    Row("simclrv2", 50, 2, True, 140, "77.7 linear top-1 (published)."),
    Row("simclrv2", 152, 3, True, 795, "79.8 linear top-1 (published)."),
    Row("byol", 50, 2, False, 94, "77.4 linear top-1 (published)."),
    Row("byol", 50, 4, False, 375, "78.6 linear top-1 (published)."),
    Row("byol", 200, 2, False, 250, "79.6 linear top-1 (published)."),
)

"""Tables 1 to 7 of the paper, every cell as it was printed, and what is known to be wrong in them."""

from dataclasses import dataclass

NOT_GIVEN = "not given"  # printed as N/A
_BEST = "*"  # around a figure that was printed in bold; † stands behind one that the paper copied wrongly

Shape = tuple[str, float, bool]
"""Name of the encoder, width, selective kernels."""


@dataclass(frozen=True)
class PaperRow:
    """A line of a published table."""

    name: str
    method: str  # what recipes call it
    printed: tuple[str, ...]
    about: tuple[str, ...] = ()  # depth, width, selective kernels, parameters

    @property
    def figures(self) -> tuple[str, ...]:
        """The cells as plain text."""
        return tuple(cell.replace(_BEST, "") for cell in self.printed)

    @property
    def best(self) -> tuple[bool, ...]:
        """Which of them the paper prints in bold."""
        return tuple(_BEST in cell for cell in self.printed)

    @property
    def distilled(self) -> bool:
        """Whether the figures are of an encoder that learned from a fine-tuned one."""
        return "distilled" in self.name

    @property
    def shape(self) -> Shape:
        """The encoder, for the tables that have several."""
        depth, width, *kernels = self.about
        return f"resnet{depth}", float(width.removesuffix("×")), kernels[:1] == ["✓"]


@dataclass(frozen=True)
class PublishedTable:
    """A published table."""

    number: int
    title: str
    columns: tuple[str, ...]
    rows: tuple[PaperRow, ...]
    about: tuple[str, ...] = ()  # headings of what stands between name and figures
    corner: str = "Method"
    notes: tuple[str, ...] = ()
    metrics: str = ""  # by which the measured figures are taken, where the paper does not say


_TOP = ("Top-1", "Top-5")
_SHARES = ("Top-1 (1 %)", "Top-5 (1 %)", "Top-1 (10 %)", "Top-5 (10 %)")
_SETS = ("Food101", "CIFAR-10", "SUN397", "Cars", "Pets", "VOC 2007", "Flowers")

_LINEAR = (
    PaperRow("CPCv2", "cpc", ("63.8", "85.3")),
    PaperRow("CMC", "cmc", ("66.2", "87.0")),
    PaperRow("SimCLR", "simclr", ("69.3", "89.0")),
    PaperRow("MoCov2", "moco", ("71.1", NOT_GIVEN)),
    PaperRow("SimCLRv2", "simclrv2", ("71.7", NOT_GIVEN)),
    PaperRow("InfoMin Aug.", "infomin", ("73.0", "91.1")),
    PaperRow("BYOL", "byol", ("74.3", "91.6")),
    PaperRow("Ours", "hnpm", ("*77.1*", "*93.7*")),
)
_LINEAR_OTHERS = (
    PaperRow("CMC", "cmc", ("70.6", "89.7"), ("50", "2×")),
    PaperRow("SimCLRv2", "simclrv2", ("75.6", NOT_GIVEN), ("50", "2×")),
    PaperRow("BYOL", "byol", ("77.4", "93.6"), ("50", "2×")),
    PaperRow("Ours", "hnpm", ("*79.4*", "*94.5*"), ("50", "2×")),
    PaperRow("SimCLR", "simclr", ("76.5", "93.2"), ("50", "4×")),
    PaperRow("BYOL", "byol", ("78.6", "94.2"), ("50", "4×")),
    PaperRow("Ours", "hnpm", ("*80.3*", "*95.1*"), ("50", "4×")),
    PaperRow("BYOL", "byol", ("79.6", "94.8"), ("200", "2×")),
    PaperRow("Ours", "hnpm", ("*81.9*", "*96.4*"), ("200", "2×")),
)
_SEMI = (
    PaperRow("SimCLR", "simclr", ("48.3", "75.5", "65.6", "87.8")),
    PaperRow("SimCLRv2", "simclrv2", ("*57.9*", NOT_GIVEN, "68.4", NOT_GIVEN)),
    PaperRow("BYOL", "byol", ("53.2", "78.4", "68.8", "89.0")),
    PaperRow("Ours", "hnpm", ("56.7", "*80.2* (1.8↑)", "*73.4* (4.6↑)", "*92.5* (3.5↑)")),
)
_SEMI_OTHERS = (
    PaperRow("SimCLR", "simclr", ("58.5", "83.0", "71.7", "91.2"), ("50", "2×", "✗", "94M")),
    PaperRow("BYOL", "byol", ("62.2", "84.1", "73.5", "91.7"), ("50", "2×", "✗", "94M")),
    PaperRow("Ours", "hnpm", ("*65.7*", "*86.2*", "*78.6* (5.1↑)", "*93.2* (1.5↑)"), ("50", "2×", "✗", "94M")),
    PaperRow("SimCLR", "simclr", ("63.0", "85.8", "74.4", "92.6"), ("50", "4×", "✗", "375M")),
    PaperRow("BYOL", "byol", ("69.1", "87.9", "75.7", "92.5"), ("50", "4×", "✗", "375M")),
    PaperRow("Ours", "hnpm", ("*70.3*", "*89.9*", "*78.9* (3.2↑)", "*95.5* (2.9↑)"), ("50", "4×", "✗", "375M")),
    PaperRow("BYOL", "byol", ("71.2", "87.9†", "77.7", "92.5†"), ("200", "2×", "✗", "250M")),
    PaperRow("Ours", "hnpm", ("*76.5*", "*90.3*", "*80.7* (3.0↑)", "*95.4* (2.9↑)"), ("200", "2×", "✗", "250M")),
    PaperRow("SimCLRv2 distilled", "simclrv2", ("73.9", "91.5", "77.5", "93.4"), ("50", "1×", "✗", NOT_GIVEN)),
    PaperRow("SimCLRv2 distilled", "simclrv2", ("75.9", "93.0", "80.2", "95.0"), ("50", "2×", "✓", NOT_GIVEN)),
    PaperRow("SimCLRv2 self-distilled", "simclrv2", ("76.6", "93.4", "80.9", "95.5"), ("152", "3×", "✓", NOT_GIVEN)),
    PaperRow("Ours", "hnpm", ("*77.6*", "*94.2*", "*81.3*", "*95.7*"), ("152", "3×", "✓", NOT_GIVEN)),
)
_TRANSFER_LINEAR = (
    PaperRow("BYOL", "byol", ("75.3", "91.3", "60.6†", "67.8", "90.4", "82.5", "96.1")),
    PaperRow("SimCLR", "simclr", ("68.4", "90.6", "58.8", "50.3", "83.6", "80.5", "91.2")),
    PaperRow("Supervised-IN", "supervised", ("72.3", "*93.6*", "61.9", "66.7", "91.5", "82.8", "94.7")),
    PaperRow("Ours", "hnpm", ("*77.6*", "92.4", "*65.4*", "*72.3*", "*94.2*", "*87.7*", "*97.0*")),
)
_TRANSFER_TUNED = (
    PaperRow("BYOL", "byol", ("88.5", "97.8", "63.7", "91.6", "91.7", "*85.4*", "97.0")),
    PaperRow("SimCLR", "simclr", ("88.2", "97.7", "63.5", "91.3", "89.2", "84.1", "97.0")),
    PaperRow("Supervised-IN", "supervised", ("88.3", "97.5", "*64.3*", "*92.1*", "92.1", "85.0", "*97.6*")),
    PaperRow("Ours", "hnpm", ("*89.1*", "*98.0*", "64.1", "*92.1*", "*92.8*", "85.3", "97.5")),
)
_TAU = (PaperRow("Top-1 (%)", "hnpm", ("24", "73.4", "*77.1*", "49.1")),)

_MISCOPIED_SEMI = (
    "† Copied wrongly: BYOL's own paper gives 89.5 (1 %) and 93.7 (10 %) for ResNet-200 2×; these are the figures of "
    "its ResNet-50 4×. The gain of 2.9 in the row beneath is then 1.7."
)
_MISCOPIED_TRANSFER = "† Copied wrongly: BYOL's own paper gives 62.2 for SUN397."
_METRICS = "Pets and Flowers: mean per class; VOC 2007: 11-point mAP; all others: top-1, as BYOL does."

TABLES = (
    PublishedTable(1, "Linear evaluation, ResNet-50", _TOP, _LINEAR),
    PublishedTable(2, "Linear evaluation, other encoders", _TOP, _LINEAR_OTHERS, ("Dep.", "Wid.")),
    PublishedTable(3, "Few labels, ResNet-50", _SHARES, _SEMI),
    PublishedTable(
        4,
        "Few labels, other encoders",
        _SHARES,
        _SEMI_OTHERS,
        ("Dep.", "Wid.", "SK", "Para."),
        notes=(_MISCOPIED_SEMI, "The paper leaves the 1 % out of its headings. SK: selective kernels."),
    ),
    PublishedTable(
        5, "Transfer, linear, ResNet-50", _SETS, _TRANSFER_LINEAR, notes=(_MISCOPIED_TRANSFER,), metrics=_METRICS
    ),
    PublishedTable(6, "Transfer, fine-tuned, ResNet-50", _SETS, _TRANSFER_TUNED, metrics=_METRICS),
    PublishedTable(
        7, "The smoothing coefficient τ, linear top-1, ResNet-50", ("1.0", "0.999", "0.5", "0.0"), _TAU, corner="τ"
    ),
)

"""The contract of a method, and how a class in a user's own file becomes one."""

import abc
import importlib.util
import inspect
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_origin

from torch import Tensor, nn

from hardpair.errors import UserError
from hardpair.models import Encoder
from hardpair.views import Draw


@dataclass(frozen=True)
class Pairs:
    """Negative pairs of a batch: image ``anchor[k]`` is pushed away from image ``negative[k]``."""

    anchor: Tensor  # int64 (K,), positions in the batch
    negative: Tensor  # int64 (K,)
    distance: Tensor  # float (K,)


class Method(nn.Module, abc.ABC):
    """A self-supervised method: everything the trainer knows of it.

    Every method has four members: ``encoder``, ``views``, ``forward`` and ``after_step``. It is built as
    ``MyMethod(encoder, **settings)``; settings are keyword-only, each with a default and the type bool, int, float, str
    or Literal, so that they can be given on the command line. It knows no optimiser, no device and no labels. Methods
    do not inherit from each other.

    The members below `after_step` are optional hooks. Each has a default that suits most methods.
    """

    encoder: Encoder  # set in __init__; saved in the run, and all that evaluators are handed

    @abc.abstractmethod
    def views(self, images: Tensor, draw: Draw) -> list[Tensor]:
        """Uint8 images (N, 3, H, W) → what `forward` takes. All random numbers come from ``draw``."""

    @abc.abstractmethod
    def forward(self, views: list[Tensor]) -> dict[str, Tensor]:
        """``loss`` (a scalar), ``features`` (N, num_features) of the trained encoder, and any scalars worth logging.

        It must not change queues, banks or averages: a step whose loss is not finite is left out.
        """

    def after_step(self, progress: float) -> None:
        """Move averages, fill memories; called after each optimiser step. ``progress`` in (0, 1]: training done.

        Does nothing by default, for methods that remember nothing.
        """

    # Optional hooks

    def prepare(self, pixels: Tensor) -> None:
        """See the training images, uint8 (N, 3, H, W), once, before the first step.

        Why: to size a memory bank, or to refuse images or settings that cannot work. Default: do nothing. Called when
        the method has been built. The images may be mapped from disk and larger than memory: look at a few of them.
        """

    def constant_rate(self) -> Iterable[nn.Parameter]:
        """Parameters whose learning rate stays at its peak.

        Why: SimSiam's predictor learns at a constant rate. Default: none, the schedule applies to all. Called when the
        optimiser is built.
        """
        return ()

    whole_batch_norm: bool = True
    """Whether batch norm sees the batch of all processes (True) or that of its own process, as with one device.

    Why: MoCo's shuffled batch norm needs small, separate batches. Read by the trainer if there are several processes.
    """

    def head_layer(self) -> nn.Sequential | None:
        """The part of the head that fine-tuning with few labels keeps, saved beside the encoder.

        Why: SimCLRv2 fine-tunes from the first layer of its head. Default: None, fine-tuning begins at the encoder.
        Called whenever the encoder is saved.
        """
        return None

    def hard_pairs(self, views: list[Tensor]) -> Pairs | None:  # noqa: ARG002
        """The negative pairs that this method mines in a batch.

        Why: the report shows them as images. Default: None, nothing is mined. Called for some batches when the pairs
        are drawn for the report. If processes share a batch, each passes the views of its own rows and gets all pairs.
        """
        return None


FILE_MARK = ".py:"  # in ``path/to/my_method.py:MyMethod``


def load_method(place: str) -> type[Method]:
    """The class that ``FILE.py:CLASS`` names; refused in one line if it does not follow the contract.

    The file is Python and is run, as a user's own script would be. So it is loaded only where a command or a call names
    it, never because a file of a run does.
    """
    file, _, name = place.rpartition(":")
    path = Path(file).expanduser()
    if not path.is_file():
        raise UserError(f"method: {path}: no such file; give path/to/my_method.py:MyMethod")
    spec = importlib.util.spec_from_file_location(f"hardpair_method_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # for its author to fix
        raise UserError(f"method: {path}: cannot be imported ({type(error).__name__}: {error})") from error
    found = vars(module).get(name)
    if not (isinstance(found, type) and issubclass(found, Method)):
        raise UserError(f"method: {path} has no class {name!r} that inherits from hardpair.methods.Method")
    _require_contract(found, path)
    return found


def _require_contract(method: type[Method], path: Path) -> None:
    if missing := sorted(method.__abstractmethods__):
        raise UserError(f"method: {method.__name__} in {path} does not define {', '.join(missing)}")
    for setting in inspect.signature(method.__init__, eval_str=True).parameters.values():
        if setting.kind is not setting.KEYWORD_ONLY:
            continue
        plain = setting.annotation in (bool, int, float, str) or get_origin(setting.annotation) is Literal
        if not plain or setting.default is setting.empty:
            raise UserError(
                f"method: {method.__name__}: the setting {setting.name} needs a default, and one of the types bool, "
                "int, float, str and Literal"
            )

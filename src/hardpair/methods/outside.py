"""Methods from outside the package: ``path/to/my_method.py:MyMethod``.

The file is Python and is run, as a user's own script would be. So it is loaded only where a command or a call names it,
never because a file of a run does.
"""

import importlib.util
import inspect
from pathlib import Path
from typing import Literal, get_origin

from hardpair.errors import UserError
from hardpair.methods.method import Method

MARK = ".py:"


def load_method(place: str) -> type[Method]:
    """The class that ``FILE.py:CLASS`` names, or a line that says why it is no method."""
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

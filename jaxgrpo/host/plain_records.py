"""Records of the host as plain JSON data, bit for bit, and back.

What a regrouper keeps has to outlive the process: checkpoints hold JSON. A record
becomes a dict with its class under `$`, an array its compressed bytes in Base64;
numbers that are not finite, tuples and dicts are marked likewise.
"""

import base64
import dataclasses
import math
import zlib
from typing import Any

import numpy as np

from jaxgrpo.host import records

_MARK = "$"
_LEVEL = 1
"""Of zlib: higher ones take several times as long and save a tenth."""


def to_plain(value: Any) -> Any:
    """Returns JSON data that `from_plain` turns into an equal value.

    Args:
      value: A record of `jaxgrpo.host.records`, an array, or plain Python data.

    Raises:
      TypeError: If the value holds anything else.
    """
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {_MARK: "float", "text": repr(value)}
    if isinstance(value, np.ndarray):
        shape, data = list(value.shape), _packed(value)
        return {_MARK: "array", "dtype": value.dtype.str, "shape": shape, "zlib": data}
    if isinstance(value, list):
        return [to_plain(item) for item in value]
    if isinstance(value, tuple):
        return {_MARK: "tuple", "items": [to_plain(item) for item in value]}
    if isinstance(value, dict):
        items = [[to_plain(key), to_plain(item)] for key, item in value.items()]
        return {_MARK: "dict", "items": items}
    if dataclasses.is_dataclass(value) and _record_class(type(value).__name__):
        fields = {
            field.name: to_plain(getattr(value, field.name))
            for field in dataclasses.fields(value)
        }
        return {_MARK: type(value).__name__, "fields": fields}
    raise TypeError(
        f"a {type(value).__name__} cannot be kept in a checkpoint: {value!r:.80}. Keep "
        "records, arrays and plain data."
    )


def from_plain(data: Any) -> Any:
    """Returns what `to_plain` was given.

    Args:
      data: From `to_plain`, read back from JSON.

    Raises:
      ValueError: If the data names a record that there is not.

    Example:
      >>> from_plain(to_plain((1, {"a": [0.5]})))
      (1, {'a': [0.5]})
    """
    if isinstance(data, list):
        return [from_plain(item) for item in data]
    if not isinstance(data, dict):
        return data
    kind = data[_MARK]
    if kind == "float":
        return float(data["text"])
    if kind == "array":
        return _unpacked(data["zlib"], np.dtype(data["dtype"]), data["shape"])
    if kind == "tuple":
        return tuple(from_plain(item) for item in data["items"])
    if kind == "dict":
        return {from_plain(key): from_plain(item) for key, item in data["items"]}
    record = _record_class(kind)
    if record is None:
        raise ValueError(
            f"the checkpoint holds a record {kind!r}, which this version does not "
            "know. Continue with the version that wrote it."
        )
    return record(**{name: from_plain(item) for name, item in data["fields"].items()})


def _packed(array: np.ndarray) -> str:
    """The array's bytes: all first bytes of its numbers, then all second ones, ...

    Ids of tokens hardly differ in their high bytes, which compress well side by side.
    """
    flat = np.frombuffer(np.ascontiguousarray(array).tobytes(), np.uint8)
    planes = flat.reshape(-1, array.dtype.itemsize).T
    return base64.b64encode(zlib.compress(planes.tobytes(), _LEVEL)).decode("ascii")


def _unpacked(text: str, dtype: np.dtype, shape: list[int]) -> np.ndarray:
    """The array that `_packed` was given."""
    content = np.frombuffer(zlib.decompress(base64.b64decode(text)), np.uint8)
    numbers = np.ascontiguousarray(content.reshape(dtype.itemsize, -1).T)
    return np.frombuffer(numbers.tobytes(), dtype).reshape(shape).copy()


def _record_class(name: str) -> Any:
    found = getattr(records, name, None)
    return found if dataclasses.is_dataclass(found) else None

"""Values as integers that compare as the values do, so that one kernel serves every type.

Numbers, times and short decimals have codes of their own. Text, binary and long decimals get their place
among the constants of an index::

    constants:      b       d              codes of constants are odd,
    codes:      0   1   2   3   4          of what lies between them even
    values:     a   b   c   d   e
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.operators.rows.arrays import Int64s
from anabranch.operators.rows.column_codes import has_codes, to_codes
from anabranch.plan.predicate import Constant

LEAST, MOST = -(2**63), 2**63 - 1


@dataclass(frozen=True, slots=True)
class Coding:
    """How values of one attribute become integers.

    Parameters
    ----------
    constants
        Of a type without codes: the constants of the index, ascending, each once.
    """

    kind: pa.DataType
    constants: pa.Array | None = None
    places: dict[Constant, int] = field(default_factory=dict)

    @classmethod
    def of(cls, kind: pa.DataType, constants: Sequence[Constant]) -> Coding:
        """Coding for an index with these constants."""
        if has_codes(kind):
            codes = to_codes(pa.array(constants, kind)) if constants else ()
            return cls(kind, None, {_key(c): int(v) for c, v in zip(constants, codes, strict=True)})
        stored = _stored(kind)
        values = pa.array([_as_bytes(c) for c in constants], stored).unique()
        ascending = values.take(pc.sort_indices(values))
        places = {value: 2 * i + 1 for i, value in enumerate(ascending.to_pylist())}
        return cls(kind, ascending, places)

    def code(self, constant: Constant) -> int:
        """The integer of a constant of the index."""
        return self.places[_key(constant) if self.constants is None else _as_bytes(constant)]

    def codes(self, column: pa.Array) -> Int64s:
        """The integers of a column; behind NULL is any."""
        if self.constants is not None:
            return _places_in(self.constants, column)
        return to_codes(column)


def _stored(kind: pa.DataType) -> pa.DataType:
    return kind if pa.types.is_decimal(kind) else pa.large_binary()


def _as_bytes(constant: Constant) -> Constant:
    return constant.encode() if isinstance(constant, str) else constant


def _key(constant: Constant) -> Constant:
    """A constant as a key of a dictionary: NaN is not equal to itself."""
    return "NaN" if isinstance(constant, float) and constant != constant else constant


def _places_in(constants: pa.Array, column: pa.Array) -> Int64s:
    """Places of values among ascending constants: sorting constants and values together shows them."""
    if isinstance(column, pa.DictionaryArray):
        column = column.dictionary_decode()
    encoded = column.cast(constants.type).dictionary_encode()
    values, count = encoded.dictionary, len(constants)
    both = pa.concat_arrays([constants, values])
    order = pc.sort_indices(both).to_numpy()  # stable: a constant comes before the value that equals it
    below = np.empty(len(both), dtype=np.int64)
    below[order] = np.cumsum(order < count)
    below = below[count:]  # constants that are no larger than each value
    codes = 2 * below
    if count and len(values):
        nearest = constants.take(pa.array(np.maximum(below - 1, 0)))
        same = pc.equal(nearest, values).to_numpy(zero_copy_only=False) & (below > 0)
        codes -= same
    indices = encoded.indices.fill_null(0).to_numpy(zero_copy_only=False)
    found: Int64s = codes[indices] if len(values) else np.zeros(len(column), dtype=np.int64)
    return found

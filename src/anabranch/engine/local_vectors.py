"""Vectors taken apart where rows are read, without a JVM: as `spark.reading.prepared` does it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.operators.rows.arrow_types import arrow_type
from anabranch.plan.logical import Stream
from anabranch.plan.vectors import vectors_in


def taken_apart(rows: pa.Table, stream: Stream) -> tuple[pa.Table, Any]:
    """Rows with a column for each number of their vectors, and why they are malformed, or "" if they are not.

    A NULL instead of an array is NULL in all numbers, and no fault.
    """
    reasons = np.full(rows.num_rows, "", dtype=object)
    for vector in vectors_in(stream.columns).values():
        if vector.name not in rows.column_names:
            continue
        arrays = rows.column(vector.name).combine_chunks()
        lengths = pc.fill_null(pc.list_value_length(arrays), vector.length).to_numpy(zero_copy_only=False)
        numbers = arrays.flatten()
        within = np.zeros(len(arrays), dtype=bool)
        within[
            pc.list_parent_indices(arrays).to_numpy()[numbers.is_null().to_numpy(zero_copy_only=False)]
        ] = True
        wrong = (lengths != vector.length) | within
        reasons[wrong & (reasons == "")] = vector.malformed
        known = ~wrong & arrays.is_valid().to_numpy(zero_copy_only=False)
        values = np.zeros((len(arrays), vector.length))
        whole = arrays.filter(pa.array(known)).flatten().cast(arrow_type(vector.type))
        values[known] = whole.to_numpy(zero_copy_only=False).reshape(-1, vector.length)
        for number, part in enumerate(vector.elements):
            column = pa.array(values[:, number], mask=~known).cast(arrow_type(vector.type))
            rows = rows.append_column(part.name, column)
    return rows, reasons

"""Types of NumPy arrays."""

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]
Rows32 = npt.NDArray[np.int32]
"""Numbers of rows."""


def read_only(values: Int64s) -> Int64s:
    """The same values, as an array that cannot be written to.

    A kernel is compiled once for arrays that can be written to, and again for those that cannot. Mapped
    files give the latter, so kernels get all that they only read in this form.

    >>> read_only(np.arange(3)).flags.writeable
    False
    """
    if not values.flags.writeable:
        return values
    view = values.view()
    view.flags.writeable = False
    return view

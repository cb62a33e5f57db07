"""Types of NumPy arrays."""

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]
Rows32 = npt.NDArray[np.int32]
"""Numbers of rows."""

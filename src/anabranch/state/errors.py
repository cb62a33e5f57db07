"""What can be wrong with a checkpoint."""

from anabranch.errors import StateError


class CorruptionError(StateError):
    """A file is missing, or is not what was written."""

    def __init__(self, file: str, *, expected: str, found: str, advice: str) -> None:
        super().__init__(f"{file}: expected {expected}, found {found}. {advice}")
        self.file = file
        self.expected = expected
        self.found = found
        self.advice = advice

    def __reduce__(self) -> tuple[object, ...]:
        # Raised in Python workers and re-raised elsewhere: keyword-only arguments need help to pickle.
        return _corruption, (self.file, self.expected, self.found, self.advice)


class UnsupportedVersionError(StateError):
    """The checkpoint was written by a version of Anabranch with another format."""


class ManifestConflict(StateError):
    """Another attempt committed first, or the manifest does not continue the newest one."""


class CheckpointInUseError(StateError):
    """Another live session holds the checkpoint."""


class FencedError(StateError):
    """A later session has taken over the checkpoint: this one must stop."""


class InvalidNameError(StateError):
    """A name that could leave the checkpoint directory."""


def _corruption(file: str, expected: str, found: str, advice: str) -> CorruptionError:
    return CorruptionError(file, expected=expected, found=found, advice=advice)

"""Object identity: how what is compared by it is copied and pickled, or refuses to be."""

from __future__ import annotations

from typing import Any, ClassVar, Self, SupportsIndex

from symgrad.errors import DTypeError, user_source


class Immutable:
    """Copying and pickling of what never changes and is compared by identity: a copy is itself.

    A twin would be a tensor that is no output of its node, and a walk from it would not end.
    `pickled_instead` says what takes the place of a pickled one.
    """

    __slots__ = ()
    pickled_instead: ClassVar[str] = (
        "pickle sg.Graph(outputs), which takes the values of its variables along"
    )

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __reduce_ex__(self, protocol: SupportsIndex) -> Any:
        raise DTypeError(
            "pickle",
            f"a {type(self).__name__} is compared by identity, and a pickled one would be another",
            hint=self.pickled_instead,
            source=user_source(),
        )


class OwnsVariables:
    """Refusal to be copied and pickled, of what makes variables of its own and moves them.

    Variables are their own copies, so that a copy would move those of the first one.
    """

    __slots__ = ()

    def __reduce_ex__(self, protocol: SupportsIndex) -> Any:
        raise DTypeError(
            "copy",
            f"{type(self).__name__} has variables, which a copied or pickled one would share",
            hint="make another one, and carry the values over with sg.save and sg.restore",
            source=user_source(),
        )

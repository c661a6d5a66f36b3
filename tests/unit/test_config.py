"""Settings: read from the environment, overridden for a while, few."""

from __future__ import annotations

from dataclasses import fields

import pytest

from symgrad.config import Settings, override, read_settings, settings
from symgrad.errors import CompileError


def test_there_are_at_most_eight_each_with_a_default_and_a_sentence():
    assert len(fields(Settings)) <= 8
    assert Settings() == read_settings({})
    assert all(f"`{field.name}`:" in str(Settings.__doc__) for field in fields(Settings))


@pytest.mark.parametrize(
    ("text", "value"), [("1", True), ("on", True), ("TRUE", True), ("0", False), ("", False)]
)
def test_a_setting_is_read_from_its_variable(text, value):
    assert read_settings({"SYMGRAD_VERIFY": text}).verify is value


def test_a_value_that_is_none_is_refused():
    with pytest.raises(CompileError, match="SYMGRAD_VERIFY: 'perhaps' is none of 0, 1"):
        read_settings({"SYMGRAD_VERIFY": "perhaps"})


def test_tests_verify_after_every_pass():
    assert settings().verify


def test_a_setting_is_overridden_inside_a_block_only():
    with override(verify=False) as changed:
        assert settings() is changed
        assert not settings().verify
        with override(verify=True):
            assert settings().verify
        assert not settings().verify
    assert settings().verify

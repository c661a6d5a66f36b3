"""The store of entries in files: whole or nothing, one user's own, up to a limit."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.native import object_store
from symgrad.codegen.native.object_store import EntryKey, ObjectStore, cache_folder
from symgrad.commands.caching import cache_text
from symgrad.config import override

KEY = EntryKey("object", "a machine", "00ff")
OTHER = EntryKey("object", "another machine", "00ff")


@pytest.fixture
def store(tmp_path):
    return ObjectStore(tmp_path / "objects", 1 << 20)


def file_of(store: ObjectStore, key: EntryKey = KEY) -> Path:
    return store.folder / key.file_name


def test_what_was_written_is_read_by_any_process(store):
    assert store.read(KEY) is None
    store.write(KEY, b"code\n\0")
    assert store.read(KEY) == b"code\n\0"
    assert ObjectStore(store.folder, 1).read(KEY) == b"code\n\0"
    store.write(KEY, b"")
    assert store.read(KEY) == b""


def test_keys_that_differ_in_anything_are_of_different_files(store):
    keys = [
        KEY,
        OTHER,
        EntryKey("kernel", "a machine", "00ff"),
        EntryKey("object", "a machine", ""),
    ]
    assert len({key.file_name for key in keys}) == len(keys)


def test_folder_and_files_are_the_owners_only(store):
    store.write(KEY, b"code")
    assert store.folder.stat().st_mode & 0o777 == 0o700
    assert file_of(store).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("mode", [0o644, 0o620, 0o602])
def test_a_file_that_others_may_read_or_write_is_none(store, mode):
    store.write(KEY, b"code")
    file_of(store).chmod(mode)
    assert store.read(KEY) is None
    store.write(KEY, b"code")
    assert store.read(KEY) == b"code"
    assert file_of(store).stat().st_mode & 0o777 == 0o600


def test_a_file_or_folder_of_another_user_is_not_used(store, monkeypatch):
    store.write(KEY, b"code")
    me = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: me + 1)
    assert store.read(KEY) is None
    store.write(OTHER, b"code")
    monkeypatch.undo()
    assert store.read(OTHER) is None


def test_a_folder_that_others_may_write_in_is_not_written_to(store):
    store.folder.mkdir(mode=0o700)
    store.folder.chmod(0o770)
    assert not store.write(KEY, b"code")
    assert not list(store.folder.iterdir())


def test_a_link_is_not_followed(store, tmp_path):
    store.write(KEY, b"code")
    file_of(store).rename(tmp_path / "elsewhere")
    file_of(store).symlink_to(tmp_path / "elsewhere")
    assert store.read(KEY) is None


def test_an_entry_under_the_name_of_another_is_none(store):
    """As one of another CPU, version or kind would be, if digests of names ever met."""
    store.write(OTHER, b"code of another machine")
    file_of(store, OTHER).rename(file_of(store))
    assert store.read(KEY) is None


def test_every_damage_is_found(store):
    """Two hundred of them: bytes that changed, ends that are missing, bytes that were added."""
    random = np.random.default_rng(0)
    store.write(KEY, bytes(random.bytes(500)))
    whole = file_of(store).read_bytes()
    for number in range(200):
        damaged = bytearray(whole)
        place = int(random.integers(len(whole)))
        if number % 3 == 0:
            damaged[place] ^= 1 << int(random.integers(8))
        elif number % 3 == 1:
            del damaged[place:]
        else:
            damaged[place:place] = b"\0"
        file_of(store).write_bytes(damaged)
        assert store.read(KEY) is None, f"damage {number} at {place}"
    store.write(KEY, b"code")
    assert store.read(KEY) == b"code"


def test_what_a_killed_writer_left_is_no_entry_and_goes_in_time(tmp_path):
    store = ObjectStore(tmp_path / "objects", 40 * 4096)
    store.write(KEY, b"code")
    left = [store.folder / f"{object_store._UNFINISHED}{name}" for name in ("old", "new")]
    for path in left:
        path.write_bytes(file_of(store).read_bytes()[:-1])
    os.utime(left[0], (0, 0))
    for number in range(60):
        store.write(EntryKey("object", "a machine", f"{number}"), bytes(3000))
    assert not left[0].exists()
    assert left[1].exists()  # somebody may be writing it


def test_a_writer_that_is_killed_leaves_no_half_of_an_entry(tmp_path):
    code = f"""
import os, sys
from pathlib import Path
from symgrad.codegen.native.object_store import EntryKey, ObjectStore
store = ObjectStore(Path({str(tmp_path / "objects")!r}), 1 << 30)
key = EntryKey("object", "a machine", "00ff")
store.write(key, bytes(1 << 20))
print("begun", flush=True)
while True:
    store.write(key, os.urandom(1 << 20))
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        writer.stdout.readline()
        time.sleep(0.05)
        writer.kill()
    found = ObjectStore(tmp_path / "objects", 1 << 30).read(KEY)
    assert found is not None
    assert len(found) == 1 << 20


def test_entries_that_are_written_at_once_are_one_file_with_a_name_for_each(store):
    payloads = {f"{number:x}": f"payload {number}\n\0".encode() for number in range(50)}
    store.write(EntryKey("kernel", "a machine", "7"), b"what was there")
    store.write_each("kernel", "a machine", payloads)
    wanted = ["none", *payloads, "7"]
    assert store.read_each("kernel", "a machine", wanted) == payloads
    assert store.read(EntryKey("kernel", "a machine", "31")) == payloads["31"]
    assert store.read_each("kernel", "another machine", payloads) == {}
    assert dict(store.contents()) == {
        EntryKey("kernel", "a machine", digest): payload for digest, payload in payloads.items()
    }
    assert len({path.stat().st_ino for path in store.folder.glob("*.kernel")}) == 1
    assert not list(store.folder.glob(f"{object_store._UNFINISHED}*"))


def test_what_was_written_at_once_is_read_once(store, monkeypatch):
    payloads = {f"{number}": b"payload" for number in range(50)}
    store.write_each("kernel", "a machine", payloads)
    read: list[str] = []
    contents = ObjectStore._contents

    def noted(self: ObjectStore, path: str) -> bytes | None:
        read.append(path)
        return contents(self, path)

    monkeypatch.setattr(ObjectStore, "_contents", noted)
    assert store.read_each("kernel", "a machine", payloads) == payloads
    assert len(read) == 1


def test_what_is_listed_leaves_out_entries_whose_head_is_damaged(store):
    other = EntryKey("kernel", "a machine", "abc")
    store.write(KEY, b"code")
    store.write(other, b"other code")
    whole = file_of(store).read_bytes()
    for place in range(whole.index(b"\ncode")):
        damaged = bytearray(whole)
        damaged[place] ^= 0x80  # no text is UTF-8 then
        file_of(store).write_bytes(damaged)
        assert dict(store.contents()) == {other: b"other code"}, f"damage at {place}"


def test_every_damage_of_entries_in_one_file_is_found(store):
    random = np.random.default_rng(1)
    payloads = {f"{number:x}": bytes(random.bytes(20)) for number in range(10)}
    store.write_each("kernel", "a machine", payloads)
    path = file_of(store, EntryKey("kernel", "a machine", "3"))
    whole = path.read_bytes()
    for _ in range(200):
        damaged = bytearray(whole)
        place = int(random.integers(len(whole)))
        damaged[place] ^= 1 << int(random.integers(8))
        path.write_bytes(damaged)
        assert store.read_each("kernel", "a machine", payloads) == {}, f"damage at {place}"
    store.write_each("kernel", "a machine", payloads)
    assert store.read_each("kernel", "a machine", payloads) == payloads


def test_a_name_that_is_gone_leaves_the_other_names_of_its_file(store):
    payloads = {f"{number}": b"payload" for number in range(10)}
    store.write_each("kernel", "a machine", payloads)
    gone, others = EntryKey("kernel", "a machine", "3"), dict(payloads)
    file_of(store, gone).unlink()
    del others["3"]
    assert store.read(gone) is None
    for digest in others:
        assert store.read(EntryKey("kernel", "a machine", digest)) == b"payload"


def test_entries_count_once_however_many_names_their_file_has(tmp_path):
    store = ObjectStore(tmp_path / "objects", 40 * 4096)
    payloads = {f"{number}": bytes(30) for number in range(100)}
    store.write_each("kernel", "a machine", payloads)
    store.write(KEY, bytes(3000))
    assert store.read_each("kernel", "a machine", payloads) == payloads
    files, size = store.clear()
    assert files == 101
    assert 3000 < size < 100 * 300


@pytest.mark.parametrize("error", [PermissionError, OSError])
def test_without_hard_links_each_entry_has_a_file(store, monkeypatch, error):
    def refuse(*_arguments: object) -> None:
        raise error("no such links here")

    payloads = {f"{number}": b"payload" for number in range(10)}
    monkeypatch.setattr(os, "link", refuse)
    store.write_each("kernel", "a machine", payloads)
    assert store.read_each("kernel", "a machine", payloads) == payloads
    assert len({path.stat().st_ino for path in store.folder.glob("*.kernel")}) == 10
    assert not list(store.folder.glob(f"{object_store._UNFINISHED}*"))


def test_a_writer_of_many_that_is_killed_leaves_whole_ones(tmp_path):
    code = f"""
from pathlib import Path
from symgrad.codegen.native.object_store import ObjectStore
store = ObjectStore(Path({str(tmp_path / "objects")!r}), 1 << 30)
payloads = {{f"{{number}}": b"payload" * 100 for number in range(200)}}
store.write_each("kernel", "a machine", payloads)
print("begun", flush=True)
while True:
    store.write_each("kernel", "a machine", payloads)
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        writer.stdout.readline()
        time.sleep(0.05)
        writer.kill()
    store = ObjectStore(tmp_path / "objects", 1 << 30)
    for number in range(200):
        found = store.read(EntryKey("kernel", "a machine", f"{number}"))
        assert found == b"payload" * 100


def test_what_was_not_used_for_longest_goes(tmp_path):
    store = ObjectStore(tmp_path / "objects", 30 * 4096)
    keys = [EntryKey("object", "a machine", f"{number}") for number in range(40)]
    for age, key in enumerate(keys[:20]):
        store.write(key, bytes(3000))
        os.utime(file_of(store, key), (1_000_000 + age,) * 2)
    assert store.read(keys[0]) is not None  # which counts as a use
    for key in keys[20:]:
        store.write(key, bytes(3000))
    assert store.read(keys[0]) is not None
    assert store.read(keys[1]) is None
    assert store.read(keys[-1]) is not None
    assert len(list(store.entries())) <= 30


def test_a_full_folder_is_looked_through_once_a_day(tmp_path, monkeypatch):
    store = ObjectStore(tmp_path / "objects", 1 << 20)
    looked: list[int] = []
    entries = ObjectStore.entries

    def noted(self: ObjectStore) -> object:
        looked.append(1)
        return entries(self)

    monkeypatch.setattr(ObjectStore, "entries", noted)
    for _ in range(3):
        again = ObjectStore(store.folder, store.limit)
        again.write(KEY, b"code")
        again.write(OTHER, b"code")
    assert len(looked) == 1
    mark = store.folder / object_store._LOOKED_THROUGH
    os.utime(mark, (0, 0))
    again.write(KEY, b"code")
    assert len(looked) == 1  # a process remembers when the day is over
    again = ObjectStore(store.folder, store.limit)
    again.write(KEY, b"code")
    assert len(looked) == 2
    again.write(KEY, bytes(20_000))  # much, of the limit
    assert len(looked) == 3
    assert mark not in [path for path, _ in entries(store)]


def test_an_entry_as_large_as_most_of_the_limit_is_not_kept(tmp_path):
    store = ObjectStore(tmp_path / "objects", 10_000)
    store.write(KEY, bytes(9_000))
    assert store.read(KEY) is None
    ObjectStore(tmp_path / "none", 0).write(KEY, b"")
    assert not (tmp_path / "none").exists()


def test_a_folder_that_cannot_be_made_has_nothing_in_it(tmp_path):
    (tmp_path / "file").write_text("")
    store = ObjectStore(tmp_path / "file" / "objects", 1 << 20)
    store.write(KEY, b"code")
    assert store.read(KEY) is None
    assert list(store.entries()) == []
    assert store.clear() == (0, 0)


@pytest.mark.parametrize("error", [PermissionError(13, "no"), OSError(36, "File name too long")])
def test_a_program_is_compiled_where_the_folder_may_not_be_looked_for(tmp_path, monkeypatch, error):
    """As where HOME is that of another user, which is how containers are often started."""
    usual, kept_out = (
        {f: getattr(os, f) for f in ("stat", "lstat", "open", "mkdir")},
        tmp_path / "c",
    )

    def guarded(name: str) -> object:
        def call(path: object, *args: object, **options: object) -> object:
            if isinstance(path, str | Path) and str(path).startswith(str(kept_out)):
                raise error
            return usual[name](path, *args, **options)

        return call

    for name in usual:
        monkeypatch.setattr(os, name, guarded(name))
    x = sg.placeholder((3, 4))
    with override(cache=True, cache_dir=str(kept_out)):
        step = sg.compile([x], x @ np.ones((4, 5), "float32"))
        np.testing.assert_array_equal(step(np.ones((3, 4), "float32")), np.full((3, 5), 4.0))
        assert "0.0 MB" in cache_text("show")
        assert cache_text("clear").startswith("removed 0 files")


def test_a_disk_that_is_full_or_read_only_keeps_nothing(store, monkeypatch):
    assert store.write(OTHER, b"code")

    def refuse(*_arguments: object, **_options: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", refuse)
    assert not store.write(KEY, b"code")
    monkeypatch.setattr(object_store, "_new_file", refuse)
    assert not store.write(KEY, b"code")
    assert [path for path, _ in store.entries()] == [file_of(store, OTHER)]


def test_clearing_removes_all_and_says_how_much(store):
    store.write(KEY, b"code")
    store.write(OTHER, b"code")
    files, size = store.clear()
    assert files == 2
    assert size > 8
    assert list(store.entries()) == []
    assert store.read(KEY) is None


def test_the_folder_is_where_the_platform_keeps_caches(monkeypatch):
    monkeypatch.setattr(Path, "home", lambda: Path("/home/me"))
    linux = Path("/home/me/.cache/symgrad/objects")
    assert cache_folder({}, "", "linux") == linux
    assert cache_folder({"XDG_CACHE_HOME": "relative"}, "", "linux") == linux
    assert cache_folder({"XDG_CACHE_HOME": "/x"}, "", "linux") == Path("/x/symgrad/objects")
    assert cache_folder({}, "", "darwin") == Path("/home/me/Library/Caches/symgrad/objects")
    local = cache_folder({"LOCALAPPDATA": "/local"}, "", "win32")
    assert local == Path("/local/symgrad/objects")
    assert cache_folder({}, "/scratch", "linux") == Path("/scratch/objects")


def test_a_user_without_a_home_has_no_folder(monkeypatch):
    def refuse() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", refuse)
    assert cache_folder({}, "", "linux") is None
    assert cache_folder({"XDG_CACHE_HOME": "/x"}, "", "linux") == Path("/x/symgrad/objects")

"""Puts the opencode plugin into a configuration directory of opencode, and says which version is there.

Blocking: small file operations, for the command line. Crash: the modules go into a folder named by their content;
the one file that opencode loads is replaced last and atomically, so at any moment a complete old or a complete new
version is installed. Idempotent. Never automatic (P119).

opencode 1.18 loads {plugin,plugins}/*.{js,ts} of its configuration directory, top level only: a folder beside the entry
file is not taken for a plugin.

InstallError
  BundleMissing     the plugin's files are not where the package puts them
  ForeignFile       a file of our name that we did not write is in the way
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

__all__ = [
    "BundleMissing",
    "Change",
    "ForeignFile",
    "InstallError",
    "Installed",
    "bundled_version",
    "default_config_dir",
    "install",
    "installed_version",
]

ENTRY = "treewarden.js"
MODULES = "treewarden"
PLUGIN_DIRS = ("plugin", "plugins")
_VERSION = re.compile(r'^export const VERSION = "([^"]+)"', re.MULTILINE)
_IMPORT = re.compile(r'from "\./(treewarden[\w.-]*)/')
_OURS = "createSensor"


class InstallError(Exception):
    """The plugin cannot be installed."""


class BundleMissing(InstallError):
    """The files of the plugin are not part of this installation."""


class ForeignFile(InstallError):
    """Another file has our name."""


@dataclass(frozen=True)
class Change:
    path: Path
    action: Literal["created", "updated", "removed"]


@dataclass(frozen=True)
class Installed:
    """``previous`` is the version that was there, None if there was none. No changes = it was current."""

    version: str
    previous: str | None
    entry: Path
    changes: tuple[Change, ...]


def default_config_dir(env: Mapping[str, str]) -> Path:
    """Return opencode's global configuration directory."""
    home = env.get("HOME") or str(Path.home())
    return Path(env.get("XDG_CONFIG_HOME") or Path(home) / ".config") / "opencode"


def bundled_version() -> str:
    """Return the version of the plugin that this treewarden brings along."""
    return _version_in(_bundle() / MODULES) or ""


def installed_version(config_dir: Path) -> str | None:
    """Return the version that opencode loads from ``config_dir``; None: not installed, "": installed but broken."""
    entry = next(_entries(config_dir), None)
    if entry is None:
        return None
    named = _IMPORT.search(entry.read_text(encoding="utf-8", errors="replace"))
    return (_version_in(entry.parent / named[1]) if named else None) or ""


def install(config_dir: Path) -> Installed:
    """Install the bundled plugin, replacing an older one. Errors: InstallError, OSError."""
    bundle = _bundle()
    previous = installed_version(config_dir)
    entries = list(_entries(config_dir))
    place = entries[0].parent if entries else config_dir / PLUGIN_DIRS[0]
    entry = place / ENTRY
    if entry.exists() and entry not in entries:
        raise ForeignFile(f"{entry} is not a treewarden plugin: move it away first")
    place.mkdir(parents=True, exist_ok=True)
    folder = f"{MODULES}-{_digest(bundle)}"
    changes = [*_put_modules(bundle / MODULES, place / folder), *_put_entry(bundle / ENTRY, entry, folder)]
    changes += [change for other in entries if other != entry for change in _remove(other)]
    changes += [change for old in _old_folders(entry, folder) for change in _remove(old)]
    return Installed(bundled_version(), previous, entry, tuple(changes))


def _bundle() -> Path:
    """Return the plugin's files: in the wheel under actors/deploy, in a checkout under deploy."""
    package = Path(__file__).resolve().parents[1]
    for root in (package / "deploy", package.parent / "deploy"):
        if (root / "opencode-plugin" / ENTRY).is_file():
            return root / "opencode-plugin"
    raise BundleMissing(f"opencode-plugin/{ENTRY} is neither in {package}/deploy nor in {package.parent}/deploy")


def _version_in(folder: Path) -> str | None:
    try:
        found = _VERSION.search((folder / "version.js").read_text(encoding="utf-8"))
    except OSError:
        return None
    return found[1] if found else None


def _entries(config_dir: Path) -> Iterator[Path]:
    """Yield our entry files; both directories are loaded, so two of them would report everything twice."""
    for name in PLUGIN_DIRS:
        entry = config_dir / name / ENTRY
        if entry.is_file() and _OURS in entry.read_text(encoding="utf-8", errors="replace"):
            yield entry


def _digest(bundle: Path) -> str:
    digest = hashlib.sha256()
    for path in (bundle / ENTRY, *_modules(bundle / MODULES)):
        digest.update(f"{path.name}\n".encode() + path.read_bytes())
    return digest.hexdigest()[:12]


def _modules(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.js"))


def _put_modules(source: Path, target: Path) -> Iterator[Change]:
    """A folder's name is the digest of its content, so what is there and complete is left alone."""
    wanted = {path.name: path.read_bytes() for path in _modules(source)}
    if target.is_dir() and {path.name: path.read_bytes() for path in _modules(target)} == wanted:
        return
    staged = Path(tempfile.mkdtemp(prefix=".treewarden-", dir=target.parent))
    staged.chmod(0o755)  # readable like the rest of the configuration; it holds no secret
    for name, content in wanted.items():
        (staged / name).write_bytes(content)
    damaged = target.exists()
    if damaged:
        shutil.rmtree(target)
    staged.rename(target)
    yield Change(target, "updated" if damaged else "created")


def _put_entry(source: Path, entry: Path, folder: str) -> Iterator[Change]:
    text = _IMPORT.sub(f'from "./{folder}/', source.read_text(encoding="utf-8"))
    existed = entry.exists()
    if existed and entry.read_text(encoding="utf-8", errors="replace") == text:
        return
    handle, staged = tempfile.mkstemp(prefix=".treewarden-", dir=entry.parent)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
    Path(staged).chmod(0o644)
    Path(staged).replace(entry)
    yield Change(entry, "updated" if existed else "created")


def _old_folders(entry: Path, current: str) -> list[Path]:
    """Folders of earlier versions, and what a crash left behind."""
    found = [*entry.parent.glob(f"{MODULES}-*"), *entry.parent.glob(f".{MODULES}-*"), entry.parent / MODULES]
    return sorted(path for path in found if path.is_dir() and path.name != current and (path / "version.js").exists())


def _remove(path: Path) -> Iterator[Change]:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()
    yield Change(path, "removed")

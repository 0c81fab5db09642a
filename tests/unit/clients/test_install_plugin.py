"""install_plugin: what ends up in opencode's configuration directory, and what it says about it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from actors.clients import install_plugin as plugin


def tree(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def test_install_into_empty_directory_has_entry_and_one_folder_of_modules(tmp_path: Path) -> None:
    done = plugin.install(tmp_path)
    assert done.previous is None
    assert done.version == plugin.bundled_version() == plugin.installed_version(tmp_path)
    assert [change.action for change in done.changes] == ["created", "created"]
    assert done.entry == tmp_path / "plugin" / "treewarden.js"
    top = sorted(path.name for path in (tmp_path / "plugin").iterdir())
    assert len(top) == 2
    assert f'"./{top[0]}/sensor.js"' in done.entry.read_text()
    assert not list((tmp_path / "plugin").glob("*/*.test.js"))


def test_install_twice_changes_nothing(tmp_path: Path) -> None:
    plugin.install(tmp_path)
    before = tree(tmp_path)
    assert plugin.install(tmp_path).changes == ()
    assert tree(tmp_path) == before


def test_install_over_older_version_replaces_it_and_removes_its_folder(tmp_path: Path) -> None:
    entry = plugin.install(tmp_path).entry
    current = next(entry.parent.glob("treewarden-*"))
    old = current.rename(entry.parent / "treewarden-0ld")
    (old / "version.js").write_text('export const VERSION = "0.0.1"\n')
    entry.write_text(entry.read_text().replace(current.name, old.name))
    assert plugin.installed_version(tmp_path) == "0.0.1"
    done = plugin.install(tmp_path)
    assert done.previous == "0.0.1"
    assert {(change.path.name, change.action) for change in done.changes} == {
        (current.name, "created"),
        ("treewarden.js", "updated"),
        ("treewarden-0ld", "removed"),
    }
    assert plugin.installed_version(tmp_path) == plugin.bundled_version()


def test_install_over_damaged_modules_repairs_them(tmp_path: Path) -> None:
    entry = plugin.install(tmp_path).entry
    (next(entry.parent.glob("treewarden-*")) / "sensor.js").unlink()
    assert [change.action for change in plugin.install(tmp_path).changes] == ["updated"]
    assert plugin.install(tmp_path).changes == ()


def test_install_uses_the_directory_that_has_it_and_removes_a_second_copy(tmp_path: Path) -> None:
    plugin.install(tmp_path)
    shutil.copytree(tmp_path / "plugin", tmp_path / "plugins")
    done = plugin.install(tmp_path)
    assert [change.path for change in done.changes] == [tmp_path / "plugins" / "treewarden.js"]
    (tmp_path / "plugin").rename(tmp_path / "gone")
    shutil.copytree(tmp_path / "gone", tmp_path / "plugins", dirs_exist_ok=True)
    assert plugin.install(tmp_path).entry == tmp_path / "plugins" / "treewarden.js"


def test_install_leaves_other_plugins_alone(tmp_path: Path) -> None:
    other = tmp_path / "plugin" / "other.js"
    other.parent.mkdir()
    other.write_text("export default {}")
    plugin.install(tmp_path)
    assert other.read_text() == "export default {}"


def test_install_refuses_a_foreign_file_of_the_same_name(tmp_path: Path) -> None:
    foreign = tmp_path / "plugin" / "treewarden.js"
    foreign.parent.mkdir()
    foreign.write_text("// mine")
    with pytest.raises(plugin.ForeignFile, match="is not a treewarden plugin"):
        plugin.install(tmp_path)
    assert foreign.read_text() == "// mine"


def test_version_of_missing_and_of_broken_install(tmp_path: Path) -> None:
    assert plugin.installed_version(tmp_path) is None
    entry = plugin.install(tmp_path).entry
    shutil.rmtree(next(entry.parent.glob("treewarden-*")))
    assert plugin.installed_version(tmp_path) == ""


def test_default_directory_is_opencodes_global_one() -> None:
    assert plugin.default_config_dir({"HOME": "/h"}) == Path("/h/.config/opencode")
    assert plugin.default_config_dir({"HOME": "/h", "XDG_CONFIG_HOME": "/x"}) == Path("/x/opencode")


def run(*args: str) -> tuple[int, str]:
    import typer

    from actors.cli.failure import failing
    from actors.cli.install_plugin import install_plugin

    app = typer.Typer()
    app.command()(failing(install_plugin))
    done = CliRunner().invoke(app, args, env={**os.environ})
    return done.exit_code, done.output


def test_command_says_what_it_changed(tmp_path: Path) -> None:
    code, output = run("opencode", "--config-dir", str(tmp_path))
    assert code == 0
    assert f"created {tmp_path}/plugin/treewarden.js" in output
    assert "restart opencode" in output
    assert "nothing changed" in run("opencode", "--config-dir", str(tmp_path))[1]


def test_command_with_a_foreign_file_is_a_conflict(tmp_path: Path) -> None:
    (tmp_path / "plugin").mkdir()
    (tmp_path / "plugin" / "treewarden.js").write_text("// mine")
    code, output = run("opencode", "--config-dir", str(tmp_path))
    assert code == 6
    assert "is not a treewarden plugin" in output

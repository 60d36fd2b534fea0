"""A store elsewhere, imagined: a folder that is only reached by counted requests."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.fs as pafs


class CountingHandler(pafs.FileSystemHandler):
    """Serves a local folder, and counts what is asked of it."""

    def __init__(self, folder):
        """Serve a folder."""
        self.local = pafs.SubTreeFileSystem(str(folder), pafs.LocalFileSystem())
        self.requests = []
        self.broken = False

    def __eq__(self, other):
        """Tell handlers apart."""
        return self is other

    __hash__ = None

    def get_type_name(self):
        """Name the kind of store."""
        return "counting"

    def normalize_path(self, path):
        """Take paths as they are."""
        return path

    def get_file_info(self, paths):
        """Tell what stands there."""
        return self.local.get_file_info(paths)

    def get_file_info_selector(self, selector):
        """List a folder."""
        return self.local.get_file_info(selector)

    def open_input_file(self, path):
        """Open a file, each read of which is counted."""
        return pa.PythonFile(_CountingFile(self, self.local.open_input_file(path).read()), "r")

    def _refuse(self, *_args, **_kwargs):
        raise OSError("the store is read-only")

    create_dir = delete_dir = delete_dir_contents = delete_root_dir_contents = _refuse
    delete_file = move = copy_file = open_input_stream = _refuse
    open_output_stream = open_append_stream = _refuse


class _CountingFile(io.BytesIO):
    """A file whose reads are requests."""

    def __init__(self, handler, data):
        super().__init__(data)
        self._handler = handler

    def read(self, size=-1):
        """Read on."""
        if self._handler.broken:
            raise OSError("the line is dead")
        self._handler.requests.append((self.tell(), size))
        return super().read(size)

"""An image as PNG, with the standard library only."""

from __future__ import annotations

import base64
import struct
import zlib

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_BITS, _RGB = 8, 2
_LEVEL = 6


def png(pixels: bytes, width: int, height: int) -> bytes:
    """A PNG file.

    Args:
        pixels: rows from the top, three bytes (red, green, blue) a pixel; 3 * width * height bytes.
    """
    stride = 3 * width
    if len(pixels) != stride * height:
        raise ValueError(f"expected {stride * height} bytes for {width} x {height} pixels, got {len(pixels)}")
    # Each row is preceded by the number of its filter; 0 is none.
    rows = b"".join(b"\0" + pixels[start : start + stride] for start in range(0, len(pixels), stride))
    header = struct.pack(">IIBBBBB", width, height, _BITS, _RGB, 0, 0, 0)
    return _SIGNATURE + _chunk(b"IHDR", header) + _chunk(b"IDAT", zlib.compress(rows, _LEVEL)) + _chunk(b"IEND", b"")


def data_url(image: bytes) -> str:
    """A PNG file as a ``data:`` URL."""
    return "data:image/png;base64," + base64.b64encode(image).decode("ascii")


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

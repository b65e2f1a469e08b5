"""Modules that the standard library imports inside functions.

A component holds only what was imported while it was built: a late import finds no files. These are
the ones that ordinary programs reach without naming them.
"""

# pyright: reportUnusedImport=false, reportMissingTypeStubs=false

import _strptime  # noqa: F401  time.strptime, datetime.strptime
import copyreg  # noqa: F401  copy, pickle
import encodings.ascii
import encodings.cp1252
import encodings.idna
import encodings.latin_1
import encodings.punycode
import encodings.raw_unicode_escape
import encodings.unicode_escape
import encodings.utf_8_sig
import encodings.utf_16
import encodings.utf_16_le
import encodings.utf_32  # noqa: F401
import inspect  # noqa: F401  dataclasses
import linecache  # noqa: F401  traceback, warnings
import reprlib  # noqa: F401  dataclasses, asyncio
import signal  # noqa: F401  asyncio.run
import threading  # noqa: F401  asyncio.run
import tokenize  # noqa: F401  linecache
import unicodedata  # noqa: F401  str.encode("idna"), re names

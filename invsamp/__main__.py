"""``python -m invsamp``: the same as the command ``invsamp``."""

from __future__ import annotations

import sys

from invsamp.commands import main

if __name__ == "__main__":
    sys.exit(main())

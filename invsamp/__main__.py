"""``python -m invsamp``: the same as the command ``invsamp``."""

from __future__ import annotations

import sys

from invsamp.commands import main

sys.exit(main())

"""``python -m plgc`` is the same as ``plgc``."""

import sys

from plgc.cli import main

if __name__ == "__main__":
    sys.exit(main())

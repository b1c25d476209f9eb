"""`python -m tq` is `tq`."""

import sys

from tq.cli import main

if __name__ == "__main__":
    sys.exit(main())

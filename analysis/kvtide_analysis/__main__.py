"""`python3 -m kvtide_analysis`."""

import sys

from . import live

if sys.argv[1:2] and sys.argv[1] in live.COMMANDS:
    sys.exit(live.main(sys.argv[1:]))

from .cli import main  # noqa: E402  imports the packages for pictures

sys.exit(main())

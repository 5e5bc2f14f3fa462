"""`python3 -m kvtide_analysis`."""

import sys

from .cli import main

sys.exit(main())

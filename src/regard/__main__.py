"""`python -m regard`."""

import sys

from regard.cli import main

sys.exit(main())

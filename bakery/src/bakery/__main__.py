import sys

from bakery.cli import main

sys.exit(main())

"""`python -m rollwise` is the command `rollwise`."""

from rollwise.cli import main

raise SystemExit(main())

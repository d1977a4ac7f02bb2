"""``python -m hardpair``, and with it ``torchrun -m hardpair``."""

from hardpair.cli import main

main()

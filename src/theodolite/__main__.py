"""`python -m theodolite` is the `theodolite` command."""

from theodolite.cli import main

main()

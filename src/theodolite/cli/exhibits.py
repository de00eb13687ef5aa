"""theodolite exhibits: list the figures and tables that can be drawn, and what each needs."""

from __future__ import annotations

import json as encoder
from typing import Annotated

import typer


def exhibits(json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False) -> None:
    """List the figures and tables of papers that can be drawn, with what each needs."""
    from theodolite.cli.console import print_result
    from theodolite.cli.output import print_rows
    from theodolite.exhibits.registry import all_exhibits

    found = all_exhibits().values()
    if json:
        rows = [
            {
                "name": exhibit.name,
                "paper": exhibit.paper,
                "id": exhibit.id,
                "kind": exhibit.kind,
                "title": exhibit.title,
                "needs": exhibit.needed,
                "options": [
                    f"--{option.removesuffix('s') if option == 'layers' else option}" for option in exhibit.options
                ],
            }
            for exhibit in found
        ]
        print_result(encoder.dumps(rows))
        return
    print_rows([{"exhibit": e.name, "kind": e.kind, "shows": e.title, "needs": e.needed} for e in found])
    print_result(
        "`theodolite exhibit NAME DIR... --out FILE` draws one exhibit. `theodolite exhibit PAPER DIR... --out "
        "FOLDER` draws all exhibits of a paper that the folders allow."
    )

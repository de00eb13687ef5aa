"""Parameters of a model by part: tables, attention, feed-forward, norms, and other parameters."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pandas as pd
from torch import nn

TABLES = {"words": "word table", "positions": "position table", "segments": "segment table"}
TABLES |= {"relative": "relative positions"}
ORDER = (*TABLES.values(), "other tables", "embedding norm", "attention", "feed-forward", "norm", "final norm")
NORM = re.compile(r"norm|(^|[._])ln(_|\d|$)", re.IGNORECASE)
ATTENTION = re.compile(r"attn|attention", re.IGNORECASE)
DETAILS = {
    "query, key and value": r"qkv|c_attn|query_key_value",
    "query": r"query|q_proj|q_lin|(^|\.)q$",
    "key": r"key|k_proj|k_lin|(^|\.)k$",
    "value": r"value|v_proj|v_lin|(^|\.)v$",
    "output": r"out|o_proj|dense|c_proj|(^|\.)o$",
}


def parameter_table(model: nn.Module, names: Mapping[str, str]) -> pd.DataFrame:
    """Return one row per parameter: part, detail, stack and number of its block, shape, size, share.

    `names` are the names of the tables by role. A tensor shared by two parts is counted once, at the first one.
    """
    roles = {name: TABLES[role] for role, name in names.items()}
    stacks = _stacks(model)
    rows = []
    for name, parameter in model.named_parameters():
        stack, block, rest = _place(name, stacks)
        part, detail = (roles[name], "") if name in roles else _part(model, name, rest, inside=block is not None)
        shape = " x ".join(map(str, parameter.shape))
        row = {"name": name, "part": part, "detail": detail, "stack": stack, "block": block, "shape": shape}
        rows.append({**row, "parameters": parameter.numel()})
    head = ["name", "part", "detail", "stack", "block", "shape", "parameters"]
    table = pd.DataFrame(rows, columns=head).astype({"block": "Int64"})
    table["share"] = table["parameters"] / max(int(table["parameters"].sum()), 1)
    return table


def parts_table(parameters: pd.DataFrame) -> pd.DataFrame:
    """Return one row per part and detail: tensors, parameters, share, and parameters per block if equal in all."""
    rows = []
    for (part, detail), group in parameters.groupby(["part", "detail"], sort=False):
        by_block = group.dropna(subset="block").groupby(["stack", "block"])["parameters"].sum()
        equal = len(by_block) and by_block.nunique() == 1 and by_block.sum() == group["parameters"].sum()
        rows.append(
            {
                "part": part,
                "detail": detail,
                "tensors": len(group),
                "blocks": len(by_block),
                "a_block": int(by_block.iloc[0]) if equal else None,
                "parameters": int(group["parameters"].sum()),
                "share": float(group["share"].sum()),
            }
        )
    head = ["part", "detail", "tensors", "blocks", "a_block", "parameters", "share"]
    table = pd.DataFrame(rows, columns=head).astype({"a_block": "Int64"})
    order_of = {part: number for number, part in enumerate(ORDER)}
    order = table["part"].map(lambda part: order_of.get(part, len(order_of)))
    return table.iloc[order.argsort(kind="stable").to_numpy()].reset_index(drop=True)


def _stacks(model: nn.Module) -> list[str]:
    """Return the names of the module lists that are not inside another one."""
    lists = [name for name, module in model.named_modules() if isinstance(module, nn.ModuleList) and len(module)]
    return [name for name in lists if not any(name.startswith(f"{other}.") for other in lists)]


def _place(name: str, stacks: list[str]) -> tuple[str, int | None, str]:
    """Return the stack, the number of the block and the remaining name of a parameter."""
    for stack in stacks:
        if name.startswith(f"{stack}."):
            number, _, rest = name.removeprefix(f"{stack}.").partition(".")
            return stack, int(number), rest
    return "", None, name


def _part(model: nn.Module, name: str, rest: str, *, inside: bool) -> tuple[str, str]:
    owner = rest.rpartition(".")[0] or rest
    if NORM.search(owner):
        if inside:
            return "norm", ""
        return ("embedding norm" if "embed" in owner.lower() else "final norm"), ""
    if isinstance(model.get_submodule(name.rpartition(".")[0]), nn.Embedding):
        return "other tables", name
    if not inside:
        return name.partition(".")[0], ""
    if ATTENTION.search(owner):
        inner = (
            ATTENTION.split(owner, maxsplit=1)[-1]
            if not re.search(DETAILS["query, key and value"], owner)
            else owner
        )
        return "attention", next((detail for detail, pattern in DETAILS.items() if re.search(pattern, inner)), "")
    return "feed-forward", ""

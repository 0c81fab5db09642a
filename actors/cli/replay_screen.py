"""What replay shows: the table of conversations, one explained, and what would have been saved."""

from __future__ import annotations

from typing import Any

from actors.cli.options import colour
from actors.cli.table import clock, columns, plain, usd
from actors.cli.why import evidence_lines

__all__ = ["explained", "named", "summary", "table"]

Row = dict[str, Any]

HEAD = (
    "CONVERSATION",
    "SOURCE",
    "CALLS",
    "VERDICT",
    "WORST",
    "FIRST FLAG",
    "WHY",
    "CALLS AFTER",
    "SPENT",
    "WOULD SAVE",
)
FEW = 50  # conversations that are all listed; of more only the flagged ones
REAL_TIME = 1e9  # below it a time was synthesised


def table(rows: list[Row], *, timeline: bool, everything: bool) -> list[str]:
    """List the conversations, the worst first; each change of verdict below them on request."""
    flagged = sorted((row for row in rows if row["first_flag"]), key=_saved, reverse=True)
    quiet = [row for row in rows if not row["first_flag"]]
    listed = [*flagged, *(quiet if everything or len(rows) <= FEW else [])]
    lines = columns(HEAD, [_cells(row) for row in listed]) if listed else []
    if len(listed) < len(rows):
        lines.append(f"({len(rows) - len(listed)} conversations without a flag are not listed: --all)")
    for row in flagged if timeline else []:
        lines += ["", f"timeline of {plain(row['conversation'])}", *_timeline(row)]
    return [*lines, ""]


def summary(rows: list[Row]) -> list[str]:
    """Say which session was worst and what would have been saved in all."""
    flagged = [row for row in rows if row["first_flag"]]
    lines = []
    if flagged:
        worst = max(flagged, key=_saved)
        first, left = worst["first_flag"], worst["calls_after_first_flag"]
        lines += [
            f"worst session: {plain(worst['conversation'])} ({plain(worst['source'])}): {first['verdict']} at call "
            f"{first['calls']} of {worst['calls']} for {first['reason']}; {left} calls and "
            f"{usd(worst['usd_after_first_flag'])} came after it",
            f"look closer: treewarden replay --why {plain(worst['conversation'])}",
        ]
    priced = sorted({row["source"] for row in rows if row["usd_estimated"]})
    if priced:
        lines.append(f"dollars of {', '.join(priced)} are estimated from list prices: the transcripts hold only tokens")
    return [*lines, _total(rows, flagged)]


def named(rows: list[Row], name: str) -> list[Row]:
    """Return the conversation of that name, or those whose name begins with it."""
    exact = [row for row in rows if row["conversation"] == name]
    return exact or [row for row in rows if row["conversation"].startswith(name)]


def explained(row: Row, knobs: Any) -> list[str]:
    """Explain one conversation: its changes of verdict, and the evidence of the first and the worst of them."""
    verdict = row["verdict"]
    lines = [
        f"conversation {plain(row['conversation'])} ({plain(row['source'])}): {colour(verdict, verdict)} at its end, "
        f"{row['worst']} at worst",
        f"{row['calls']} calls, {row['turns']} turns, {usd(row['usd'])}; after the first flag "
        f"{row['calls_after_first_flag']} calls and {usd(row['usd_after_first_flag'])}",
        "",
    ]
    if not row["transitions"]:
        return [*lines, "nothing was flagged", ""]
    lines += [*_timeline(row), ""]
    thresholds = knobs.model_dump(mode="json")
    for title, transition in _telling(row):
        lines.append(f"{title}: call {transition['calls']}, {transition['after']}, {transition['reason']}")
        lines += evidence_lines(transition["evidence"], thresholds)
    return lines


def _telling(row: Row) -> list[tuple[str, Row]]:
    flags = [one for one in row["transitions"] if one["after"] != "ok"]
    worst = [one for one in flags if one["after"] == row["worst"]]
    found = [("first flag", flags[0])] if flags else []
    return found + ([("worst", worst[0])] if worst and worst[0] is not flags[0] else [])


def _timeline(row: Row) -> list[str]:
    cells = [
        (one["calls"], _when(one["t"]), one["before"], one["after"], one["reason"], one["conversation"])
        for one in row["transitions"]
    ]
    return columns(("CALL", "WHEN", "BEFORE", "AFTER", "WHY", "CONVERSATION"), cells)


def _cells(row: Row) -> list[Any]:
    first = row["first_flag"] or {}
    when = f"call {first['calls']}, {_when(first['t'])}".removesuffix(", -") if first else None
    return [
        row["conversation"],
        row["source"],
        row["calls"],
        row["verdict"],
        row["worst"],
        when,
        first.get("reason"),
        row["calls_after_first_flag"] if first else None,
        usd(row["usd"]),
        usd(row["usd_after_first_flag"]) if first else None,
    ]


def _when(t: float) -> str:
    return clock(t) if t > REAL_TIME else "-"


def _saved(row: Row) -> tuple[float, int]:
    return row["usd_after_first_flag"], row["calls_after_first_flag"]


def _total(rows: list[Row], flagged: list[Row]) -> str:
    spent = sum(row["usd_after_first_flag"] for row in flagged)
    calls = sum(row["calls_after_first_flag"] for row in flagged)
    everything = sum(row["usd"] for row in rows)
    text = (
        f"{len(rows)} conversations, {len(flagged)} flagged; stopping at the first flag would have saved "
        f"{usd(spent)} of {usd(everything)} and {calls} calls"
    )
    return colour(text, "stalling" if flagged else "ok")

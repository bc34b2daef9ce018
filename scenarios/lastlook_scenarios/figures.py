"""The paper's two figures: the overview of the runtime, and agreement beside scaling, drawn from a run's figures."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pathlib import Path

    from lastlook_scenarios.summary import Summary

__all__ = ["NAMES", "draw"]

NAMES: Final = ("figure1", "figure2")
_METHODS: Final = ("NoCheck", "VersionAbort", "FullScan", "ATR")
_PATHS: Final = {
    "full_scan": ("FullScan", "C1", "s"),
    "hint": ("ATR, change hint", "C0", "o"),
    "pre_effect": ("ATR, PRE_EFFECT", "C2", "^"),
}


def draw(summary: Summary, folder: Path) -> None:
    """Write `figure1` and `figure2` into the folder, as SVG whose text is text, and as PNG."""
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    settings: Any = {"svg.fonttype": "none", "svg.hashsalt": "lastlook", "font.size": 9.0}
    untyped: Any = mpl
    with untyped.rc_context(settings):
        overview: Any = Figure(figsize=(8.5, 4.2))
        results: Any = Figure(figsize=(8.5, 3.4), layout="constrained")
        _overview(overview)
        _results(results, summary)
        for name, figure in zip(NAMES, (overview, results), strict=True):
            FigureCanvasAgg(figure)
            figure.savefig(folder / f"{name}.svg", metadata={"Date": None, "Creator": None})
            figure.savefig(folder / f"{name}.png", dpi=150, metadata={"Software": None})


def _overview(figure: Any) -> None:
    """Figure 1: what leads to an effect, what watches over it, and what comes back when the target refuses."""
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_xlim(0, 17)
    axes.set_ylim(0, 8.4)
    axes.axis("off")
    flow = {
        "observations": (0.3, "versioned\nobservations (R)"),
        "decisions": (3.7, "decisions (D)\nwith premises"),
        "intents": (7.1, "intents (I)\nproposed actions"),
        "gate": (10.5, "gate\nKEEP, REFRESH,\nREPLAN, BLOCK"),
        "target": (13.9, "target (E)\ntransaction or\ncompare-and-set"),
    }
    control = {
        "index": (1.9, "reverse index:\naffected closure"),
        "graph": (5.3, "dependency graph"),
        "checks": (8.7, "condition checks"),
        "log": (12.1, "explanation log"),
    }
    for x, text in flow.values():
        _box(axes, x, 5.3, text, "white")
    for x, text in control.values():
        _box(axes, x, 1.3, text, "#eef3f8")
    axes.add_patch(_rectangle((1.5, 0.8), 13.6, 2.6, fill=False, edgecolor="0.5", linestyle=":"))
    axes.text(1.7, 0.3, "ATR control plane", color="0.3")
    places = list(flow.values())
    for (left, _), (right, _) in pairwise(places):
        _arrow(axes, (left + 2.8, 6.2), (right, 6.2), "-", "0.1")
    inner = list(control.values())
    for (left, _), (right, _) in pairwise(inner):
        _arrow(axes, (left + 2.8, 2.2), (right, 2.2), "-", "0.1")
    _arrow(axes, (1.7, 5.3), (3.2, 3.1), "--", "0.4")
    _arrow(axes, (10.1, 3.1), (11.8, 5.3), "--", "0.4")
    _arrow(axes, (12.2, 5.3), (13.4, 3.1), "--", "0.4")
    axes.annotate(
        "",
        xy=(11.9, 7.1),
        xytext=(15.3, 7.1),
        arrowprops={"arrowstyle": "->", "linestyle": "--", "color": "0.4", "connectionstyle": "arc3,rad=0.35"},
    )
    axes.text(13.6, 8.05, "rejected: look again", ha="center", color="0.3")
    axes.text(2.6, 4.3, "change", color="0.3")


def _box(axes: Any, x: float, y: float, text: str, colour: str) -> None:
    axes.add_patch(_rectangle((x, y), 2.8, 1.8, facecolor=colour, edgecolor="0.2"))
    axes.text(x + 1.4, y + 0.9, text, ha="center", va="center")


def _rectangle(corner: tuple[float, float], width: float, height: float, **style: Any) -> Any:
    from matplotlib.patches import FancyBboxPatch

    return FancyBboxPatch(corner, width, height, boxstyle="round,pad=0,rounding_size=0.15", **style)


def _arrow(axes: Any, start: tuple[float, float], end: tuple[float, float], line: str, colour: str) -> None:
    axes.annotate("", xy=end, xytext=start, arrowprops={"arrowstyle": "->", "linestyle": line, "color": colour})


def _results(figure: Any, summary: Summary) -> None:
    """Figure 2: exact agreement on the durable cells, and time by recorded reads with 95 % intervals."""
    left, right = figure.subplots(1, 2, width_ratios=(2, 3))
    if summary.durable:
        shares = [100 * summary.durable[name].matched / summary.durable[name].of for name in _METHODS]
        bars = left.bar(range(len(_METHODS)), shares, color=["0.75", "0.75", "C1", "C0"])
        left.bar_label(bars, labels=[f"{share:.0f}%" for share in shares])
    left.set_xticks(range(len(_METHODS)), _METHODS, rotation=20)
    left.set_ylim(0, 112)
    left.set_ylabel("exact outcomes (%)")
    left.set_title("(a) ten durable cells")

    spreads = summary.scaling()
    reads = sorted(spreads)
    for path, (label, colour, marker) in _PATHS.items():
        means = [spreads[n][path].mean for n in reads]
        errors = [spreads[n][path].ci95 for n in reads]
        right.errorbar(reads, means, yerr=errors, label=label, color=colour, marker=marker, capsize=3, markersize=4)
        if path != "pre_effect":
            for n, mean in ((reads[0], means[0]), (reads[-1], means[-1])):
                beside = (0, 6) if path == "full_scan" else (0, -14)
                right.annotate(f"{mean:.1f}", (n, mean), xytext=beside, textcoords="offset points", ha="center")
    right.margins(x=0.12, y=0.14)
    right.set_xscale("log")
    right.set_yscale("log")
    right.set_xlabel("recorded reads")
    right.set_ylabel("p50 (us)")
    right.set_title("(b) validation by trace size")
    right.legend(loc="upper left", frameon=False)

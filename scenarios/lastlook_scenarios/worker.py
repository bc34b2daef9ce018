"""A process that runs units: one unit's name a line in, what it has done as lines of JSON out, until its input ends.

When the process that started it is killed, its input ends, and so does it, after the unit that it is at.
"""

from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from lastlook_scenarios import units
from lastlook_scenarios.units import Options, Unit

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["main"]


def main(argv: Sequence[str]) -> int:
    """Run the units that are asked for; `argv` has the folder of the rows and the options as JSON."""
    rows, options = Path(argv[0]), Options(**json.loads(argv[1]))
    answers = sys.stdout
    with contextlib.redirect_stdout(sys.stderr):  # nothing else may stand among the answers
        for line in sys.stdin:
            units.perform(Unit(*json.loads(line)), options, rows, lambda steps: print(steps, file=answers, flush=True))
            print("done", file=answers, flush=True)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except (KeyboardInterrupt, BrokenPipeError):
        sys.exit(130)  # whoever started it has gone, or goes
    except (units.UnitFailed, OSError) as error:
        sys.exit(f"lastlook evaluate: {error}")

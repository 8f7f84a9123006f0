"""Walk at random through the masks of hostile tools, in all dialects, and validate each call.

    python -m tests.long walks --steps 10000000 --out FILE
    python -m tests.long walks --seed 17                      # one of them again

Each seed is a dialect, with its marks as tokens or as text, and one to three tools with random
schemas. Tokens are chosen of those that the masks allow: at random, with a liking for ends, or the
same again and again. Drafts are accepted and taken back between them. Reported are masks that allow
nothing, allowed tokens that are refused, masks that differ after a rollback, calls that violate a
schema which masks enforce completely, and required calls that do not begin within their budget.

With --out, the outcome of each seed is a line of FILE, and seeds that it has are not run again. The
exit status is 1 if something is wrong.
"""

from __future__ import annotations

import os
from contextlib import closing
from itertools import count

from tests.long.outcomes import Runs, parser_of, side_by_side
from tests.long.walks.walk import SAME_DIALECT, run


def main() -> int:
    parser = parser_of(__doc__)
    parser.add_argument("--steps", type=int, default=100_000, help="token steps in all")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    if options.seed is not None:
        runs = Runs()
        runs.add(run(options.seed))
    else:
        runs = Runs(options.out)
        seeds = runs.missing(count())
        with closing(side_by_side(run, seeds, options.processes, SAME_DIALECT)) as found:
            while runs.total("token steps") < options.steps:
                runs.add(next(found))
    return runs.report("seeds")

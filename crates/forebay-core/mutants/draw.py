"""Draws mutants: COUNT regular expressions, one a line, each of one mutant out of the list on stdin.

    cargo mutants --list --json -p forebay-core | python3 draw.py SEED COUNT

The same seed draws the same ones as long as no line of the sources has moved.
"""

import json
import random
import re
import sys


def main() -> None:
    seed, count = int(sys.argv[1]), int(sys.argv[2])
    names = sorted(mutant["name"] for mutant in json.load(sys.stdin))
    for name in random.Random(seed).sample(names, min(count, len(names))):
        # Python escapes the spaces, which the other end does not take.
        print("^" + re.escape(name).replace("\\ ", " ") + "$")


if __name__ == "__main__":
    main()

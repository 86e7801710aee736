#!/usr/bin/env python3
"""A short run of the fuzzer of whole commands (tests/fuzz/commands.py): files that contradict each other end in named errors. With
GNNC_LONG=1 more, and under sanitizers.
usage: test_commands.py BUILD"""
import os
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "fuzz"))
import commands  # noqa: E402

LONG = bool(os.environ.get("GNNC_LONG"))
ends, wrong = commands.campaign(sys.argv[1], 600 if LONG else 120, seed=2, jobs=2, sanitize=LONG)
print("FAIL commands: %d wrong, see above" % len(wrong) if wrong else "ok commands")
print("FAIL commands_reach: no command came through, or none was refused: %s" % ends if not ends.get(0) or not ends.get(2) or not ends.get(3)
      else "ok commands_reach")
sys.exit(1 if wrong else 0)

"""List what the rules missed and damaged, to develop them with; no secret is printed."""

from __future__ import annotations

import argparse
from collections import Counter

from tests.benchmarks.redaction import sessions
from tests.benchmarks.redaction.cases import strings
from tests.benchmarks.redaction.figures import SECRETS, of_pii, of_secrets
from tests.benchmarks.redaction.judge import Recall, masked


def show_recall(found: Recall, only: str) -> None:
    """The kinds and the contexts with a miss, then each miss."""
    kinds = Counter(case.kind for case, _ in found.leaked)
    for kind, count in sorted(kinds.items()):
        print(f"{kind}: {count} of {found.total[kind]} left")
    contexts = Counter(case.context for case, _ in found.leaked)
    print("\nin", ", ".join(f"{context} {count}" for context, count in contexts.most_common() if count > 1))
    for word, misses in (("LEFT", found.leaked), ("DAMAGED", found.damaged)):
        for case, what in misses:
            if only in f"{case.kind} {case.context}":
                print(f"\n{word} {case.kind} · {case.context}")
                print(f"  {masked(strings(case.value), case.gone, 600)}")
                if word == "DAMAGED":
                    print(f"  missing: {masked(what, case.gone)}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.redaction", description=__doc__)
    parser.add_argument("only", nargs="?", default="", help="only kinds or contexts with this in their name")
    parser.add_argument("--pii", action="store_true", help="the cases of pii@1 instead")
    only, personal = (arguments := parser.parse_args()).only, arguments.pii
    if personal:
        found, altered, _ = of_pii()
    else:
        found, altered = of_secrets()
    show_recall(found, only)
    for stay, out in altered:
        if only in stay.kind:
            print(
                f"\nCHANGED {stay.kind}\n  {masked(strings(stay.value), (), 600)}\n  {masked(out, (), 600)}"
            )
    if not personal and not only:
        for text in sessions.benign():
            if (out := SECRETS(text)) != text:
                pairs = zip(text.splitlines(), out.splitlines(), strict=False)
                before, after = next(((a, b) for a, b in pairs if a != b), (text, out))
                print(f"\nCHANGED benign\n  {masked(before, ())}\n  {masked(after, ())}")
    print(f"\n{found.removed:.2f} % removed, {found.around:.2f} % around kept, {len(altered)} texts changed")


main()

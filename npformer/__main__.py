"""``python -m npformer`` is the command ``npformer``, which begins here: an interrupt may come while it loads."""

import sys


def main() -> int:
    """The command; returns its exit code."""
    try:
        from npformer.cli.main import main as run

        return run()
    except KeyboardInterrupt:
        print("npformer: interrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())

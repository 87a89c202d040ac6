"""``python -m teir`` is the command ``teir``."""

from teir.cli.main import main

if __name__ == "__main__":
    main()

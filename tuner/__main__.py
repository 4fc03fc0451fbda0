"""`python -m tuner`: one tuning worker, as `tailwright tune`."""

from tuner.study.command import app

if __name__ == "__main__":
    app(prog_name="tailwright tune")

"""`python -m agents.engine`: the engine's server alone, as `tailwright engine`."""

from agents.engine.command import app

if __name__ == "__main__":
    app(prog_name="tailwright engine")

"""`python -m agents.agent --node NAME ...`: one agent process, as `tailwright agent`."""

from agents.agent.command import app

if __name__ == "__main__":
    app(prog_name="tailwright agent")

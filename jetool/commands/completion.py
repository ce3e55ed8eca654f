"""``jetool completion``: a script that makes the shell ask jetool for completions."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from jetool.frame import exits
from jetool.frame.command import Outputs, command
from jetool.frame.options import Run


@command(
    "completion",
    outputs=lambda: Outputs("text"),
    formats=("text",),
    examples=(
        ("Completion in this bash, for now", 'eval "$(jetool completion bash)"'),
        ("Completion in every fish", "jetool completion fish --output ~/.config/fish/completions/jetool.fish"),
    ),
    exits={exits.DONE: "the script was printed"},
)
@click.argument("shell", type=click.Choice(("bash", "zsh", "fish")), help="The shell.")
def completion(run: Run, shell: str) -> int:
    """Print a script that completes commands, options and their values in bash (4.4 or later), zsh or fish.

    The shell runs the script when it starts, bash from ~/.bashrc. The script asks jetool for completions, so a new
    version of jetool needs no new script.
    """
    from jetool.frame import cli

    found = get_completion_class(shell)
    assert found is not None
    run.out.text(found(cli.root(), {}, "jetool", cli.COMPLETE_VARIABLE).source())
    return exits.DONE

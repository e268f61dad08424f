"""`adw completion`: a script by which a shell completes commands, options, IDs and workflows."""

import sys

import click

_SHELLS = ("bash", "zsh", "fish")


@click.command("completion")
@click.argument("shell", type=click.Choice(_SHELLS), metavar="bash|zsh|fish")
def command(shell: str) -> int:
    """Print a completion script.

    \b
    adw completion bash > ~/.local/share/bash-completion/completions/adw
    adw completion zsh > "${fpath[1]}/_adw"
    adw completion fish > ~/.config/fish/completions/adw.fish
    """
    from click.shell_completion import get_completion_class

    from adw.cli.main import group

    # Made by the template alone: click's own `source` starts a shell to ask for its version.
    kind = get_completion_class(shell)
    assert kind is not None, shell
    script = kind(group, {}, "adw", "_ADW_COMPLETE")
    sys.stdout.write(script.source_template % script.source_vars())
    return 0

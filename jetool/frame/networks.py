"""Connections of commands to JE nodes: TCP, or TLS over it."""

from __future__ import annotations

import os
import socket
from ipaddress import ip_address

import click
from click.core import ParameterSource

from engine.errors import UsageError
from engine.rep.client.connection import Address, Network, SocketNetwork
from engine.rep.client.tls import TlsFiles, TlsNetwork
from engine.rep.peers import address_text
from jetool.frame import params
from jetool.frame.options import Run


def network_of(run: Run) -> Network:
    """The network for the ``tls`` options.

    Raises:
        UsageError: an option without ``--tls-ca``, or a file that is not a certificate or key. NotFoundError: no file.
    """
    files = tls_files(run)
    return SocketNetwork() if files is None else TlsNetwork(SocketNetwork(), files)


def tls_files(run: Run) -> TlsFiles | None:
    """The files of the ``tls`` options; None: no TLS. Raises UsageError for an option without ``--tls-ca``."""
    given = run.tls
    if given is None:
        return None
    if given.ca is not None:
        return TlsFiles(ca=given.ca, cert=given.cert, key=given.key, check_host=given.check_host)
    if given.cert or given.key or given.check_host:
        raise UsageError("TLS needs --tls-ca", hint="it names the certificates that are trusted")
    return None


def address_of(word: str) -> Address | None:
    """The address in an argument that may name a directory or a node; None for a directory.

    Raises:
        UsageError: it is no path, and its port is not a port.
    """
    if os.path.lexists(word) or ":" not in word:
        return None
    try:
        return params.HOST.convert(word, None, None)
    except click.BadParameter as error:
        raise UsageError("neither a directory nor the address of a node", expected="HOST:PORT", found=word) from error


def refuse_tls(what: str) -> None:
    """Refuse the ``tls`` options in a run that calls no JE node.

    Arguments:
        what: a description of the run, such as ``of a directory``.

    Raises:
        UsageError: the command line has a ``tls`` option; environment variables are ignored.
    """
    ctx = click.get_current_context()
    for param in ctx.command.params:
        source = ctx.get_parameter_source(param.name or "")
        if (param.name or "").startswith("tls_") and source is ParameterSource.COMMANDLINE:
            raise UsageError(f"{param.opts[0]}: no node of JE is called", found=what)


def check_listening(run: Run, listen: Address, *, plain: bool) -> None:
    """Whether a node of a JE group may listen at an address: JE's protocol has no authentication, so only TLS
    identifies callers.

    Arguments:
        plain: the user has allowed everyone who can reach the port.

    Raises:
        UsageError: the address is reachable from other machines, and neither TLS nor ``plain`` is set.
    """
    if plain or tls_files(run) is not None:
        return
    try:
        found = {str(info[4][0]) for info in socket.getaddrinfo(*listen, type=socket.SOCK_STREAM)}
    except (OSError, UnicodeError):
        found = set()  # Listening will say so.
    if not all(ip_address(address.partition("%")[0]).is_loopback for address in found):
        raise UsageError(
            f"{address_text(listen)} can be reached from other machines, and without TLS anybody may read and join",
            consequence="nothing was started",
            hint="--tls-ca, --tls-cert and --tls-key have the group speak TLS; --plain listens without",
        )

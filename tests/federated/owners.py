"""Owners of sites whose public keys have been exchanged."""

from federated_data import OPEN

from steropes.federated import Owner


def owners_of(names, rules=OPEN):
    """An owner a site, in memory, each with the public keys of the others."""
    owners = {name: Owner(rules) for name in names}
    for name, owner in owners.items():
        owner.peers = {o: other.keys.public for o, other in owners.items() if o != name}
    return owners

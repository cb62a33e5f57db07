"""Plans: binary join trees over the references of a query.

Every node but the root has a *state*, identified by the set of references it covers: two plans
share a state exactly when both contain a node over the same references (CAPE,
section 4.1.1).
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from anabranch.plan.graph import JoinGraph


@dataclass(frozen=True, slots=True)
class Leaf:
    alias: str

    @property
    def aliases(self) -> tuple[str, ...]:
        return (self.alias,)

    def __str__(self) -> str:
        return self.alias


@dataclass(frozen=True, slots=True)
class Join:
    left: Plan
    right: Plan

    @property
    def aliases(self) -> tuple[str, ...]:
        return self.left.aliases + self.right.aliases

    def __str__(self) -> str:
        return f"({self.left} {self.right})"


@dataclass(frozen=True, slots=True)
class Probe:
    """Several joins at once, without intermediate state: new rows of each reference probe all others.

    `orders` has one order per reference, which is itself the first. Nothing has to be moved or rebuilt to
    change to such a plan, or from one order to another.
    """

    orders: tuple[tuple[str, ...], ...]

    @property
    def aliases(self) -> tuple[str, ...]:
        return tuple(order[0] for order in self.orders)

    def __str__(self) -> str:
        return f"[{', '.join(' '.join(order) for order in self.orders)}]"


Plan = Leaf | Join | Probe


def parse_plan(text: str) -> Plan:
    """Read a plan back from its text.

    >>> str(parse_plan("((a b) c)"))
    '((a b) c)'
    >>> str(parse_plan("[a b c, b c a, c b a]"))
    '[a b c, b c a, c b a]'
    """
    if text.startswith("["):
        return _parse_probe(text)
    tokens = text.replace("(", " ( ").replace(")", " ) ").split()

    def node() -> Plan:
        token = tokens.pop(0) if tokens else ")"
        if token == ")":
            raise ValueError(f"{text!r} is not a plan: every join has two sides in parentheses")
        if token != "(":
            return Leaf(token)
        left, right = node(), node()
        if not tokens or tokens.pop(0) != ")":
            raise ValueError(f"{text!r} is not a plan: every join has two sides in parentheses")
        return Join(left, right)

    plan = node()
    if tokens:
        raise ValueError(f"{text!r} is not a plan: unread {' '.join(tokens)!r}")
    return plan


def _parse_probe(text: str) -> Probe:
    orders = tuple(tuple(order.split()) for order in text.removeprefix("[").removesuffix("]").split(","))
    everyone = sorted(order[0] for order in orders if order)
    if not text.endswith("]") or any(sorted(order) != everyone for order in orders):
        raise ValueError(f"{text!r} is not a plan: each reference needs an order of all of them")
    return Probe(orders)


def joins(plan: Plan) -> Iterator[Join]:
    """Join nodes of a tree, children before parents; a plan that probes has none."""
    if isinstance(plan, Join):
        yield from joins(plan.left)
        yield from joins(plan.right)
        yield plan


def default_plan(graph: JoinGraph) -> Plan:
    """Left-deep in the order of FROM, postponing cross products as long as something else is left."""
    first, *others = map(Leaf, _connected_order(graph, graph.aliases[0]))
    plan: Plan = first
    for other in others:
        plan = Join(plan, other)
    return plan


def default_probe(graph: JoinGraph) -> Probe:
    """The plan without intermediate states, in orders like that of the default plan.

    >>> str(default_probe(JoinGraph(("a", "b", "c"), (frozenset("ab"), frozenset("bc")), ())))
    '[a b c, b a c, c b a]'
    """
    return Probe(tuple(_connected_order(graph, alias) for alias in graph.aliases))


def probe_from(graph: JoinGraph, states: Sequence[str], first: str | None) -> Probe:
    """The plan without intermediate states in which a reference to some state has the lowest rank.

    Parameters
    ----------
    states
        What keeps the rows of each reference.
    first
        The state whose rows must not be met by other new rows; None if there is none.
    """
    orders = (_connected_order(graph, alias, by_predicates=True) for alias in graph.aliases)
    ranked = sorted(zip(states, orders, strict=True), key=lambda pair: pair[0] != first)
    return Probe(tuple(order for _, order in ranked))


def _connected_order(graph: JoinGraph, first: str, *, by_predicates: bool = False) -> tuple[str, ...]:
    """All references from the first on, by key or predicate as long as there is one.

    Parameters
    ----------
    by_predicates
        Whether of those with a key in common the ones come first that have other predicates, too.
    """
    order = [first]
    rest = [alias for alias in graph.aliases if alias != first]
    while rest:
        connected = [a for a in rest if graph.connected(order, (a,))]
        equi = [a for a in rest if graph.shared_classes(order, (a,))]
        both = [a for a in equi if by_predicates and graph.residuals_between(tuple(order), (a,))]
        order.append((both or equi or connected or rest)[0])
        rest.remove(order[-1])
    return tuple(order)


@functools.cache
def inner_states(text: str) -> frozenset[str]:
    """The intermediate states of a plan, each named by the aliases it covers.

    >>> sorted(inner_states("(((a b) c) d)"))
    ['a.b', 'a.b.c']
    """
    return frozenset(state_of_aliases(join.aliases) for join in joins(parse_plan(text))) - {
        state_of_aliases(parse_plan(text).aliases)
    }


def state_of_aliases(aliases: Iterable[str]) -> str:
    """The name of the state over some references, whatever the order in which they were joined."""
    return ".".join(sorted(aliases))

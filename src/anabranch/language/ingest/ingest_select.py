"""A SELECT at ingest, taken apart: what is computed, exploded, filtered and selected, all as Spark SQL."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from sqlglot import exp

from anabranch.language.expressions.types import Refusal
from anabranch.language.ingest.built_ins import BARE, GENERATORS
from anabranch.language.ingest.ingest_sql import HIDDEN, ingest_sql, quoted, refused_function
from anabranch.language.ingest.vector_column import selected_vector
from anabranch.language.syntax.source_text import SourceText, start_of
from anabranch.plan.ingest_select import Explosion, IngestSelect
from anabranch.plan.vectors import Vector

_PARTS = ("expressions", "where", "laterals")
_CLAUSES = {
    "from_": ("FROM", "leave it out: the SELECT reads the source of its stream"),
    "joins": ("JOIN", "declare the other source as a stream or table, and join it in a query"),
    "with_": ("WITH", "write the expressions into the SELECT"),
    "group": ("GROUP BY", "select the rows here, and group them in a CREATE QUERY"),
    "having": ("HAVING", "select the rows here, and group them in a CREATE QUERY"),
    "distinct": ("DISTINCT", "write SELECT DISTINCT in a CREATE QUERY"),
    "order": ("ORDER BY", "leave it out: a stream has no last row"),
    "limit": ("LIMIT", "leave it out, and filter in WHERE"),
    "hint": ("a hint", "leave it out"),
}


def read_ingest_select(select: exp.Expr, source: SourceText, columns: Iterable[str] = ()) -> IngestSelect:
    """Check a SELECT at ingest and render it.

    Parameters
    ----------
    columns
        Of the source, where they are known: `user` is a column where there is one, and a function elsewhere.

    Raises
    ------
    QueryError
        With line, column and a suggestion, at the first thing that must not be there.
    """
    for key, value in select.args.items():
        if value and key not in _PARTS:
            what, suggestion = _CLAUSES.get(key, (key.strip("_").upper(), "write SELECT … [WHERE …]"))
            place = value[0] if isinstance(value, list) else value
            place = place if isinstance(place, exp.Expr) else select
            raise source.error_at_keyword(
                place, what, f"{what} is not supported in a SELECT at ingest", suggestion
            )
    _without_view_names(select)
    _refuse_bare_functions(select, source, columns)
    taken = _Taken(source)
    before = tuple(_lateral(lateral, source) for lateral in select.args.get("laterals") or ())
    where = select.args.get("where")
    items = [(sql, start_of(node)) for node in select.expressions for sql in taken.item(node)]
    if not items:
        raise source.error(select, "SELECT has no columns", "name at least one")
    return IngestSelect(
        computed=tuple(taken.computed),
        before=before,
        where=ingest_sql(where.this, source) if where else None,
        after=tuple(taken.explosions),
        items=tuple(sql for sql, _ in items),
        starts=tuple(start for _, start in items),
        vectors=tuple(taken.vectors),
    )


def _without_view_names(select: exp.Expr) -> None:
    """`t.x` of `LATERAL VIEW … t AS x` is the column x: there is one row, with all columns in it."""
    aliases = [lateral.args.get("alias") for lateral in select.args.get("laterals") or ()]
    views = {
        alias.name.lower(): {c.name.lower() for c in alias.args["columns"]} for alias in aliases if alias
    }
    for column in select.find_all(exp.Column):
        names = [part.name.lower() for part in column.parts]
        if len(names) > 1 and names[1] in views.get(names[0], ()):
            column.set(("table", "db", "catalog")[len(names) - 2], None)


def _refuse_bare_functions(select: exp.Expr, source: SourceText, columns: Iterable[str]) -> None:
    """Refuse names that Spark would read as functions, for want of such a column."""
    known = {name.lower() for name in columns}
    for lateral in select.args.get("laterals") or ():
        alias = lateral.args.get("alias")
        known |= {c.name.lower() for c in alias.args.get("columns") or ()} if alias else set()
    for column in select.find_all(exp.Column):
        name = column.name.lower()
        if len(column.parts) == 1 and name in BARE and name not in known:
            refusal = refused_function(column.name)
            raise source.error(column, refusal.message, refusal.suggestion)


@dataclass(slots=True)
class _Taken:
    """What the SELECT list needs before it can be selected."""

    source: SourceText
    computed: list[tuple[str, str]] = field(default_factory=list)
    explosions: list[Explosion] = field(default_factory=list)
    vectors: list[Vector] = field(default_factory=list)

    def item(self, node: exp.Expr) -> list[str]:
        try:
            return self._item(node)
        except Refusal as refusal:
            raise self.source.error(node, refusal.message, refusal.suggestion) from None

    def _item(self, node: exp.Expr) -> list[str]:
        star = node if isinstance(node, exp.Star) else node.args.get("expression", node.args.get("this"))
        if isinstance(star, exp.Star) and any(star.args.values()):
            raise Refusal("* with EXCEPT, REPLACE or RENAME is not supported", "name the columns")
        if isinstance(node, exp.Star):
            return ["*"]
        if isinstance(node, exp.Column) and isinstance(node.this, exp.Star):
            return [".".join(map(quoted, node.parts[:-1])) + ".*"]
        if isinstance(node, exp.Dot) and isinstance(node.expression, exp.Star):
            # Spark's grammar has no `f(x).*`: the struct becomes a column first.
            name = f"{HIDDEN}struct_{len(self.computed)}"
            self.computed.append((name, ingest_sql(node.this, self.source)))
            return [f"`{name}`.*"]
        inner = node.this if isinstance(node, exp.Alias | exp.Aliases) else node
        if _is_generator(inner):
            return self._exploded(node, inner)
        if isinstance(node, exp.Aliases):
            raise Refusal("several names are for explode, posexplode and inline", "write AS and one name")
        if (vector := selected_vector(node)) is not None:
            self.vectors.append(vector)
        if isinstance(node, exp.Alias):
            return [f"{ingest_sql(inner, self.source)} AS {quoted(node.args['alias'])}"]
        if not isinstance(node, exp.Column):
            raise Refusal("this column has no name", "add AS and a name")
        return [ingest_sql(node, self.source)]

    def _exploded(self, node: exp.Expr, inner: exp.Expr) -> list[str]:
        if self.explosions:
            raise Refusal("a SELECT explodes one column", "explode the other with LATERAL VIEW")
        if isinstance(node, exp.Aliases):
            aliases = node.args["expressions"]
        else:
            aliases = [node.args["alias"]] if isinstance(node, exp.Alias) else []
        explosion = _explosion(inner, aliases, self.source)
        hidden = tuple(f"{HIDDEN}element_{i}" for i in range(len(aliases)))
        self.explosions.append(Explosion(explosion.function, explosion.argument, hidden, explosion.outer))
        return [f"`{h}` AS {quoted(a)}" for h, a in zip(hidden, aliases, strict=True)]


def _lateral(node: exp.Expr, source: SourceText) -> Explosion:
    alias = node.args.get("alias")
    names = list(alias.args.get("columns") or ()) if alias is not None else []
    if not node.args.get("view") or not _is_generator(node.this):
        raise source.error(
            node, "LATERAL takes explode, posexplode or inline", "write LATERAL VIEW explode(items) t AS item"
        )
    try:
        found = _explosion(node.this, names, source)
    except Refusal as refusal:
        raise source.error(node, refusal.message, refusal.suggestion) from None
    return Explosion(found.function, found.argument, found.names, found.outer or bool(node.args.get("outer")))


def _explosion(call: exp.Expr, aliases: list[exp.Expr], source: SourceText) -> Explosion:
    name = str(call.this).lower()
    if len(call.expressions) != 1:
        raise Refusal(f"{name} takes 1 argument, not {len(call.expressions)}", f"write {name}(items)")
    if not aliases:
        raise Refusal(f"the columns of {name} have no names", f"write {name}(items) AS item, or AS (a, b)")
    function = name.removesuffix("_outer")
    for alias in aliases:
        quoted(alias)
    return Explosion(
        function,
        ingest_sql(call.expressions[0], source),
        tuple(alias.name for alias in aliases),
        outer=function != name,
    )


def _is_generator(node: exp.Expr | None) -> bool:
    return isinstance(node, exp.Anonymous) and isinstance(node.this, str) and node.this.lower() in GENERATORS

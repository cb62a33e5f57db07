"""What a SELECT is taken apart into."""

from __future__ import annotations

import pytest

from anabranch.plan.logical import Field, Query
from tests.language.streams import bind

BOTH = "FROM orders [RANGE 1 HOUR] o, payments [NOW] p"


def classes(query: Query) -> list[tuple[str, dict[str, str]]]:
    return [(c.type, {member.alias: member.field.sql for member in c.members}) for c in query.classes]


def test_an_equality_of_two_streams_becomes_a_key_in_the_type_spark_compares_in() -> None:
    query = bind(f"SELECT o.id {BOTH} WHERE o.id = p.order_id")
    assert classes(query) == [("bigint", {"o": "`id`", "p": "CAST(`order_id` AS BIGINT)"})]
    assert query.residuals == ()
    assert [ref.filter for ref in query.refs] == [None, None]


@pytest.mark.parametrize(
    ("condition", "kind", "left", "right"),
    [
        ("o.customer = p.order_id", "bigint", "CAST(`customer` AS BIGINT)", "CAST(`order_id` AS BIGINT)"),
        ("o.id = p.paid", "double", "CAST(`id` AS DOUBLE)", "`paid`"),
        ("o.price = p.fee", "decimal(12,4)", "TRY_CAST(`price` AS DECIMAL(12,4))", "`fee`"),
        (
            "o.id = p.fee",
            "decimal(24,4)",
            "TRY_CAST(`id` AS DECIMAL(24,4))",
            "TRY_CAST(`fee` AS DECIMAL(24,4))",
        ),
        ("o.price = p.paid", "double", "CAST(`price` AS DOUBLE)", "`paid`"),
        ("o.name = p.name", "string", "`name`", "`name`"),
        ("o.ts = p.ts", "timestamp", "`ts`", "`ts`"),
        ("o.id + 1 = p.order_id", "bigint", "try_add(`id`, 1L)", "CAST(`order_id` AS BIGINT)"),
        (
            "CAST(o.customer AS BIGINT) = p.order_id",
            "bigint",
            "CAST(`customer` AS BIGINT)",
            "CAST(`order_id` AS BIGINT)",
        ),
        (
            "CAST(o.id AS INT) = CAST(p.order_id AS SMALLINT)",
            "bigint",
            "CAST(TRY_CAST(`id` AS INT) AS BIGINT)",
            "CAST(TRY_CAST(`order_id` AS SMALLINT) AS BIGINT)",
        ),
        ("p.name = o.name || 'x'", "string", "(`name` || 'x')", "`name`"),
        ("(o.id > 1) = (p.paid > 0)", "boolean", "(`id` > 1L)", "(`paid` > 0.0D)"),
    ],
)
def test_a_key_is_cast_to_the_type_of_its_class(condition: str, kind: str, left: str, right: str) -> None:
    query = bind(f"SELECT o.id {BOTH} WHERE {condition}")
    assert classes(query) == [(kind, {"o": left, "p": right})]


def test_float_keys_are_compared_as_double() -> None:
    query = bind("SELECT a.user FROM clicks [NOW] a, clicks [NOW] b WHERE a.score = b.score")
    assert classes(query) == [("double", {"a": "CAST(`score` AS DOUBLE)", "b": "CAST(`score` AS DOUBLE)"})]


def test_lengths_of_time_are_compared_as_microseconds() -> None:
    query = bind(
        "SELECT a.id FROM orders [NOW] a, orders [NOW] b WHERE a.ts - TIMESTAMP '1970-01-01' = b.ts - b.ts"
    )
    left, right = "try_subtract(unix_micros(`ts`), 0L)", "try_subtract(unix_micros(`ts`), unix_micros(`ts`))"
    assert classes(query) == [("bigint", {"a": left, "b": right})]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("price + NULL", "decimal(11,2)"),
        ("NULL - price", "decimal(11,2)"),
        ("price * NULL", "decimal(21,4)"),
        ("id + NULL", "bigint"),
        ("NULL * amount", "double"),
        ("id / NULL", "double"),
        ("price + coalesce(NULL, NULL)", "decimal(11,2)"),
    ],
)
def test_a_bare_null_in_a_sum_has_the_type_of_the_other_side(text: str, kind: str) -> None:
    assert bind(f"SELECT {text} AS x FROM orders").outputs[0].type == kind


@pytest.mark.parametrize("sign", ["", "-"])
@pytest.mark.parametrize("whole", [28, 29, 36])
def test_decimals_keep_all_their_digits(sign: str, whole: int) -> None:
    number = f"{'9' * whole}.12"
    query = bind(f"SELECT {sign}{number} AS x, CAST('{sign}{number}' AS DECIMAL(38,2)) AS y FROM orders")
    assert all(f"'{sign}{number}'" in field.sql for field in query.refs[0].fields)


def test_equalities_are_closed_under_transitivity() -> None:
    query = bind(
        "SELECT a.id FROM orders [NOW] a JOIN orders [NOW] b ON a.id = b.id"
        " JOIN payments [NOW] c ON b.id = c.order_id JOIN clicks [NOW] d ON d.page = a.name"
    )
    assert classes(query) == [
        ("bigint", {"a": "`id`", "b": "`id`", "c": "CAST(`order_id` AS BIGINT)"}),
        ("string", {"a": "`name`", "d": "`page`"}),
    ]


def test_one_column_compared_in_two_types_stands_in_two_classes() -> None:
    query = bind(
        "SELECT a.id FROM orders [NOW] a, payments [NOW] b, clicks [NOW] c"
        " WHERE a.id = b.paid AND a.id = c.user"
    )
    assert [kind for kind, _ in classes(query)] == ["double", "bigint"]


def test_a_second_key_of_one_stream_becomes_its_filter() -> None:
    query = bind(f"SELECT o.id {BOTH} WHERE o.id = p.order_id AND o.customer = p.order_id")
    assert classes(query) == [("bigint", {"o": "`id`", "p": "CAST(`order_id` AS BIGINT)"})]
    assert query.refs[0].filter == "(`id` = CAST(`customer` AS BIGINT))"


def test_conjuncts_of_one_stream_are_filters_whether_in_on_or_where() -> None:
    query = bind(
        "SELECT o.id FROM orders [NOW] o JOIN payments [NOW] p ON o.id = p.order_id AND o.name = 'x'"
        " WHERE o.amount > 1 AND (p.paid IS NULL OR p.name LIKE 'a%')"
    )
    assert query.refs[0].filter == "(`name` = 'x') AND (`amount` > 1.0D)"
    assert query.refs[1].filter == "((`paid` IS NULL) OR (`name` LIKE 'a%'))"


@pytest.mark.parametrize(
    ("condition", "sql"),
    [
        ("p.paid < o.amount", '("p.0" < "o.0")'),
        ("o.id = p.order_id OR o.name = p.name", '(("o.0" = "p.0") OR ("o.1" = "p.1"))'),
        ("o.amount + p.paid = 10", '(TRY("o.0" + "p.0") = CAST(\'10.0\' AS DOUBLE))'),
        ("o.id <=> p.order_id", '("o.0" IS NOT DISTINCT FROM "p.0")'),
        ("NOT o.id = p.order_id", '(NOT ("o.0" = "p.0"))'),
        ("p.ts BETWEEN o.ts AND o.ts + INTERVAL 5 MINUTES", None),
    ],
)
def test_what_spans_streams_and_is_no_equality_is_a_residual(condition: str, sql: str | None) -> None:
    query = bind(f"SELECT o.id {BOTH} WHERE {condition}")
    assert query.classes == ()
    assert all(residual.aliases == ("o", "p") for residual in query.residuals)
    # BETWEEN is two conjuncts.
    assert [r.sql for r in query.residuals] == [sql] if sql else len(query.residuals) == 2


@pytest.mark.parametrize(
    ("condition", "expected"),
    [("TRUE", None), ("1 = 0", "(1 = 0)"), ("NULL", "CAST(NULL AS BOOLEAN)"), ("FALSE", "FALSE")],
)
def test_constant_conditions_fold_away_or_filter_the_first_stream(
    condition: str, expected: str | None
) -> None:
    query = bind(f"SELECT o.id {BOTH} WHERE {condition}")
    assert [ref.filter for ref in query.refs] == [expected, None]


def test_fields_are_the_largest_expressions_of_one_stream_and_shared() -> None:
    query = bind(f"SELECT o.amount * 2 AS a, o.amount * 2 + p.paid AS b, o.AMOUNT * 2 AS c, p.paid {BOTH}")
    assert query.refs[0].fields == (Field("try_multiply(`amount`, 2.0D)", "double"),)
    assert query.refs[1].fields == (Field("`paid`", "double"),)
    assert [output.field for output in query.outputs] == [("o", 0), None, ("o", 0), ("p", 0)]
    assert query.outputs[1].sql == 'TRY("o.0" + "p.0")'


def test_one_stream_needs_no_window_and_computes_everything_at_ingest() -> None:
    query = bind("SELECT id, 1 AS one, amount + id AS total FROM orders WHERE id > 5")
    assert [output.field for output in query.outputs] == [("orders", 0), ("orders", 1), ("orders", 2)]
    assert query.refs[0].fields[2] == Field("try_add(`amount`, CAST(`id` AS DOUBLE))", "double")
    assert query.refs[0].window_us == 0


def test_names_ignore_case_and_results_keep_the_spelling_of_the_user() -> None:
    query = bind("SELECT O.ID, o.NaMe AS `My Name`, o.`odd ``name``` FROM Orders O WHERE O.Id = 1")
    assert [output.name for output in query.outputs] == ["ID", "My Name", "odd `name`"]
    assert [field.sql for field in query.refs[0].fields] == ["`id`", "`name`", "`Odd ``Name```"]
    assert (query.refs[0].alias, query.refs[0].stream) == ("o", "orders")


def test_a_star_takes_all_columns_in_the_order_of_from() -> None:
    query = bind("SELECT p.*, c.user FROM payments [NOW] p, clicks [NOW] c")
    assert [o.name for o in query.outputs] == ["order_id", "paid", "fee", "name", "day", "ts", "user"]
    assert [o.name for o in bind("SELECT * FROM clicks").outputs] == ["user", "page", "score", "ts"]


def test_a_stream_joins_itself_under_two_names() -> None:
    query = bind("SELECT a.user FROM clicks [RANGE 1 DAY] a, clicks [NOW] b WHERE a.user = b.user")
    assert [(ref.alias, ref.stream) for ref in query.refs] == [("a", "clicks"), ("b", "clicks")]


def test_text_with_quotes_and_backslashes_cannot_change_its_meaning_on_the_way_to_spark() -> None:
    query = bind(r"SELECT id FROM orders WHERE name = 'it\'s \\ \n'")
    assert query.refs[0].filter == "(`name` = CAST(X'69742773205C200A' AS STRING))"


def test_binding_twice_gives_equal_queries() -> None:
    text = f"SELECT o.id, p.paid {BOTH} WHERE o.id = p.order_id AND p.paid < o.amount"
    assert bind(text) == bind(text)


@pytest.mark.parametrize("word", ["AND", "OR"])
def test_a_chain_of_thousands_of_conditions_is_bound(word: str) -> None:
    chain = f" {word} ".join(f"id <> {n}" for n in range(5_000))
    query = bind(f"SELECT id FROM orders WHERE NOT ({chain})")
    assert str(query.refs[0].filter).count(f" {word} ") == 4_999
    assert str(query.refs[0].filter).startswith(f"(NOT ((`id` <> 0L) {word} (`id` <> 1L) {word} ")


def test_a_chain_over_two_streams_is_bound() -> None:
    chain = " OR ".join(f"o.customer + p.order_id = {n}" for n in range(1_000))
    query = bind(f"SELECT o.id {BOTH} WHERE {chain}")
    assert query.residuals[0].sql.count(" OR ") == 999

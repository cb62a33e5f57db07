"""Spark's built-in functions: which of them a SELECT at ingest may call, and why not the others.

Listed are those of Spark 4.3, family by family; a test compares the lists with Spark's own, so that a
function of a newer version is seen and put where it belongs. A function that is missing here is refused: it
may be one that somebody has registered, and run any code.
"""

from __future__ import annotations


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


FAMILIES = {
    "string": """
        ascii base64 bit_length btrim char char_length character_length chr concat_ws contains
        decode elt encode endswith find_in_set format_number format_string from_base32 initcap instr
        is_valid_utf8 jaro_winkler_similarity lcase left len length levenshtein locate lower lpad
        ltrim luhn_check make_valid_utf8 mask octet_length overlay position printf quote
        regexp_count regexp_extract regexp_extract_all regexp_instr regexp_replace regexp_substr
        repeat replace right rpad rtrim sentences soundex space split split_part startswith substr
        substring substring_index to_base32 to_char to_varchar translate trim
        try_to_binary try_to_number try_validate_utf8 ucase upper
    """,
    "datetime": """
        add_months convert_timezone date_add date_diff date_format date_from_unix_date date_part
        date_sub date_trunc dateadd datediff datepart day dayname dayofmonth dayofweek dayofyear
        extract from_unixtime from_utc_timestamp hour last_day make_date make_dt_interval
        make_interval make_time make_timestamp make_timestamp_ltz make_timestamp_ntz
        make_ym_interval minute month monthname months_between next_day quarter second time_bucket
        time_diff time_from_micros time_from_millis time_from_seconds time_to_micros time_to_millis
        time_to_seconds time_trunc timestamp_micros timestamp_millis timestamp_nanos
        timestamp_seconds to_date to_time to_timestamp to_timestamp_ltz to_timestamp_ntz
        to_unix_timestamp to_utc_timestamp trunc try_make_interval try_make_timestamp
        try_make_timestamp_ltz try_make_timestamp_ntz try_to_date try_to_time try_to_timestamp
        unix_date unix_micros unix_millis unix_nanos unix_seconds unix_timestamp weekday weekofyear
        year
    """,
    "math": """
        abs acos acosh asin asinh atan atan2 atanh bin bround cbrt ceil ceiling conv cos cosh cot
        csc degrees e exp expm1 factorial floor greatest hex hypot least ln log log10 log1p log2 mod
        negative pi pmod positive pow power radians rint round sec sign signum sin sinh sqrt tan
        tanh try_add try_divide try_mod try_multiply try_subtract unhex width_bucket
    """,
    "array": """
        array array_append array_compact array_contains array_distinct array_except array_insert
        array_intersect array_join array_max array_min array_position array_prepend array_remove
        array_repeat array_size array_union arrays_overlap arrays_zip flatten get sequence slice
        sort_array
    """,
    "map": """
        map map_concat map_contains_key map_entries map_from_arrays map_from_entries map_keys
        map_values str_to_map
    """,
    "struct": """
        named_struct struct
    """,
    "collection": """
        cardinality concat element_at reverse size try_element_at
    """,
    "lambda": """
        aggregate array_sort exists filter forall map_filter map_zip_with reduce transform
        transform_keys transform_values zip_with
    """,
    "json": """
        from_json get_json_object json_array_length json_object_keys schema_of_json
        to_json
    """,
    "csv": """
        from_csv schema_of_csv to_csv
    """,
    "avro": """
        from_avro schema_of_avro to_avro
    """,
    "xml": """
        schema_of_xml to_xml
    """,
    "variant": """
        is_valid_variant is_variant_null schema_of_variant to_variant_object
        try_parse_json try_variant_array_append try_variant_get try_variant_insert try_variant_set
        variant_delete variant_strip_nulls
    """,
    "conditional": """
        coalesce if ifnull nanvl nullif nullifzero nvl nvl2 zeroifnull
    """,
    "predicate": """
        equal_null ilike isnan isnotnull isnull regexp regexp_like rlike
    """,
    "conversion": """
        bigint binary boolean date decimal double float int smallint string time timestamp tinyint
    """,
    "bitwise": """
        bit_count bit_get getbit shiftleft shiftright shiftrightunsigned
    """,
    "hash": """
        crc32 hash md5 sha sha1 sha2 xxhash64
    """,
    "url": """
        parse_url try_parse_url try_url_decode url_encode
    """,
    "misc": """
         bitmap_bit_position bitmap_bucket_number bitmap_count hmac try_aes_decrypt
        typeof
    """,
    "vector": """
        vector_avg vector_cosine_similarity vector_inner_product vector_l2_distance vector_norm
        vector_normalize vector_sum
    """,
    "st": """
        st_asbinary st_geogfromwkb st_geomfromwkb st_setsrid st_srid
    """,
    "sketch": """
        approx_top_k_estimate hll_sketch_estimate hll_union kll_sketch_get_n_bigint
        kll_sketch_get_n_double kll_sketch_get_n_float kll_sketch_get_quantile_bigint
        kll_sketch_get_quantile_double kll_sketch_get_quantile_float kll_sketch_get_rank_bigint
        kll_sketch_get_rank_double kll_sketch_get_rank_float kll_sketch_merge_bigint
        kll_sketch_merge_double kll_sketch_merge_float kll_sketch_to_string_bigint
        kll_sketch_to_string_double kll_sketch_to_string_float theta_difference theta_intersection
        theta_sketch_estimate theta_union tuple_difference_double tuple_difference_integer
        tuple_difference_theta_double tuple_difference_theta_integer tuple_intersection_double
        tuple_intersection_integer tuple_intersection_theta_double tuple_intersection_theta_integer
        tuple_sketch_estimate_double tuple_sketch_estimate_integer tuple_sketch_summary_double
        tuple_sketch_summary_integer tuple_sketch_theta_double tuple_sketch_theta_integer
        tuple_union_double tuple_union_integer tuple_union_theta_double tuple_union_theta_integer
    """,
}
DETERMINISTIC = _names(" ".join(FAMILIES.values()))
"""What may be called: the value of a row depends on that row alone."""
GENERATORS = frozenset(
    {"explode", "explode_outer", "posexplode", "posexplode_outer", "inline", "inline_outer"}
)
"""Functions that make rows of one row, one of them in a SELECT."""
AGGREGATES = _names(
    """
    any any_value approx_count_distinct approx_percentile approx_top_k approx_top_k_accumulate
    approx_top_k_combine array_agg avg bit_and bit_or bit_xor bitmap_and_agg bitmap_construct_agg
    bitmap_or_agg bool_and bool_or collect_list collect_set collect_union corr count count_if
    count_min_sketch covar_pop covar_samp every first first_value grouping grouping_id histogram_numeric
    hll_sketch_agg hll_union_agg kll_merge_agg_bigint kll_merge_agg_double kll_merge_agg_float
    kll_sketch_agg_bigint kll_sketch_agg_double kll_sketch_agg_float kurtosis last last_value listagg
    max max_by mean measure median min min_by mode percentile percentile_approx percentile_cont
    percentile_disc regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope regr_sxx regr_sxy
    regr_syy schema_of_variant_agg skewness some std stddev stddev_pop stddev_samp string_agg sum
    theta_intersection_agg theta_sketch_agg theta_union_agg try_avg try_sum
    tuple_intersection_agg_double tuple_intersection_agg_integer tuple_sketch_agg_double
    tuple_sketch_agg_integer tuple_union_agg_double tuple_union_agg_integer var_pop var_samp variance
    """
)
RANKINGS = _names(
    """
    counter_diff cume_dist dense_rank lag lead nth_value ntile percent_rank rank row_number
    """
)
_BY_QUERY = "select the rows here, and group them in a CREATE QUERY"
_CODE = ("it calls any method of Java", "use the built-in functions, or give a DataFrame to session.stream")
_RANDOM = (
    "it gives another value each time, so that a replay would differ",
    "let the source bring the value",
)
_CLOCK = (
    "it follows the clock, so that a replay would differ",
    "use a time that the source brings",
)
_ENVIRONMENT = ("it depends on where it runs, not on the row", "leave it out")
_FAILS = ("one bad row would stop the stream", "write a condition behind WHERE")
_WINDOW = ("windows belong to queries", "write GROUP BY window(ts, '5 minutes') in a CREATE QUERY")
_READS_FILES = ("it may read files that a row or an option names", "give a DataFrame to session.stream")

REFUSED: dict[str, tuple[str, str]] = {
    **dict.fromkeys(_names("reflect java_method try_reflect"), _CODE),
    **dict.fromkeys(_names("rand randn random uniform randstr shuffle uuid"), _RANDOM),
    "monotonically_increasing_id": _RANDOM,
    "aes_encrypt": _RANDOM,
    **dict.fromkeys(
        _names("current_date curdate current_time current_timestamp now localtime localtimestamp"),
        _CLOCK,
    ),
    **dict.fromkeys(
        _names("current_timezone current_catalog current_database current_path current_schema"),
        _ENVIRONMENT,
    ),
    **dict.fromkeys(_names("current_user session_user user version spark_partition_id"), _ENVIRONMENT),
    **dict.fromkeys(_names("input_file_name input_file_block_start input_file_block_length"), _ENVIRONMENT),
    **dict.fromkeys(_names("raise_error assert_true validate_utf8"), _FAILS),
    **{
        name: (_FAILS[0], f"write try_{name}")
        for name in _names(
            "aes_decrypt url_decode parse_json to_number to_binary "
            "variant_get variant_insert variant_set variant_array_append"
        )
    },
    "unbase64": (_FAILS[0], "write try_to_binary(text, 'base64')"),
    **dict.fromkeys(_names("window session_window window_time"), _WINDOW),
    **dict.fromkeys(_names("from_protobuf to_protobuf from_xml"), _READS_FILES),
    **dict.fromkeys(
        _names(
            "xpath xpath_boolean xpath_double xpath_float xpath_int "
            "xpath_long xpath_number xpath_short xpath_string"
        ),
        _READS_FILES,
    ),
    "json_tuple": ("it makes several columns at once", "write from_json(text, 'a STRING, b STRING').*"),
    "stack": ("it makes rows of one row in a way of its own", "write explode(array(…))"),
    "collate": ("collated strings are not supported", "compare the strings as they are"),
    "collation": ("collated strings are not supported", "leave it out"),
    **dict.fromkeys(AGGREGATES, ("an aggregate needs many rows", _BY_QUERY)),
    **dict.fromkeys(RANKINGS, ("a window function needs many rows", _BY_QUERY)),
}
"""Why a built-in function is not for a SELECT at ingest, and what to do instead."""
WORDS = _names("cast and or not in like between when div")
"""Functions of Spark that are syntax here."""
BARE = _names(
    """
    current_catalog current_database current_date current_path current_schema current_time current_timestamp
    current_user grouping__id localtime localtimestamp now session_user user curdate current_timezone
    """
)
"""Names that Spark reads as functions where there is no such column."""

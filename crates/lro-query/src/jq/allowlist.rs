//! The allowlist of functions that a filter may call.
//!
//! It is an allowlist so that a native function that a newer jaq adds is unavailable until it has been
//! reviewed. Definitions can only call native functions, so restricting these is sufficient.

use jaq_core::load::parse::Def;
use jaq_core::native::Fun;
use jaq_core::{DataT, Native};

/// The native functions of jaq that only compute.
const NATIVE_FUNCTIONS: &[&str] = &[
    // jaq-core
    "error_empty",
    "path",
    "path_value",
    "range",
    "keys_unsorted",
    "key_values",
    "first",
    "last",
    "limit",
    "skip",
    // jaq-std
    "floor",
    "round",
    "ceil",
    "utf8bytelength",
    "explode",
    "implode",
    "ascii_downcase",
    "ascii_upcase",
    "reverse",
    "sort",
    "sort_by",
    "group_by",
    "min_by_or_empty",
    "max_by_or_empty",
    "startswith",
    "endswith",
    "ltrimstr",
    "rtrimstr",
    "trim",
    "ltrim",
    "rtrim",
    "escape_sh",
    "escape_html",
    "unescape_html",
    "encode_uri",
    "decode_uri",
    "encode_base64",
    "decode_base64",
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "cbrt",
    "cos",
    "cosh",
    "erf",
    "erfc",
    "exp",
    "exp10",
    "exp2",
    "expm1",
    "fabs",
    "frexp",
    "ilogb",
    "j0",
    "j1",
    "lgamma",
    "log",
    "log10",
    "log1p",
    "log2",
    "modf",
    "nearbyint",
    "rint",
    "sin",
    "sinh",
    "sqrt",
    "tan",
    "tanh",
    "tgamma",
    "trunc",
    "y0",
    "y1",
    "atan2",
    "copysign",
    "fdim",
    "fmax",
    "fmin",
    "fmod",
    "hypot",
    "jn",
    "ldexp",
    "nextafter",
    "pow",
    "remainder",
    "scalbln",
    "yn",
    "fma",
    "fromdateiso8601",
    "todateiso8601",
    "strftime",
    "gmtime",
    "strptime",
    "mktime",
    // jaq-json
    "fromjson",
    "tojson",
    "tobytes",
    "length",
    "contains",
    "has",
    "indices",
    "bsearch",
];

/// Native functions that the prelude wraps under their original name, with their new name.
const RENAMED: &[(&str, &str)] = &[("ltrimstr", "strip_prefix"), ("rtrimstr", "strip_suffix")];

/// Definitions of jaq that call unavailable functions, or that the prelude replaces.
const EXCLUDED_DEFINITIONS: &[&str] = &[
    "stderr",
    "debug",
    "halt",
    "halt_error",
    "capture_of_match",
    "test",
    "scan_",
    "match",
    "capture",
    "scan",
    "split",
    "splits",
    "sub",
    "gsub",
    "setpath",
    "from_entries",
    "with_entries",
];

/// Names known from jq that are deliberately unavailable.
const REFUSED: &[&str] = &[
    "env",
    "$ENV",
    "halt",
    "halt_error",
    "input",
    "inputs",
    "input_filename",
    "input_line_number",
    "debug",
    "stderr",
    "now",
    "localtime",
    "strflocaltime",
    "get_search_list",
    "$__prog_args",
    "$__loc__",
    "modulemeta",
];

/// The available native functions, under their new names.
pub(super) fn natives<D>() -> impl Iterator<Item = Fun<D>>
where
    D: for<'a> DataT<V<'a> = jaq_json::Val>,
{
    let all = jaq_core::funs::<D>().chain(jaq_std::funs::<D>()).chain(jaq_json::funs::<D>());
    all.filter(|(name, ..)| NATIVE_FUNCTIONS.contains(name)).map(|(name, args, run): Fun<D>| {
        let renamed = RENAMED.iter().find(|(from, _)| *from == name);
        let run: Native<D> = run;
        (renamed.map_or(name, |(_, to)| to), args, run)
    })
}

/// The available definitions.
pub(super) fn definitions() -> impl Iterator<Item = Def<&'static str>> {
    let all = jaq_core::defs().chain(jaq_std::defs()).chain(jaq_json::defs());
    // `split/1` on a plain string needs no regular expression.
    all.filter(|def| {
        !EXCLUDED_DEFINITIONS.contains(&def.name) || (def.name == "split" && def.args.len() == 1)
    })
}

/// Whether the name is deliberately unavailable.
pub(super) fn is_refused(name: &str) -> bool {
    REFUSED.contains(&name)
}

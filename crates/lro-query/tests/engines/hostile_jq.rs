//! Hostile filters: the parent survives all of them.

use lro_query::ErrorClass::{Depth, Memory, Output, Runtime, Syntax, Time};
use lro_query::{QueryRequest, jq};

use crate::fixture::Records;
use crate::hostile::{Battery, Fate, SECRET};

use Fate::{Answers, Bounded, Either, Ends};

const GONE: Fate = Either(&[Time, Memory, Depth]);

#[rustfmt::skip]
pub(crate) const FILTERS: &[(&str, Fate)] = &[
    // Recursion
    ("def f: f; f", GONE),
    ("def f: f | f; f", Ends(Depth)),
    ("def f: 1 + f; f", Ends(Depth)),
    ("def f: [f]; f", Ends(Depth)),
    ("def f(x): f(x | x); f(.)", GONE),
    ("def f: {a: f}; f", Ends(Depth)),
    ("def f: (f, 1) | .; f", Ends(Depth)),
    ("def a: b_; def b_: 1; def c: [c[]]; c", Ends(Syntax)),
    ("def g: g as $x | $x; g", Ends(Depth)),
    ("[recurse(. ; true)] | length", GONE),
    ("recurse(.) | empty", GONE),
    ("def f: path(f); f", Either(&[Depth, Runtime])),
    ("def f: try f catch f; f", Ends(Depth)),
    // Endless generators
    ("repeat(1)", Answers),
    ("repeat(.)", Answers),
    ("[repeat(1)]", GONE),
    ("range(1; infinite)", Answers),
    ("[range(1e12)] | length", GONE),
    ("last(range(1e15))", Ends(Time)),
    ("until(false; . )", Ends(Time)),
    ("[limit(1e12; repeat(\"x\"))] | length", GONE),
    ("reduce range(1e15) as $i (0; . + 1)", Ends(Time)),
    ("foreach range(1e15) as $i (0; . + 1; empty)", Ends(Time)),
    ("while(true; .) | empty", Ends(Time)),
    ("first(repeat(empty))", GONE),
    ("label $x | repeat(empty)", GONE),
    ("isempty(repeat(empty))", GONE),
    ("any(repeat(false); .)", GONE),
    // Huge values
    ("\"a\" * 3e9", Either(&[Memory, Runtime, Output])),
    ("\"a\" * 3000000000", Ends(Memory)),
    ("\"a\" * 9223372036854775807", Ends(Memory)),
    ("\"abcdefgh\" * 20000000 | length", Bounded),
    ("[\"a\" * 100000000, \"b\" * 100000000, \"c\" * 100000000, \"d\" * 100000000, \"e\" * 100000000] | length", GONE),
    ("reduce range(100) as $i (\"a\"; . + .)", GONE),
    ("reduce range(100) as $i ([1]; . + .)", GONE),
    ("[range(100000000)]", GONE),
    ("[limit(40; repeat(1))] | combinations(40)", Bounded),
    ("\"x\" * 100000000 | explode | length", GONE),
    ("\"x\" * 50000000 | split(\"\") | length", GONE),
    ("\"x,\" * 100000000 | split(\",\") | length", GONE),
    ("\"x\" * 200000000 | @base64 | @base64 | length", GONE),
    ("setpath([99999999999]; 1)", Ends(Runtime)),
    ("[] | setpath([1000000]; 1) | length", Bounded),
    ("[][9223372036854775807] = 1", Ends(Runtime)),
    ("{} | reduce range(1e9) as $i (.; .[\"k\\($i)\"] = $i) | length", GONE),
    // Deep values
    ("reduce range(1000000) as $i (null; [.])", GONE),
    ("reduce range(1000000) as $i (null; {a: .}) | tojson | length", GONE),
    ("\"[\" * 1000000 | fromjson", GONE),
    ("(\"[\" * 200000) + (\"]\" * 200000) | fromjson | flatten", GONE),
    ("[range(100000)] | reduce .[] as $x (0; [., $x]) | tostream | empty", GONE),
    // Work with large numbers
    ("reduce range(100) as $i (3; . * .) | tostring | length", GONE),
    ("reduce range(1000000) as $i (7; . * 1000000007) | tostring | length", GONE),
    ("\"9\" * 20000000 | tonumber", GONE),
    ("1e1000 | tostring", Answers),
    ("[range(0; 1; 1e-300)] | length", GONE),
    // Regular expressions
    ("\"a\" * 30 + \"b\" | test(\"(a*)*$\")", Answers),
    ("\"a\" * 100000 | test(\"(a|aa)+$\")", Answers),
    ("\"a\" * 1000000 | [match(\"a*?b\"; \"g\")] | length", Bounded),
    ("test(\"\\\\w{1000}{1000}\")", Ends(Runtime)),
    ("\"x\" | test(\"(\" * 100000)", Ends(Runtime)),
    ("\"x\" | test(\"((((((((((a{50}){50}){50}){50}\")", Ends(Runtime)),
    ("\"a\" * 10000000 | gsub(\"\"; \"bbbbbbbbbb\") | length", GONE),
    ("\"a\" | test(\"(?=a)\")", Ends(Runtime)),
    ("\"a\" | test(\"(a)\\\\1\")", Ends(Runtime)),
    ("range(1e9) | tostring as $p | \"x\" | test($p) | empty", Ends(Time)),
    // Access to the outside
    ("env", Ends(Syntax)),
    ("$ENV", Ends(Syntax)),
    ("$ENV.LRO_TEST_SECRET", Ends(Syntax)),
    ("env.LRO_TEST_SECRET", Ends(Syntax)),
    ("input", Ends(Syntax)),
    ("[inputs]", Ends(Syntax)),
    ("input_filename", Ends(Syntax)),
    ("debug", Ends(Syntax)),
    ("debug(\"x\")", Ends(Syntax)),
    ("stderr", Ends(Syntax)),
    ("halt", Ends(Syntax)),
    ("halt_error", Ends(Syntax)),
    ("\"x\" | halt_error(1)", Ends(Syntax)),
    ("now", Ends(Syntax)),
    ("localtime", Ends(Syntax)),
    ("import \"a\" as a; .", Ends(Syntax)),
    ("import \"secret\" as $x; $x", Ends(Syntax)),
    ("import \"/etc/passwd\" as $x; $x::x", Ends(Syntax)),
    ("include \"a\"; .", Ends(Syntax)),
    ("import \"FILE\" as $x; $x", Ends(Syntax)),
    ("include \"FILE\"; .", Ends(Syntax)),
    ("\"FILE\" | input_filename", Ends(Syntax)),
    ("input(\"FILE\")", Ends(Syntax)),
    ("$__loc__", Bounded),
    ("getpath([\"FILE\"])", Answers),
    ("\"FILE\" | @sh", Answers),
    ("[splits(\"FILE\")]", Ends(Runtime)),
    ("ltrimstr(\"FILE\") | .LRO_TEST_SECRET", Answers),
    ("get_search_list | .[0]", Ends(Syntax)),
    ("\"LRO_TEST_SECRET\" | env[.]", Ends(Syntax)),
    ("include \"a\" {search: \"/tmp\"}; .", Ends(Syntax)),
    ("modulemeta", Ends(Syntax)),
    ("$__prog_args", Ends(Syntax)),
    ("debug_empty", Ends(Syntax)),
    ("stderr_empty", Ends(Syntax)),
    ("get_search_list", Ends(Syntax)),
    ("input_line_number", Ends(Syntax)),
    ("@env", Ends(Syntax)),
    ("\"/proc/self/environ\" | @text", Answers),
    // Invalid filters
    ("", Ends(Syntax)),
    ("{", Ends(Syntax)),
    ("\"\\u{110000}\"", Ends(Syntax)),
    ("\u{0}", Ends(Syntax)),
    ("\u{202e}.", Ends(Syntax)),
    ("💣", Ends(Syntax)),
    ("{(1): 2}", Ends(Runtime)),
    ("error(\"x\" * 1000000)", Ends(Runtime)),
    ("error(null)", Ends(Runtime)),
    ("break $x", Ends(Syntax)),
    ("limit(-1; repeat(1))", Answers),
];

#[test]
fn n5_hostile_filters_end_in_time_and_leave_the_parent_alone() {
    Battery::run(
        "hostile_jq::n5_hostile_filters_end_in_time_and_leave_the_parent_alone",
        100,
        |battery| {
            let records = Records::memories(2);
            let file = battery.secret_file();
            for (filter, fate) in FILTERS {
                let filter = filter.replace("FILE", &file);
                let query = jq::JqQuery::each(&filter);
                battery.try_one(&QueryRequest::jq(&query, records.source()), &filter, *fate);
            }
        },
    );
}

#[test]
fn n5_filters_that_are_only_nested_end_too() {
    Battery::run("hostile_jq::n5_filters_that_are_only_nested_end_too", 10, |battery| {
        let records = Records::memories(2);
        let deep =
            |open: &str, close: &str, n: usize| format!("{}.{}", open.repeat(n), close.repeat(n));
        for (filter, fate) in [
            (deep("[", "]", 4000), Either(&[Depth, Syntax, Memory])),
            (deep("(", ")", 4000), Either(&[Depth, Syntax])),
            (deep("{a:", "}", 2000), Either(&[Depth, Syntax, Memory])),
            ("-".repeat(8000), Either(&[Depth, Syntax])),
            (format!("{}.", ".|".repeat(4000)), Either(&[Depth, Time])),
            (format!("{}.", "def f: ".repeat(1000)), Ends(Syntax)),
            (format!("{}1", "1+".repeat(4000)), Either(&[Depth])),
            (format!("\"{}\"", "\\(".repeat(3000)), Either(&[Depth, Syntax])),
            ("if ".repeat(2700), Either(&[Depth, Syntax])),
            ("x".repeat(9000), Ends(Syntax)),
        ] {
            let query = jq::JqQuery::each(filter.clone());
            let what = format!("{}… ({} bytes)", &filter[..20], filter.len());
            let ask = QueryRequest::jq(&query, records.source());
            let result = crate::fixture::run(&ask);
            // Some nestings are valid; then the answer is small.
            if result.is_err() {
                battery.try_one(&ask, &what, fate);
            } else {
                battery.try_one(&ask, &what, Answers);
            }
        }
    });
}

#[test]
fn f39_hostile_records_do_no_harm_either() {
    Battery::run("hostile_jq::f39_hostile_records_do_no_harm_either", 10, |battery| {
        let deep = format!("{}{}\n", "[".repeat(500_000), "]".repeat(500_000));
        for (text, fate) in [
            (deep.as_str(), Ends(Runtime)),
            ("{\"a\":\n", Ends(Runtime)),
            ("\u{feff}{}\n", Ends(Runtime)),
            ("nul\n", Ends(Runtime)),
            ("1e999999999\n", Answers),
            ("{\"a\":1,\"a\":2}\n", Answers),
            ("\"\\ud800\"\n", Answers),
            ("", Answers),
        ] {
            let records = Records::new(text);
            let query = jq::JqQuery::each("..");
            battery.try_one(
                &QueryRequest::jq(&query, records.source()),
                &text[..text.len().min(20)],
                fate,
            );
        }
        let records = Records::new(&b"{\"a\":\"\xff\xfe\"}\n"[..]);
        let query = jq::JqQuery::each(".");
        battery.try_one(&QueryRequest::jq(&query, records.source()), "not UTF-8", Ends(Runtime));
        let records = Records::memories(1);
        let query = jq::JqQuery::each("$secret").with("secret", &SECRET[..4]).unwrap();
        battery.try_one(&QueryRequest::jq(&query, records.source()), "a parameter", Answers);
    });
}

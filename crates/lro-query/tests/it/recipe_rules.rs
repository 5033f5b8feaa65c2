//! Pages, parameters and errors of recipes.

use std::ops::ControlFlow;
use std::time::Instant;

use lro_core::Detail;
use lro_query::recipe::{RecipeError, RecipeNumber, RecipeParams, RecipeQuery};
use lro_query::{Bytes, Page, PatternError, Rest, Total};

use crate::recipes::ask;
use crate::records::Set;

fn question(number: u64, detail: Detail, name: &str, value: &str) -> RecipeQuery {
    let mut params = RecipeParams::default();
    params.set(name, value).unwrap();
    RecipeQuery::new(RecipeNumber::new(number).unwrap(), detail, params).unwrap()
}

fn some_memories() -> Set {
    Set::stored(&testkit::corpus::lines(
        &testkit::corpus::memories(5000, 7),
        mif::DetailLevel::Full,
    ))
}

#[test]
fn n2_the_header_is_no_record_and_records_keep_their_lexemes() {
    let record = r#"{"id":"1","memory_type":"semantic","created":"2026","title":"\u0041","n":1.50e+2,"n":12345678901234567890}"#;
    let set = Set::stored(&[record.to_owned()]);
    for number in [3, 5, 8, 9] {
        let name = if number == 3 { "keyword" } else { "tag" };
        let (answers, ran) = ask(&set, &question(number, Detail::Medium, name, "a"));
        assert_eq!((answers, ran.records), (vec![record.to_owned()], 1), "recipe {number}");
    }
    let (answers, _) = ask(&set, &question(4, Detail::Light, "tag", ""));
    assert_eq!(answers, [r#"{"id":"1","title":"\u0041","namespace":null}"#]);
}

#[test]
fn n3_parameters_are_data() {
    let hostile =
        [r#"") | env | ("#, r#""; halt; ""#, "$ENV", "\\(env)", "'; touch x; '", "\u{0}\n"];
    for text in hostile {
        let written = serde_json::to_string(text).unwrap();
        let record = format!(
            r#"{{"id":"1","memory_type":{written},"created":"2026","namespace":{written},"tags":["x",{written}]}}"#
        );
        let set = Set::stored(&[record, r#"{"id":"2","tags":[]}"#.to_owned()]);
        for (number, name) in [(2, "namespace"), (5, "memory_type"), (7, "tag")] {
            let (answers, ran) = ask(&set, &question(number, Detail::Light, name, text));
            assert_eq!((answers.len(), ran.records), (1, 2), "recipe {number}: {text}");
        }
    }
}

#[test]
fn n3_unknown_parameters_and_numbers_are_named() {
    let mut params = RecipeParams::default();
    let error = params.set("colour", "red").unwrap_err();
    assert!(error.hint().unwrap().contains("namespace, keyword, memory_type, tag"));
    for number in [0, 11, 266, u64::MAX] {
        assert!(
            matches!(RecipeNumber::new(number), Err(RecipeError::UnknownNumber { .. })),
            "{number}"
        );
    }
}

#[test]
fn every_recipe_says_its_parameter() {
    let named = |detail| {
        (1..=10)
            .filter_map(|n| Some((n, RecipeNumber::new(n).unwrap().param(detail)?)))
            .collect::<Vec<_>>()
    };
    let light = [(2, "namespace"), (3, "keyword"), (5, "memory_type"), (7, "tag")];
    assert_eq!(named(Detail::Light), light);
    assert_eq!(named(Detail::Full), [&light[..], &[(10, "keyword")]].concat());
}

#[test]
fn pages_are_cut_from_the_whole_and_the_total_stays() {
    let set = some_memories();
    for (number, detail) in [
        (1, Detail::Light),
        (2, Detail::Light),
        (6, Detail::Full),
        (8, Detail::Full),
        (9, Detail::Full),
    ] {
        let (all, ran) = ask(&set, &question(number, detail, "namespace", "_semantic"));
        assert_eq!(ran.total, Total::Exactly(all.len() as u64));
        for page in [
            Page { offset: 0, limit: 0 },
            Page { offset: 0, limit: 3 },
            Page { offset: 2, limit: 5 },
            Page { offset: all.len() as u64 - 1, limit: 10 },
            Page { offset: 100_000, limit: 10 },
            Page { offset: 1, limit: u64::MAX },
        ] {
            let asked = question(number, detail, "namespace", "_semantic").page(page);
            let (some, ran) = ask(&set, &asked);
            let offset = usize::try_from(page.offset).unwrap();
            let limit = usize::try_from(page.limit).unwrap_or(usize::MAX);
            let expected: Vec<_> = all.iter().skip(offset).take(limit).cloned().collect();
            assert!(some == expected, "recipe {number}, {page:?}");
            assert_eq!(ran.total, Total::Exactly(all.len() as u64), "recipe {number}, {page:?}");
            assert_eq!(ran.returned, some.len() as u64);
        }
    }
}

#[test]
fn a_receiver_that_has_enough_can_have_the_rest_counted_or_left() {
    let (file, begin) = some_memories().file();
    for number in [1, 6, 8] {
        let run = |rest| {
            let mut given = 0;
            let asked = question(number, Detail::Full, "tag", "");
            let ran = asked.run(&Bytes(&file), begin, &mut |_| {
                given += 1;
                if given == 2 { ControlFlow::Break(rest) } else { ControlFlow::Continue(()) }
            });
            assert_eq!(given, 2);
            ran.unwrap().total
        };
        assert_eq!(run(Rest::Leave), Total::AtLeast(2));
        assert!(matches!(run(Rest::Count), Total::Exactly(10..)), "recipe {number}");
    }
}

#[test]
fn keywords_that_no_linear_engine_takes_are_refused_with_a_hint() {
    for (keyword, expected) in [
        ("(?=x)", PatternError::LookAround),
        (r"(a)\1", PatternError::BackReference),
        (r"\w{999}{999}", PatternError::TooLarge),
    ] {
        let mut params = RecipeParams::default();
        params.set("keyword", keyword).unwrap();
        let error =
            RecipeQuery::new(RecipeNumber::new(3).unwrap(), Detail::Light, params).err().unwrap();
        assert!(!error.hint().unwrap().is_empty());
        assert!(matches!(error, RecipeError::Keyword(error) if error == expected), "{keyword}");
    }
}

#[test]
fn a_line_that_is_no_json_is_named_by_its_record() {
    let file = b"{\"id\":1}\n{\"id\":2}\n\n{\"id\":\n";
    for number in [2, 6, 8] {
        let asked = question(number, Detail::Light, "namespace", "x");
        let error = asked.run(&Bytes(file), 0, &mut |_| ControlFlow::Continue(())).unwrap_err();
        assert!(matches!(error, RecipeError::NotJson { record: 2 }), "{error}");
    }
}

#[test]
fn a_deadline_in_the_past_ends_it() {
    let (file, begin) = some_memories().file();
    let asked = question(2, Detail::Full, "tag", "").deadline(Instant::now());
    let result = asked.run(&Bytes(&file), begin, &mut |_| ControlFlow::Continue(()));
    assert!(matches!(result, Err(RecipeError::Time)));
}

#[test]
fn deep_and_huge_records_are_walked_over() {
    let deep = format!("{}{}", "[".repeat(200_000), "]".repeat(200_000));
    let long = "x".repeat(3 << 20);
    let lines = format!(
        "{{\"deep\":{deep},\"title\":\"one\"}}\n{{\"long\":\"{long}\",\"title\":\"two\"}}\n{{\"namespace\":{deep}}}\n"
    );
    let mut titles = Vec::new();
    let asked = question(1, Detail::Light, "tag", "");
    asked
        .run(&Bytes(lines.as_bytes()), 0, &mut |answer| {
            titles.push(String::from_utf8_lossy(answer).into_owned());
            ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!(titles, ["one\t", "two\t", "\t"]);
    let asked = question(6, Detail::Light, "tag", "");
    let result = asked.run(&Bytes(lines.as_bytes()), 0, &mut |_| ControlFlow::Continue(()));
    assert!(matches!(result, Err(RecipeError::TooDeep { record: 2 })));
}

//! A hundred patterns that are hard on some engine, on one long line and on many short ones.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use lro_core::Detail;
use lro_query::Bytes;
use lro_query::recipe::{RecipeError, RecipeNumber, RecipeParams, RecipeQuery};
use lro_query::search::{Case, Search, SearchError};

fn is_long_run() -> bool {
    std::env::var_os("ATLATL_SOAK_CASES").is_some()
}

/// The length of a single line: 50 MB in the long run, less otherwise.
fn length() -> usize {
    if is_long_run() { 50_000_000 } else { 1_000_000 }
}

/// All patterns in the long run; otherwise a sample, which changes when a pattern is added.
fn chosen_patterns() -> Vec<String> {
    let patterns = patterns();
    assert!(patterns.len() >= 100);
    patterns.into_iter().step_by(if is_long_run() { 1 } else { 6 }).collect()
}

fn patterns() -> Vec<String> {
    let mut patterns: Vec<String> = [
        "(a+)+$",
        "(a|a)*c",
        "(a|aa)+c",
        "(.*)*c",
        "(.*a){12}c",
        "(x+x+)+y",
        "^(a+)*b$",
        "(a?){50}a{50}c",
        "[ab]*a[ab]{15}c",
        "[ab]*a[ab]{200}c",
        "[ab]*a[ab]{9999}c",
        ".*a.{12}c",
        ".*a.{400}c",
        r"\w*a\w{30}!",
        r"(\w+\s?)+!",
        r"(?i)[a-z]*k[a-z]{20}c",
        r"\p{L}*a\p{L}{20}c",
        r"\b[ab]+\b!",
        r"\b(a|b)*c\b",
        r"\Bab\Bc",
        "(a|b|ab)*c",
        "((a*)*)*c",
        "(((a|b)*)*)*c",
        "a{1000}c",
        "(ab){1000}c",
        "(a{20}){20}c",
        "(a{1,50}){1,50}c",
        "[^c]*c",
        "[^c]+c[^c]+c",
        ".*.*.*c",
        ".*?.*?.*?c",
        "(.|a)*c",
        "(a|.)*?c",
        "^.*$c",
        "$^",
        r"\z",
        r"\A",
        "",
        "a*",
        ".{10000}c",
        "(?s).*c",
        r"[\s\S]*c",
        r"(?i)ä*c",
        "ä{100}",
        "(é|e)+c",
        "[a-zA-Z0-9_]*c",
        r"\d*c",
        r"\S+c",
        r"\s*c",
        "(a*)(b*)(a*)(b*)c",
        "(a+b+)+c",
        "(a+|b+)*c",
        "aa*aa*aa*c",
        "a.a.a.a.a.c",
    ]
    .map(str::to_owned)
    .into();
    for n in [5, 10, 15, 20, 25, 30, 50, 100, 300, 1000, 3000, 5000] {
        patterns.push(format!("[ab]*a[ab]{{{n}}}c"));
        patterns.push(format!("(?:a|b|ab){{{n}}}(?:aa|b){{{n}}}!"));
        patterns.push(format!("(?:a?){{{n}}}a{{{n}}}!"));
        patterns.push(format!(r"(?i)\w{{0,{n}}}[ab]a.{{{n}}}!"));
    }
    patterns
}

fn random_letters(bytes: usize) -> Vec<u8> {
    let mut random = testkit::SplitMix64::new(3);
    (0..bytes.div_ceil(64))
        .flat_map(|_| {
            let bits = random.next_u64();
            (0..64).map(move |i| if bits >> i & 1 == 0 { b'a' } else { b'b' })
        })
        .collect()
}

/// Security figure 10: a match, no match, or an error, within two seconds.
#[test]
fn v2_a_hundred_patterns_on_one_long_line_end_soon() {
    let line = random_letters(length());
    let letters = "äb日a".repeat(line.len() / 7);
    let (mut slowest, mut refused) = ((Duration::ZERO, String::new()), 0);
    let patterns = chosen_patterns();
    for pattern in &patterns {
        for text in [&line[..], letters.as_bytes()] {
            let started = Instant::now();
            match Search::new(pattern, Case::Sensitive).map(|search| search.run(&Bytes(text), 0)) {
                Ok(Ok(found)) => assert!(found.matches.len() <= 1),
                Err(_) | Ok(Err(SearchError::Pattern(_))) => refused += 1,
                Ok(Err(error)) => panic!("{pattern}: {error}"),
            }
            let took = started.elapsed();
            assert!(took < Duration::from_secs(2), "{pattern}: {took:?}");
            slowest = slowest.max((took, pattern.clone()));
        }
    }
    eprintln!(
        "soak: {} patterns on two lines of {} MB, {refused} refused, slowest {:?}: {}",
        patterns.len(),
        line.len() / 1_000_000,
        slowest.0,
        slowest.1
    );
}

/// On many lines, the deadline applies to every pattern.
#[test]
fn v2_a_deadline_holds_on_many_lines() {
    let mut text = random_letters(length());
    text.iter_mut().step_by(700).for_each(|byte| *byte = b'\n');
    let wall = Duration::from_millis(300);
    for pattern in chosen_patterns() {
        let started = Instant::now();
        if let Ok(search) = Search::new(&pattern, Case::Sensitive) {
            let _ = search.deadline(started + wall).run(&Bytes(&text), 0);
        }
        let took = started.elapsed();
        assert!(took < Duration::from_secs(2), "{pattern}: {took:?}");
    }
}

/// The keyword of recipe 10 is an untrusted pattern, too.
#[test]
fn n3_a_hostile_keyword_on_a_long_content_ends_soon() {
    let content = String::from_utf8(random_letters(length() / 5)).unwrap();
    let record = format!("{{\"content\":\"{content}\"}}\n");
    for pattern in chosen_patterns() {
        let mut params = RecipeParams::default();
        params.set("keyword", pattern.as_str()).unwrap();
        let started = Instant::now();
        let asked = RecipeQuery::new(RecipeNumber::new(10).unwrap(), Detail::Full, params);
        let ran = asked.and_then(|asked| {
            asked.run(&Bytes(record.as_bytes()), 0, &mut |_| ControlFlow::Continue(()))
        });
        assert!(matches!(ran, Ok(_) | Err(RecipeError::Keyword(_))), "{pattern}");
        let took = started.elapsed();
        assert!(took < Duration::from_secs(2), "{pattern}: {took:?}");
    }
}

//! Our o200k tokenizer compared with the reference implementation: the same counts, less memory.

use lro_core::{O200k, Tokenizer as _, Tokens};
use proptest::prelude::*;

use crate::tree::cases;

fn ours(text: &str) -> u64 {
    O200k.count_till(text, u64::MAX).unwrap().unwrap().0
}

fn reference(text: &str) -> u64 {
    bpe_openai::o200k_base().count(text) as u64
}

/// Anonymous memory of this process, in KiB.
#[cfg(target_os = "linux")]
fn anonymous_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[cfg(target_os = "linux")]
#[test]
fn g36_counting_takes_no_table_into_memory() {
    let long = testkit::text::japanese().repeat(4) + &testkit::text::source_code();
    let before = anonymous_kib();
    let short = O200k.count_till("forty-five bytes of a result, which is small.", u64::MAX);
    let after_short = anonymous_kib();
    assert_eq!(short.unwrap(), Some(Tokens(12)));
    assert!(after_short - before < 512, "a short text took {} KiB", after_short - before);
    assert!(ours(&long) > 1000);
    let after_long = anonymous_kib();
    assert!(after_long - before < 1024, "a long text took {} KiB", after_long - before);
}

#[test]
fn g36_counts_are_those_of_the_reference_on_real_text() {
    for text in [
        testkit::text::english(),
        testkit::text::json_lines(),
        testkit::text::json_pretty(),
        testkit::text::source_code(),
        testkit::text::chinese(),
        testkit::text::japanese(),
        testkit::text::arabic(),
        include_str!("tokenizer.rs").to_owned(),
    ] {
        assert_eq!(ours(&text), reference(&text), "{}", &text[..text.floor_char_boundary(80)]);
        // Also positions inside a token.
        for start in (0..200).map(|i| text.floor_char_boundary(i)) {
            let part = &text[start..text.floor_char_boundary(start + 1000)];
            assert_eq!(ours(part), reference(part), "{part}");
        }
    }
}

#[test]
fn g36_every_token_of_the_vocabulary_counts_as_in_the_reference() {
    let bpe = &bpe_openai::o200k_base().bpe;
    let mut texts = 0;
    for rank in 0..u32::try_from(bpe.num_tokens()).unwrap() {
        // Some tokens are parts of a character, and some are split before they are encoded.
        if let Ok(text) = std::str::from_utf8(bpe.token_bytes(rank)) {
            assert_eq!(ours(text), reference(text), "{text:?}");
            texts += 1;
        }
    }
    assert!(texts > 190_000, "{texts}");
}

#[test]
fn g36_long_runs_without_a_split_count_as_in_the_reference() {
    for unit in [
        "a",
        "A",
        " ",
        "-",
        "=",
        "\n",
        "\0",
        "ab",
        "/",
        "\u{7d50}\u{679c}",
        "\u{2a6d0}",
        "a\u{301}",
    ] {
        for count in [1, 2, 3, 17, 129, 1000, 20_000 / unit.len()] {
            let run = unit.repeat(count);
            for text in [run.clone(), format!("{run}x"), format!("x{run} y")] {
                assert_eq!(ours(&text), reference(&text), "{unit:?} {count} times");
            }
        }
    }
}

#[test]
fn g36_a_count_stops_at_its_limit_and_only_there() {
    for text in [testkit::text::english(), "-".repeat(5000), "ab".repeat(5000)] {
        let all = ours(&text);
        assert_eq!(O200k.count_till(&text, all), Ok(Some(Tokens(all))));
        for limit in [0, 1, all / 2, all - 1] {
            assert_eq!(O200k.count_till(&text, limit), Ok(None), "{limit} of {all}");
        }
    }
    assert_eq!(O200k.count_till("", 0), Ok(Some(Tokens(0))));
}

/// Characters of every class of the split, and those with special rules.
fn characters() -> impl Strategy<Value = String> {
    let some = prop::sample::select(
        "aAzZ09 \t\r\n\u{85}\u{a0}'\u{17f}sStTrReEvVlLmMdD/!-_.,\"{}[]:\u{301}\u{2b0}\u{1c5}\u{df}\u{5d0}\
         \u{e01}\u{e34}\u{7d50}\u{3042}\u{ac00}\u{2160}\u{b2}\u{661}\u{1f600}\u{200d}\u{3000}\0"
            .chars()
            .collect::<Vec<_>>(),
    );
    prop::collection::vec(prop_oneof![4 => some, 1 => any::<char>()], 0..60)
        .prop_map(|characters| characters.into_iter().collect())
}

/// Neighbours that the vocabulary would merge in several ways.
fn tokens() -> impl Strategy<Value = String> {
    let token = prop_oneof![0..3000_u32, 0..199_998_u32];
    prop::collection::vec(token, 1..30).prop_map(|ranks| {
        let bpe = &bpe_openai::o200k_base().bpe;
        String::from_utf8_lossy(&bpe.decode_tokens(&ranks)).into_owned()
    })
}

proptest! {
    #![proptest_config(cases(2000))]

    #[test]
    fn g36_counts_are_those_of_the_reference_on_any_characters(text in characters()) {
        prop_assert_eq!(ours(&text), reference(&text));
    }

    #[test]
    fn g36_counts_are_those_of_the_reference_on_any_tokens(text in tokens()) {
        prop_assert_eq!(ours(&text), reference(&text));
    }
}

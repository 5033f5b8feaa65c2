//! Detection of base64.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use lro_core::records::{Content, Detected, Detector};
use testkit::SplitMix64;

/// A PNG file as far as its first bytes say.
fn png(length: usize) -> Vec<u8> {
    let mut random = SplitMix64::new(7);
    let mut bytes = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec();
    bytes.resize_with(length, || u8::try_from(random.below(256)).unwrap());
    bytes
}

fn wrapped(text: &str, width: usize, line_break: &str) -> String {
    let lines: Vec<&str> =
        text.as_bytes().chunks(width).map(|line| std::str::from_utf8(line).unwrap()).collect();
    lines.join(line_break)
}

/// The size and the type of the data that a text encodes.
fn data(text: &str) -> Option<(u64, Option<&'static str>)> {
    match Detected::detect(text.as_bytes()).content {
        Content::Base64(data) => Some((data.decoded_bytes, data.media_type)),
        Content::Text => None,
        other => panic!("{other:?}"),
    }
}

#[test]
fn g26_base64_is_reported_with_its_size_and_type() {
    for length in [600, 601, 602, 200_000] {
        let bytes = png(length);
        let text = STANDARD.encode(&bytes);
        for text in [
            text.clone(),
            format!("{text}\n"),
            wrapped(&text, 76, "\r\n"),
            wrapped(&text, 64, "\n") + "\n",
            format!("data:image/gif;charset=x;base64,{text}"),
            text.trim_end_matches('=').to_owned(),
            URL_SAFE_NO_PAD.encode(&bytes),
        ] {
            let expected = Some((length as u64, Some("image/png")));
            assert_eq!(data(&text), expected, "{length} {text:.80}");
            for size in [1, 7, 16_384] {
                let mut detector = Detector::new();
                text.as_bytes().chunks(size).for_each(|chunk| detector.feed(chunk));
                assert_eq!(detector.finish(), Detected::detect(text.as_bytes()), "{size}");
            }
        }
    }
    let unknown = STANDARD.encode(&png(900)[16..]);
    assert_eq!(data(&unknown), Some((884, None)));
}

#[test]
fn g26_text_that_resembles_base64_stays_text() {
    let text = STANDARD.encode(png(1000));
    let hex: Vec<String> = png(1000).iter().map(|byte| format!("{byte:02x}")).collect();
    let hex = hex.concat();
    for text in [
        &text[..508],
        &text[..601],
        &format!("{text}="),
        &format!("{}={}", &text[..600], &text[600..1000]),
        &format!("{text} {text}"),
        &format!("data:image/png,{text}"),
        &format!("data:{};base64,{text}", "x".repeat(300)),
        &format!("{}-{}+", &text[..600], &text[600..1198]),
        &wrapped(&text, 20, "\n"),
        &wrapped(&text, 62, "\n"),
        &format!("{}\n{}", wrapped(&text, 76, "\n"), &text[..76]),
        &hex,
        &hex.to_uppercase(),
        &"x".repeat(5000),
        &"ACGT".repeat(500),
        &"abcdefghijklmnopqrstuvwxyz".repeat(30),
        "",
        "data:",
        "data:text/plain;base64,",
    ] {
        assert_eq!(data(text), None, "{text:.80}");
    }
}

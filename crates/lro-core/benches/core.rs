//! The figures of the core: detecting and measuring records compared with one bare JSON scan of the
//! same bytes, memory use, the error of the estimate, and the sizes of descriptors.
//!
//! `cargo xtask bench core` runs it and keeps the results. Prints one JSON object.

#![expect(clippy::print_stdout, reason = "its output is its result")]
#![expect(clippy::cast_precision_loss, reason = "ratios of counts far below 2^52")]

use std::hint::black_box;
use std::process::Command;
use std::time::Instant;

use lro_core::records::{Detected, RecordLines};
use lro_core::{
    DescriptorInput, DescriptorOptions, Detail, Extraction, Measure, NoTokenizer, O200k, Operation,
    Policies, RecipeListing, ResultId, Rules, Threshold, Tokenizer, Tokens, assess, record_lines,
};
use serde_json::{Value, json};

const PAYLOAD_BYTES: usize = 100_000_000;
const ROUNDS: usize = 7;
/// The largest result that is counted whole.
const COUNTED_BYTES: usize = 4 << 20;
/// A long run without a split: dashes take a second for a megabyte.
const RUN_BYTES: usize = 1 << 18;

fn main() {
    let args: Vec<String> = std::env::args().collect();
    if let [_, flag, path] = args.as_slice()
        && flag == "--memory-of"
    {
        return println!("{}", memory_of(path));
    }
    let results = json!({
        "scan": scans(),
        "tokens": token_errors(),
        "tokenizer": tokenizer_speeds(),
        "descriptors": descriptors(),
    });
    println!("{results:#}");
}

/// Payloads of the same size and different formats.
fn payloads() -> Vec<(&'static str, String)> {
    let memories = testkit::corpus::memories(2000, 42);
    let full = testkit::corpus::lines(&memories, mif::DetailLevel::Full);
    let light = testkit::corpus::lines(&memories, mif::DetailLevel::Light);
    let pretty: Vec<String> = full
        .iter()
        .map(|line| {
            let record: Value = serde_json::from_str(line).expect("a line of the corpus is JSON");
            format!("\n{record:#}")
        })
        .collect();
    let numbers: Vec<String> = (0..2000)
        .map(|i| format!(r#"{{"x":{i},"y":{}.25,"z":-{i}e3,"ok":true}}"#, i * 7))
        .collect();
    let text: Vec<String> = (0..2000)
        .map(|i| format!("{{\"n\":{i},\"t\":\"{}\"}}", "\u{7d50}\u{679c}\u{306f}".repeat(60)))
        .collect();
    vec![
        ("memories, full detail", enveloped(&full)),
        ("memories, light detail", enveloped(&light)),
        ("memories, full detail, indented", enveloped(&pretty)),
        ("rows of numbers", enveloped(&numbers)),
        ("Japanese text", enveloped(&text)),
    ]
}

fn enveloped(records: &[String]) -> String {
    let mut payload = String::with_capacity(PAYLOAD_BYTES + 4096);
    payload.push_str(r#"{"count":1,"memories":["#);
    for (i, record) in records.iter().cycle().enumerate() {
        if payload.len() > PAYLOAD_BYTES {
            break;
        }
        if i > 0 {
            payload.push(',');
        }
        payload.push_str(record);
    }
    payload.push_str("],\"next_cursor\":null}");
    payload
}

fn scans() -> Vec<Value> {
    payloads()
        .into_iter()
        .map(|(name, payload)| {
            let bytes = payload.as_bytes();
            let found = Detected::detect(bytes);
            let records = found.records().expect("every payload is made of records");
            // Alternating rounds, so that all run under the same conditions.
            let mut runs: [(&str, f64, &dyn Fn()); 4] = [
                ("bare scan (serde_json, IgnoredAny)", f64::MAX, &|| {
                    black_box(serde_json::from_slice::<serde::de::IgnoredAny>(bytes)).ok();
                }),
                ("bare scan (serde_json, RawValue)", f64::MAX, &|| {
                    black_box(serde_json::from_slice::<&serde_json::value::RawValue>(bytes)).ok();
                }),
                ("find and measure", f64::MAX, &|| {
                    black_box(Detected::detect(bytes));
                }),
                ("write the lines, with their shape", f64::MAX, &|| {
                    let mut writer = RecordLines::new(records);
                    let mut out = Vec::new();
                    for chunk in bytes.chunks(64 * 1024) {
                        writer.feed(chunk, &mut out).expect("the same bytes");
                        black_box(&out);
                        out.clear();
                    }
                    black_box(writer.finish(&mut out)).ok();
                }),
            ];
            for _ in 0..ROUNDS {
                for (_, best, run) in &mut runs {
                    let start = Instant::now();
                    run();
                    *best = best.min(start.elapsed().as_secs_f64());
                }
            }
            let bare = runs[0].1.min(runs[1].1);
            let rows: Vec<Value> = runs
                .iter()
                .map(|(run, seconds, _)| {
                    let megabytes_per_second = bytes.len() as f64 / seconds / 1e6;
                    json!({
                        "run": run,
                        "seconds": seconds,
                        "megabytes_per_second": megabytes_per_second,
                        "times_the_fastest_bare_scan": seconds / bare,
                    })
                })
                .collect();
            json!({
                "payload": name,
                "bytes": bytes.len(),
                "records": records.count,
                "rounds": ROUNDS,
                "best_of_rounds": rows,
                "bytes_beyond_payload": peak_beyond(&payload),
            })
        })
        .collect()
}

/// The peak memory of a process that only reads the payload and detects its records.
fn peak_beyond(payload: &str) -> Option<u64> {
    let path = std::env::temp_dir().join(format!("lro-core-bench-{}.json", std::process::id()));
    std::fs::write(&path, payload).ok()?;
    let output = Command::new(std::env::current_exe().ok()?).arg("--memory-of").arg(&path).output();
    let _ = std::fs::remove_file(&path);
    let peak: u64 = String::from_utf8(output.ok()?.stdout).ok()?.trim().parse().ok()?;
    Some(peak.saturating_sub(payload.len() as u64))
}

fn memory_of(path: &str) -> u64 {
    let payload = std::fs::read(path).unwrap_or_default();
    black_box(Detected::detect(&payload));
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = peak.and_then(|peak| peak.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kilobytes.unwrap_or(u64::MAX / 1024) * 1024
}

fn real(text: &str) -> u64 {
    O200k.count_till(text, u64::MAX).ok().flatten().unwrap_or_default().0
}

fn token_errors() -> Vec<Value> {
    let samples = [
        ("English", testkit::text::english()),
        ("JSON lines", testkit::text::json_lines()),
        ("pretty JSON", testkit::text::json_pretty()),
        ("source code", testkit::text::source_code()),
        ("Chinese", testkit::text::chinese()),
        ("Japanese", testkit::text::japanese()),
        ("Arabic", testkit::text::arabic()),
    ];
    samples
        .iter()
        .map(|(name, text)| {
            let measure = Measure::from_bytes(text.as_bytes());
            let ours = lro_core::tokens::estimate(measure, text, &O200k);
            let without = lro_core::tokens::estimate(measure, text, &NoTokenizer);
            json!({
                "text": name,
                "characters": measure.chars,
                "real_tokens": real(text),
                "characters_by_four": measure.latin_estimate(),
                "estimate": ours,
                "estimate_without_tokenizer": without,
            })
        })
        .collect()
}

/// Our tokenizer and the reference, alternating on the same texts.
fn tokenizer_speeds() -> Vec<Value> {
    let long = |text: String| text.repeat(COUNTED_BYTES.div_ceil(text.len()));
    let run = |unit: &str| unit.repeat(RUN_BYTES / unit.len());
    let texts = [
        ("English", long(testkit::text::english())),
        ("JSON lines", long(testkit::text::json_lines())),
        ("source code", long(testkit::text::source_code())),
        ("Chinese", long(testkit::text::chinese())),
        ("Japanese", long(testkit::text::japanese())),
        ("Arabic", long(testkit::text::arabic())),
        ("a run of `a`", run("a")),
        ("a run of spaces", run(" ")),
        ("a run of dashes", run("-")),
        ("a run of one Han character", run("\u{7d50}")),
    ];
    // Built before it is measured: that takes a tenth of a second once.
    let reference = bpe_openai::o200k_base();
    texts
        .iter()
        .map(|(name, text)| {
            let mut best = [f64::MAX; 2];
            assert_eq!(real(text), reference.count(text.as_str()) as u64, "{name}");
            for _ in 0..ROUNDS {
                let start = Instant::now();
                black_box(real(text));
                best[0] = best[0].min(start.elapsed().as_secs_f64());
                let start = Instant::now();
                black_box(reference.count(text.as_str()));
                best[1] = best[1].min(start.elapsed().as_secs_f64());
            }
            let speed = |seconds: f64| text.len() as f64 / seconds / 1e6;
            json!({
                "text": name,
                "bytes": text.len(),
                "megabytes_per_second": speed(best[0]),
                "reference_megabytes_per_second": speed(best[1]),
                "times_the_reference": best[0] / best[1],
            })
        })
        .collect()
}

fn descriptors() -> Vec<Value> {
    let path = "/tmp/atlatl-recall-01KA35ZK000J6HB7H9NF6YV4D3.jsonl";
    let id = ResultId::new(1_794_700_800_000, 0x0123_4567_89ab_cdef_0123);
    let policies = Policies::default();
    let rules = Rules { enabled: true, threshold: Threshold::Above(1600), policies: &policies };
    let memories = testkit::corpus::memories(500, 42);
    let mut rows = Vec::new();
    for (detail, level) in [
        (Detail::Light, mif::DetailLevel::Light),
        (Detail::Medium, mif::DetailLevel::Medium),
        (Detail::Full, mif::DetailLevel::Full),
    ] {
        let records = testkit::corpus::lines(&memories, level);
        let payload = format!(r#"{{"memories":[{}]}}"#, records.join(","));
        let assessment = assess(payload.as_bytes(), "recall_memories", &rules, &O200k);
        let (_, stats) =
            record_lines(payload.as_bytes(), &assessment.found, 0).expect("the same bytes");
        let stored = DescriptorInput {
            id,
            place: lro_core::Location::File(path),
            readable_path: true,
            expires_at: chrono::DateTime::from_timestamp_nanos(1_794_704_400_000_000_000),
            operation: &Operation::Recall,
            found: &assessment.found,
            stats: &stats,
            text_head: "",
            estimated: assessment.estimate.tokens,
            score_range: Some((0.12, 1.0)),
            total_matches: None,
            around: &[],
            further_texts: &[],
        };
        for extraction in [Extraction::Shell, Extraction::Native] {
            let size = |preview| {
                let look = DescriptorOptions {
                    extraction,
                    preview: Tokens(preview),
                    recipes: RecipeListing::Included,
                };
                let full = serde_json::to_string(&stored.full_descriptor(detail, look));
                let compact = serde_json::to_string(&stored.compact_descriptor(Some(detail), look));
                (real(&full.unwrap_or_default()), real(&compact.unwrap_or_default()))
            };
            let (full, compact) = size(0);
            let (full_with_preview, compact_with_preview) = size(300);
            rows.push(json!({
                "detail": detail,
                "guidance": format!("{extraction:?}").to_lowercase(),
                "inline_tokens": real(&payload),
                "full": full,
                "full_with_preview": full_with_preview,
                "compact": compact,
                "compact_with_preview": compact_with_preview,
            }));
        }
    }
    rows
}

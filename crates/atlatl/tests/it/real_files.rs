//! The filesystem server through the proxy: large files in ranges, by reference, and media.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};
use testkit::SplitMix64;

use crate::program::Program;
use crate::proxied::{Proxied, real_server, reference};

const TWO_MEGABYTES: usize = 2 << 20;

/// What looks like source code, with everything that escapes, breaks lines or takes several bytes.
fn source() -> String {
    let pieces = [
        "\tlet naïve = \"a \\\"quoted\\\" string\";\r\n",
        "    // 注释: 🎯 e\u{301} \u{2028} \u{85}\u{a0}end\n",
        "\r\n",
        "#define PATH 'C:\\temp\\new'\t/* \u{1}\u{1b}[0m */\r\n",
        "    return { \"key\": [1, 2.50, -0], 'x': `${y}` };   \n",
        "lro: not a reference\n",
    ];
    let mut random = SplitMix64::new(4);
    let mut text = String::from("\u{feff}#!/usr/bin/env source\r\n");
    while text.len() < TWO_MEGABYTES {
        text.push_str(pieces[random.below(pieces.len())]);
    }
    text + "no line break at the end"
}

/// An indented array whose white space and numbers no writer of JSON would give again.
fn indented() -> String {
    let mut text = String::from("[\r\n");
    let mut n = 0;
    while text.len() < TWO_MEGABYTES {
        let comma = if n == 0 { "" } else { ",\r\n" };
        let _ = write!(
            text,
            "{comma}  {{\r\n\t\"id\" : {n},\r\n\t\"name\": \"caf\\u00e9 \\/ 🎯 \\\"{n}\\\"\",\r\n\t\"price\": {n}.50,\r\n\t\"tags\": [ \"a\", [] ]\r\n  }}"
        );
        n += 1;
    }
    text + "\r\n]\r\n\r\n"
}

/// The filesystem server behind the proxy, before a directory with both files.
fn filesystem() -> (Program, PathBuf, Proxied) {
    let program =
        Program::new().file("work/source.txt", source()).file("work/indented.json", indented());
    let work = fs::canonicalize(program.path("work")).unwrap();
    let server = real_server("mcp-server-filesystem");
    // Replies of the usual size would show the same with twice as many calls.
    let flags = ["--set", "prompt.offload.reply_tokens=10000"];
    let mut client = Proxied::start(&program, &flags, &[&server, work.to_str().unwrap()]);
    client.initialize(&json!({}));
    (program, work, client)
}

#[test]
fn f14_a_media_file_of_any_size_passes_as_the_bytes_that_came() {
    let noise: Vec<u8> =
        (0..300_000_u32).map(|n| n.wrapping_mul(2_654_435_761).to_be_bytes()[0]).collect();
    let names = ["a.png", "a.wav", "a.bin"];
    let program = names
        .iter()
        .fold(Program::new(), |program, name| program.file(&format!("work/{name}"), &noise));
    let work = fs::canonicalize(program.path("work")).unwrap();
    let server = real_server("mcp-server-filesystem");
    let mut command = Command::new(&server);
    command.arg(&work);
    let mut direct = Proxied::of(command);
    let mut proxied = Proxied::start(&program, &[], &[&server, work.to_str().unwrap()]);
    for side in [&mut direct, &mut proxied] {
        side.initialize(&json!({}));
    }
    for name in names {
        let params = json!({"name": "read_media_file", "arguments": {"path": work.join(name)}});
        let lines = direct.exchange("tools/call", &params);
        assert!(lines[0].len() > 800_000, "{name}: {}", lines[0].len());
        assert!(proxied.exchange("tools/call", &params) == lines, "{name}");
    }
}

#[test]
fn p4_a_large_file_is_read_range_by_range_without_a_byte_lost() {
    let (_program, work, mut client) = filesystem();
    let read = client.call("read_text_file", &json!({"path": work.join("source.txt")}));
    let whole = client.read_all(&reference(&read));
    // No assert_eq: two megabytes would be printed.
    assert!(whole == source(), "{} bytes of {}", whole.len(), source().len());
}

#[test]
fn f01_a_large_file_goes_into_another_by_reference_and_past_the_client() {
    let (_program, work, mut client) = filesystem();
    for name in ["source.txt", "indented.json"] {
        let from = work.join(name);
        let to = work.join(format!("copy of {name}"));
        let before = client.traffic();
        let read = client.call("read_text_file", &json!({"path": from}));
        let given = json!({"path": to, "content": reference(&read)});
        let written = client.call("write_file", &given);
        assert_eq!(written["result"]["isError"], Value::Null, "{written}");
        let traffic = client.traffic() - before;
        assert!(traffic < 16 << 10, "{name}: {traffic} bytes");
        assert!(fs::read(&to).unwrap() == fs::read(&from).unwrap(), "{name}");
    }
}

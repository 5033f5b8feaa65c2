//! `atlatl offload --dry-run`: what is recognised.

use std::fmt::Write as _;

use mif::DetailLevel;
use serde_json::{Value, json};

use crate::program::{Program, Run};

/// Asks about `result`, as a program would.
pub(crate) fn ask_json(result: impl AsRef<[u8]>, args: &[&str]) -> Run {
    ask(result, &[args, &["--json"]].concat())
}

/// Asks about `result`, as a person would.
pub(crate) fn ask(result: impl AsRef<[u8]>, args: &[&str]) -> Run {
    // The size of a descriptor depends on the directory's name.
    let program = Program::new().file("work/result", result).variable("TMPDIR", "/tmp");
    program.run(&[&["offload", "--dry-run", "result"], args].concat())
}

/// A tool result with these text blocks.
fn texts(blocks: &[&str]) -> Value {
    let blocks: Vec<Value> =
        blocks.iter().map(|text| json!({"type": "text", "text": text})).collect();
    json!({"content": blocks})
}

fn rows(count: usize) -> Vec<Value> {
    (0..count).map(|i| json!({"id": i, "name": format!("row {i}"), "score": 0.5})).collect()
}

/// `{"count": n, "memories": […]}`, as a memory server writes it.
pub(crate) fn memories(count: usize, detail: DetailLevel) -> String {
    let lines = testkit::corpus::lines(&testkit::corpus::memories(count, 42), detail);
    format!(r#"{{"count":{count},"memories":[{}]}}"#, lines.join(","))
}

#[test]
fn f12_memories_given_twice_count_once() {
    let memories = memories(500, DetailLevel::Full);
    let mut result = texts(&[&memories]);
    result["structuredContent"] = serde_json::from_str(&memories).unwrap();
    insta::assert_snapshot!(ask(result.to_string(), &[]), @"
    status: 0
    --- stdout
    recognised    500 memories in the JSON array at .memories
    found in      structuredContent of a tool result
    fields        id text, memory_type text, title text, namespace text, tags array,
                  created text, modified text|absent, status text, content text,
                  provenance object, extensions object
    size          308,860 bytes, 307,103 characters
    tokens        76,645 estimated for the records (characters ÷ 4)
                  86,111 real (counted with o200k)
    tool          recall_memories, assumed since these are memories (see --tool)
    decision      offload: 76,645 tokens are more than 1,600
    decided by    prompt.offload.threshold_tokens
    in its place  a full descriptor of about 1,281 tokens
    --- stderr
    ");
    insta::assert_snapshot!(ask_json(result.to_string(), &[]), @r#"
    status: 0
    --- stdout
    {
      "kind": "memories",
      "tool_result": {
        "payload": "structured",
        "further_texts": 0,
        "other_blocks": 0
      },
      "records": {
        "count": 500,
        "form": "array",
        "path": [
          "memories"
        ],
        "span": {
          "start": 25,
          "end": 308858
        },
        "fields": {
          "id": "text",
          "memory_type": "text",
          "title": "text",
          "namespace": "text",
          "tags": "array",
          "created": "text",
          "modified": "text|absent",
          "status": "text",
          "content": "text",
          "provenance": "object",
          "extensions": "object"
        }
      },
      "bytes": 308860,
      "characters": 307103,
      "tool": {
        "name": "recall_memories",
        "origin": "assumed"
      },
      "tokens": {
        "of": "records",
        "estimated": {
          "tokens": 76645,
          "method": "characters_by_four"
        },
        "real": {
          "tokens": 86111,
          "method": "counted"
        }
      },
      "decision": {
        "delivery": "offload",
        "because": "estimate",
        "threshold": {
          "rule": "above",
          "tokens": 1600
        },
        "key": "prompt.offload.threshold_tokens"
      },
      "descriptor": {
        "form": "full",
        "tokens": 1281
      }
    }
    --- stderr
    "#);
    let once = ask_json(&memories, &[]).json();
    assert_eq!(ask_json(result.to_string(), &[]).json()["tokens"], once["tokens"]);
}

#[test]
fn records_deep_in_a_json_document() {
    let result = json!({"status": "ok", "data": {"all rows": rows(300)}}).to_string();
    insta::assert_snapshot!(ask(&result, &[]), @r#"
    status: 0
    --- stdout
    recognised  300 records in the JSON array at .data["all rows"]
    fields      id integer, name text, score number
    size        11,817 bytes, 11,817 characters
    tokens      4,812 (counted with o200k)
    tool        not given (name it with --tool to apply its policy)
    decision    inline: 4,812 tokens are less than 10,000
    decided by  proxy.threshold_tokens
    --- stderr
    "#);
    insta::assert_snapshot!(ask_json(&result, &[]), @r#"
    status: 0
    --- stdout
    {
      "kind": "records",
      "records": {
        "count": 300,
        "form": "array",
        "path": [
          "data",
          "all rows"
        ],
        "span": {
          "start": 35,
          "end": 11814
        },
        "fields": {
          "id": "integer",
          "name": "text",
          "score": "number"
        }
      },
      "bytes": 11817,
      "characters": 11817,
      "tool": null,
      "tokens": {
        "of": "result",
        "estimated": {
          "tokens": 4812,
          "method": "counted"
        },
        "real": {
          "tokens": 4812,
          "method": "counted"
        }
      },
      "decision": {
        "delivery": "inline",
        "because": "estimate",
        "threshold": {
          "rule": "from",
          "tokens": 10000
        },
        "key": "proxy.threshold_tokens"
      }
    }
    --- stderr
    "#);
}

#[test]
fn json_lines() {
    let lines: Vec<String> = rows(3).iter().map(Value::to_string).collect();
    let result = lines.join("\n");
    insta::assert_snapshot!(ask(&result, &[]), @"
    status: 0
    --- stdout
    recognised  3 records in JSON lines
    fields      id integer, name text, score number
    size        107 bytes, 107 characters
    tokens      51 (counted with o200k)
    tool        not given (name it with --tool to apply its policy)
    decision    inline: 107 bytes are too few for 10,000 tokens
    decided by  proxy.threshold_tokens
    --- stderr
    ");
    insta::assert_snapshot!(ask_json(&result, &[]), @r#"
    status: 0
    --- stdout
    {
      "kind": "records",
      "records": {
        "count": 3,
        "form": "lines",
        "start": 0,
        "fields": {
          "id": "integer",
          "name": "text",
          "score": "number"
        }
      },
      "bytes": 107,
      "characters": 107,
      "tool": null,
      "tokens": {
        "of": "result",
        "estimated": {
          "tokens": 51,
          "method": "counted"
        },
        "real": {
          "tokens": 51,
          "method": "counted"
        }
      },
      "decision": {
        "delivery": "inline",
        "because": "bytes",
        "bytes": 107,
        "threshold": {
          "rule": "from",
          "tokens": 10000
        },
        "key": "proxy.threshold_tokens"
      }
    }
    --- stderr
    "#);
}

#[test]
fn a_table_of_comma_separated_values() {
    let result = "id,name,amount\n1,\"Ann, B.\",2.50\n2,Bob,\n3,Cy,7\n";
    insta::assert_snapshot!(ask(result, &[]), @"
    status: 0
    --- stdout
    recognised  3 records in a table (CSV)
    fields      id number, name text, amount null|number
    size        46 bytes, 46 characters
    tokens      25 (counted with o200k)
    tool        not given (name it with --tool to apply its policy)
    decision    inline: 46 bytes are too few for 10,000 tokens
    decided by  proxy.threshold_tokens
    --- stderr
    ");
    insta::assert_snapshot!(ask_json(result, &[]), @r#"
    status: 0
    --- stdout
    {
      "kind": "records",
      "records": {
        "count": 3,
        "form": "table",
        "start": 0,
        "delimiter": "comma",
        "columns": [
          {
            "name": "id",
            "numeric": true,
            "gaps": false
          },
          {
            "name": "name",
            "numeric": false,
            "gaps": false
          },
          {
            "name": "amount",
            "numeric": true,
            "gaps": true
          }
        ],
        "fields": {
          "id": "number",
          "name": "text",
          "amount": "null|number"
        }
      },
      "bytes": 46,
      "characters": 46,
      "tool": null,
      "tokens": {
        "of": "result",
        "estimated": {
          "tokens": 25,
          "method": "counted"
        },
        "real": {
          "tokens": 25,
          "method": "counted"
        }
      },
      "decision": {
        "delivery": "inline",
        "because": "bytes",
        "bytes": 46,
        "threshold": {
          "rule": "from",
          "tokens": 10000
        },
        "key": "proxy.threshold_tokens"
      }
    }
    --- stderr
    "#);
}

#[test]
fn a_table_of_tab_separated_values() {
    let result = "id\tname\n1\tAnn\n2\tBob\n";
    insta::assert_snapshot!(ask(result, &[]), @"
    status: 0
    --- stdout
    recognised  2 records in a table (TSV)
    fields      id number, name text
    size        20 bytes, 20 characters
    tokens      11 (counted with o200k)
    tool        not given (name it with --tool to apply its policy)
    decision    inline: 20 bytes are too few for 10,000 tokens
    decided by  proxy.threshold_tokens
    --- stderr
    ");
    assert_eq!(ask_json(result, &[]).json()["records"]["delimiter"], "tab");
}

#[test]
fn one_document() {
    let result =
        r#"{"name": "atlatl", "version": "0.1.0", "keywords": ["mcp"], "nested": {"a": {"b": 1}}}"#;
    insta::assert_snapshot!(ask(result, &[]), @"
    status: 0
    --- stdout
    recognised  one JSON document
    size        86 bytes, 86 characters
    tokens      38 (counted with o200k)
    tool        not given (name it with --tool to apply its policy)
    decision    inline: 86 bytes are too few for 10,000 tokens
    decided by  proxy.threshold_tokens
    --- stderr
    ");
    insta::assert_snapshot!(ask_json(result, &[]), @r#"
    status: 0
    --- stdout
    {
      "kind": "json",
      "bytes": 86,
      "characters": 86,
      "tool": null,
      "tokens": {
        "of": "result",
        "estimated": {
          "tokens": 38,
          "method": "counted"
        },
        "real": {
          "tokens": 38,
          "method": "counted"
        }
      },
      "decision": {
        "delivery": "inline",
        "because": "bytes",
        "bytes": 86,
        "threshold": {
          "rule": "from",
          "tokens": 10000
        },
        "key": "proxy.threshold_tokens"
      }
    }
    --- stderr
    "#);
}

#[test]
fn text() {
    let result = "Nothing in this line, or in the next, is a record.\nIt is prose.\n";
    insta::assert_snapshot!(ask(result, &[]), @"
    status: 0
    --- stdout
    recognised  text
    size        64 bytes, 64 characters
    tokens      18 (counted with o200k)
    tool        not given (name it with --tool to apply its policy)
    decision    inline: 64 bytes are too few for 10,000 tokens
    decided by  proxy.threshold_tokens
    --- stderr
    ");
    insta::assert_snapshot!(ask_json(result, &[]), @r#"
    status: 0
    --- stdout
    {
      "kind": "text",
      "bytes": 64,
      "characters": 64,
      "tool": null,
      "tokens": {
        "of": "result",
        "estimated": {
          "tokens": 18,
          "method": "counted"
        },
        "real": {
          "tokens": 18,
          "method": "counted"
        }
      },
      "decision": {
        "delivery": "inline",
        "because": "bytes",
        "bytes": 64,
        "threshold": {
          "rule": "from",
          "tokens": 10000
        },
        "key": "proxy.threshold_tokens"
      }
    }
    --- stderr
    "#);
}

#[test]
fn binary_data_has_no_real_count() {
    let result: Vec<u8> = (0..=255).cycle().take(30_000).collect();
    insta::assert_snapshot!(ask(&result, &[]), @"
    status: 0
    --- stdout
    recognised    binary data
    size          30,000 bytes
    tokens        20,000 estimated (as base64)
    tool          not given (name it with --tool to apply its policy)
    decision      offload: 20,000 tokens are at least 10,000
    decided by    proxy.threshold_tokens
    in its place  a compact descriptor of about 177 tokens
    --- stderr
    ");
    insta::assert_snapshot!(ask_json(&result, &[]), @r#"
    status: 0
    --- stdout
    {
      "kind": "binary",
      "bytes": 30000,
      "characters": null,
      "tool": null,
      "tokens": {
        "of": "result",
        "estimated": {
          "tokens": 20000,
          "method": "as_base64"
        },
        "real": null
      },
      "decision": {
        "delivery": "offload",
        "because": "estimate",
        "threshold": {
          "rule": "from",
          "tokens": 10000
        },
        "key": "proxy.threshold_tokens"
      },
      "descriptor": {
        "form": "compact",
        "tokens": 177
      }
    }
    --- stderr
    "#);
}

#[test]
fn nothing_at_all() {
    insta::assert_snapshot!(ask("", &[]), @"
    status: 0
    --- stdout
    recognised  nothing: there is no text
    size        0 bytes, 0 characters
    tokens      0 (counted with o200k)
    tool        not given (name it with --tool to apply its policy)
    decision    inline: 0 bytes are too few for 10,000 tokens
    decided by  proxy.threshold_tokens
    --- stderr
    ");
    assert_eq!(ask_json("", &[]).json()["kind"], "nothing");
}

/// By characters ÷ 4 these memories would be 1,500 tokens and stay inline.
#[test]
fn f36_chinese_is_counted_by_a_real_tokenizer() {
    let memory = |i: usize| {
        json!({
            "id": format!("m{i}"),
            "memory_type": "semantic",
            "created": "2026-01-05T08:00:00Z",
            "content": "大型结果应当存放在文件里而不是放进模型的上下文窗口".repeat(10),
        })
    };
    let result = json!((0..18).map(memory).collect::<Vec<_>>()).to_string();
    insta::assert_snapshot!(ask(&result, &[]), @"
    status: 0
    --- stdout
    recognised    18 memories in a JSON array
    fields        id text, memory_type text, created text, content text
    size          15,003 bytes, 6,003 characters
    tokens        3,780 for the records (counted with o200k)
    tool          recall_memories, assumed since these are memories (see --tool)
    decision      offload: 3,780 tokens are more than 1,600
    decided by    prompt.offload.threshold_tokens
    in its place  a compact descriptor of about 479 tokens
    --- stderr
    ");
    let text = "大型结果应当存放在文件里。".repeat(5);
    insta::assert_snapshot!(ask_json(text, &[]), @r#"
    status: 0
    --- stdout
    {
      "kind": "text",
      "bytes": 195,
      "characters": 65,
      "tool": null,
      "tokens": {
        "of": "result",
        "estimated": {
          "tokens": 50,
          "method": "counted"
        },
        "real": {
          "tokens": 50,
          "method": "counted"
        }
      },
      "decision": {
        "delivery": "inline",
        "because": "bytes",
        "bytes": 195,
        "threshold": {
          "rule": "from",
          "tokens": 10000
        },
        "key": "proxy.threshold_tokens"
      }
    }
    --- stderr
    "#);
}

#[test]
fn f30_json_in_a_string_in_a_wrapper_is_decoded() {
    let text = json!(rows(3)).to_string();
    let mut result = texts(&[&text]);
    result["structuredContent"] = json!({"result": text});
    insta::assert_snapshot!(ask(result.to_string(), &[]), @"
    status: 0
    --- stdout
    recognised  3 records in a JSON array
    found in    a text block of a tool result
    fields      id integer, name text, score number
    size        109 bytes, 109 characters
    tokens      50 (counted with o200k)
    tool        not given (name it with --tool to apply its policy)
    decision    inline: 109 bytes are too few for 10,000 tokens
    decided by  proxy.threshold_tokens
    --- stderr
    ");
    insta::assert_snapshot!(ask_json(result.to_string(), &[]), @r#"
    status: 0
    --- stdout
    {
      "kind": "records",
      "tool_result": {
        "payload": "text",
        "further_texts": 0,
        "other_blocks": 0
      },
      "records": {
        "count": 3,
        "form": "array",
        "path": [],
        "span": {
          "start": 1,
          "end": 108
        },
        "fields": {
          "id": "integer",
          "name": "text",
          "score": "number"
        }
      },
      "bytes": 109,
      "characters": 109,
      "tool": null,
      "tokens": {
        "of": "result",
        "estimated": {
          "tokens": 50,
          "method": "counted"
        },
        "real": {
          "tokens": 50,
          "method": "counted"
        }
      },
      "decision": {
        "delivery": "inline",
        "because": "bytes",
        "bytes": 109,
        "threshold": {
          "rule": "from",
          "tokens": 10000
        },
        "key": "proxy.threshold_tokens"
      }
    }
    --- stderr
    "#);
}

#[test]
fn text_blocks_of_json_are_records_together() {
    let blocks: Vec<String> = rows(4).iter().map(Value::to_string).collect();
    let blocks: Vec<&str> = blocks.iter().map(String::as_str).collect();
    insta::assert_snapshot!(ask(texts(&blocks).to_string(), &[]), @"
    status: 0
    --- stdout
    recognised  4 records in JSON lines
    found in    the text blocks of a tool result
    fields      id integer, name text, score number
    size        143 bytes, 143 characters
    tokens      68 (counted with o200k)
    tool        not given (name it with --tool to apply its policy)
    decision    inline: 143 bytes are too few for 10,000 tokens
    decided by  proxy.threshold_tokens
    --- stderr
    ");
}

#[test]
fn text_blocks_that_say_different_things_all_count() {
    let result = texts(&["First, the summary.", "Then a remark.", "[1]"]).to_string();
    insta::assert_snapshot!(ask(&result, &[]), @"
    status: 0
    --- stdout
    recognised  text
    found in    a text block of a tool result; 2 more texts beside it
    size        36 bytes, 36 characters
    tokens      12 (counted with o200k)
    tool        not given (name it with --tool to apply its policy)
    decision    inline: 36 bytes are too few for 10,000 tokens
    decided by  proxy.threshold_tokens
    --- stderr
    ");
    insta::assert_snapshot!(ask_json(&result, &[]), @r#"
    status: 0
    --- stdout
    {
      "kind": "text",
      "tool_result": {
        "payload": "text",
        "further_texts": 2,
        "other_blocks": 0
      },
      "bytes": 36,
      "characters": 36,
      "tool": null,
      "tokens": {
        "of": "result",
        "estimated": {
          "tokens": 12,
          "method": "counted"
        },
        "real": {
          "tokens": 12,
          "method": "counted"
        }
      },
      "decision": {
        "delivery": "inline",
        "because": "bytes",
        "bytes": 36,
        "threshold": {
          "rule": "from",
          "tokens": 10000
        },
        "key": "proxy.threshold_tokens"
      }
    }
    --- stderr
    "#);
}

#[test]
fn f14_an_image_beside_text_is_left_alone() {
    let mut result = texts(&["A chart of the last week."]);
    let image = json!({"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"});
    result["content"].as_array_mut().unwrap().push(image.clone());
    insta::assert_snapshot!(ask(result.to_string(), &[]), @"
    status: 0
    --- stdout
    recognised  text
    found in    a text block of a tool result; 1 other block is left unchanged
    size        25 bytes, 25 characters
    tokens      7 (counted with o200k)
    tool        not given (name it with --tool to apply its policy)
    decision    inline: 25 bytes are too few for 10,000 tokens
    decided by  proxy.threshold_tokens
    --- stderr
    ");
    let only = json!({"content": [image]}).to_string();
    insta::assert_snapshot!(ask(&only, &[]), @"
    status: 0
    --- stdout
    recognised  nothing: there is no text
    found in    a tool result; 1 other block is left unchanged
    size        0 bytes, 0 characters
    tokens      0 (counted with o200k)
    tool        not given (name it with --tool to apply its policy)
    decision    inline: there is no text to store
    --- stderr
    ");
    insta::assert_snapshot!(ask_json(&only, &[]), @r#"
    status: 0
    --- stdout
    {
      "kind": "nothing",
      "tool_result": {
        "payload": null,
        "further_texts": 0,
        "other_blocks": 1
      },
      "bytes": 0,
      "characters": 0,
      "tool": null,
      "tokens": {
        "of": "result",
        "estimated": {
          "tokens": 0,
          "method": "counted"
        },
        "real": {
          "tokens": 0,
          "method": "counted"
        }
      },
      "decision": {
        "delivery": "inline",
        "because": "no_text"
      }
    }
    --- stderr
    "#);
}

#[test]
fn many_fields_are_cut_with_a_count_and_fit_80_columns() {
    let field = |i: usize| (format!("a_rather_long_field_name_{i:02}"), json!(i));
    let record: Value = Value::Object((0..40).map(field).collect());
    let run = ask(json!([record, record]).to_string(), &[]);
    insta::assert_snapshot!(run, @"
    status: 0
    --- stdout
    recognised  2 records in a JSON array
    fields      a_rather_long_field_name_00 integer,
                a_rather_long_field_name_01 integer,
                a_rather_long_field_name_02 integer,
                a_rather_long_field_name_03 integer,
                a_rather_long_field_name_04 integer,
                a_rather_long_field_name_05 integer,
                a_rather_long_field_name_06 integer,
                a_rather_long_field_name_07 integer, 32 more
    size        2,625 bytes, 2,625 characters
    tokens      882 (counted with o200k)
    tool        not given (name it with --tool to apply its policy)
    decision    inline: 2,625 bytes are too few for 10,000 tokens
    decided by  proxy.threshold_tokens
    --- stderr
    ");
    assert!(run.stdout.lines().all(|line| line.chars().count() <= 80));
}

#[test]
fn records_need_not_have_fields() {
    let run = ask("[1, 2, 3]", &[]);
    assert_eq!(run.lines("fields"), ["fields      none"]);
}

#[test]
fn names_from_a_result_cannot_steer_the_terminal() {
    let mut result = String::from(r#"{"a\u001b[2J":["#);
    for i in 0..9 {
        let _ =
            write!(result, "{}{{\"b\u{202e}\":{i},\"c\\u0007\":1}}", if i > 0 { "," } else { "" });
    }
    result.push_str("]}");
    let run = ask(&result, &["--tool", "x\u{1b}[31m"]);
    assert_eq!(run.status, 0);
    assert!(!run.stdout.contains(['\u{1b}', '\u{7}', '\u{202e}']), "{run}");
}

//! An MCP server with one tool per kind of result in `bench/questions/`. `--dump DIR` writes the results to
//! files instead, for `answers.py`.

use std::io::{self, BufRead as _, BufWriter, Write as _};
use std::path::Path;
use std::{env, fs};

use serde_json::{Value, json};
use testkit::questions::corpora;

fn main() -> io::Result<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let corpora = corpora();
    if let [flag, directory] = arguments.as_slice()
        && flag == "--dump"
    {
        for corpus in &corpora {
            let file = Path::new(directory).join(format!("{}.json", corpus.kind));
            fs::write(file, corpus.result.to_string())?;
        }
        return Ok(());
    }
    let mut out = BufWriter::new(io::stdout().lock());
    for line in io::stdin().lock().lines() {
        let Ok(message) = serde_json::from_str::<Value>(&line?) else { continue };
        let Some(id) = message.get("id").filter(|_| message.get("method").is_some()) else {
            continue;
        };
        let params = &message["params"];
        let result = match message["method"].as_str().unwrap_or_default() {
            "initialize" => json!({
                "protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}},
                "serverInfo": {"name": "questions", "version": "1"},
            }),
            "tools/list" => {
                let tools = corpora
                    .iter()
                    .map(|corpus| json!({"name": corpus.tool, "inputSchema": {"type": "object"}}));
                json!({"tools": tools.collect::<Vec<_>>()})
            }
            "tools/call" => {
                let corpus = corpora.iter().find(|corpus| params["name"] == corpus.tool);
                corpus.map_or_else(
                    || json!({"content": [], "isError": true}),
                    |corpus| corpus.result.clone(),
                )
            }
            _ => json!({}),
        };
        writeln!(out, r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)?;
        out.flush()?;
    }
    Ok(())
}

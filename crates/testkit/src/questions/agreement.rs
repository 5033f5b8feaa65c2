//! Checks that the answers in the files, those computed from the data, and those computed from the
//! serialized results are the same.

use std::error::Error;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::battery::Battery;
use super::corpora;

/// The answers by kind and question that `answers.py` computes from what `questions-server` returns.
/// `directory` is for the serialized results.
pub fn second_opinion(
    server: &Path,
    script: &Path,
    directory: &Path,
) -> Result<Value, Box<dyn Error + Send + Sync>> {
    let dumped = Command::new(server).arg("--dump").arg(directory).status()?;
    if !dumped.success() {
        return Err(format!("questions-server --dump: {dumped}").into());
    }
    let run = Command::new("python3").arg(script).arg(directory).output()?;
    if !run.status.success() {
        return Err(format!("answers.py: {}", String::from_utf8_lossy(&run.stderr)).into());
    }
    Ok(serde_json::from_slice(&run.stdout)?)
}

/// What the files state differently from the data or from the second opinion. Empty if all agree.
pub fn disagreements(batteries: &[Battery], second_opinion: &Value) -> Vec<String> {
    let corpora = corpora();
    let mut findings = Vec::new();
    for corpus in &corpora {
        let Some(battery) = batteries.iter().find(|battery| battery.kind == corpus.kind) else {
            findings.push(format!("{}: no file", corpus.kind));
            continue;
        };
        if battery.tool != corpus.tool {
            findings.push(format!("{}: the tool is {}", corpus.kind, corpus.tool));
        }
        for question in &battery.questions {
            let stated = Value::from(question.answer.clone());
            let at = format!("{}, {}", corpus.kind, question.id);
            if question.answer.is_empty() {
                findings.push(format!("{at}: no answer"));
            }
            let computed = corpus.answers.get(question.id.as_str());
            if computed != Some(&stated) {
                findings
                    .push(format!("{at}: the data gives {computed:?}, the file states {stated}"));
            }
            let second = &second_opinion[corpus.kind][&question.id];
            if *second != stated {
                findings.push(format!("{at}: answers.py gives {second}, the file states {stated}"));
            }
        }
        if corpus.answers.len() != battery.questions.len() {
            findings.push(format!(
                "{}: {} answers for {} questions",
                corpus.kind,
                corpus.answers.len(),
                battery.questions.len()
            ));
        }
    }
    findings
}

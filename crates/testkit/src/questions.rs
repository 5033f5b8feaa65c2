//! The questions of `bench/questions/`: tool results of many kinds, questions about them with their
//! answers, and typical wrong first attempts.
//!
//! [`corpora`] generates the tool results and computes the answers from the data before it is
//! serialized; `bench/questions/answers.py` computes them again from the serialized results. The
//! program `questions-server` is an MCP server that returns them. [`Session`] asks the built program
//! everything, as a client would: it calls the tool, reads the descriptor, and sends the recorded
//! calls.

mod agreement;
mod battery;
mod business;
mod code_host;
mod corpus;
mod hint;
mod operations;
mod reply;
mod rows;
mod run;
mod statement;
mod text;

pub use agreement::{disagreements, second_opinion};
pub use battery::{Attempt, Battery, Call, Compare, Question};
pub use corpus::Corpus;
pub use hint::complete_call;
pub use run::{AttemptOutcome, KindReport, Outcome, QuestionOutcome, Session};

/// All tool results.
pub fn corpora() -> Vec<Corpus> {
    vec![
        code_host::issues(),
        code_host::graphql(),
        operations::services(),
        business::workspace(),
        business::orders(),
        business::transactions(),
        text::log(),
        business::invoices(),
        operations::report(),
        operations::pods(),
        business::events(),
        code_host::commits(),
        text::picture(),
        text::traces(),
        text::key_values(),
        text::prefixed_json(),
    ]
}

/// The most tokens of a descriptor at default settings.
pub const MAX_DESCRIPTOR_TOKENS: u64 = 850;
/// The same without preview, `lro.around` and `lro.notes`.
pub const MAX_LEAN_TOKENS: u64 = 400;

/// The number of wrong attempts that are understood or corrected, and of all.
pub fn recovered(reports: &[KindReport]) -> (usize, usize) {
    let attempts = || reports.iter().flat_map(|report| &report.attempts);
    (attempts().filter(|attempt| attempt.outcome != Outcome::Fail).count(), attempts().count())
}

/// The wrong attempts that are neither understood nor corrected.
pub fn failed_attempts(reports: &[KindReport]) -> Vec<String> {
    let failed = reports.iter().flat_map(|report| {
        let failed = report.attempts.iter().filter(|attempt| attempt.outcome == Outcome::Fail);
        failed.map(move |attempt| (&report.kind, attempt))
    });
    failed
        .map(|(kind, attempt)| {
            format!("{kind}, {}: {}\n{}", attempt.mistake, attempt.call, attempt.reply)
        })
        .collect()
}

/// The questions that are not answered and the descriptors that are too large. Empty if there are none.
pub fn misses(reports: &[KindReport]) -> Vec<String> {
    let mut misses = Vec::new();
    for report in reports {
        let kind = &report.kind;
        for question in report.questions.iter().filter(|question| !question.answered) {
            misses.push(format!("{kind}, {}: not answered: {}", question.id, question.reply));
        }
        let sizes = [
            ("descriptor", report.descriptor_tokens, MAX_DESCRIPTOR_TOKENS),
            ("lean descriptor", report.lean_descriptor_tokens, MAX_LEAN_TOKENS),
        ];
        for (what, tokens, most) in sizes.into_iter().filter(|(_, tokens, most)| tokens > most) {
            misses.push(format!("{kind}: {what} of {tokens} tokens, at most {most}"));
        }
    }
    misses
}

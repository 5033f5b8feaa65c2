//! Classes of mistakes in a conversation about a question.

/// A call of a tool that there is not.
pub(super) const UNKNOWN_TOOL: &str = "unknown tool";
/// A message that was meant as a call, and could not be read as one.
pub(super) const CALL_NOT_PARSED: &str = "call not parsed";
/// A call with the arguments of an earlier one.
pub(super) const REPEATED_CALL: &str = "same call repeated";
/// A reply is the answer, and the model does not state it.
pub(super) const NOT_STATED: &str = "right reply, answer not stated";
/// No call, no right answer, and no other mistake.
pub(super) const NO_CALL: &str = "no call";
/// A message reached its limit of tokens.
pub(super) const OUTPUT_LIMIT: &str = "output limit";

/// Messages of SQLite that have a class of their own.
const SQL_MESSAGES: [&str; 2] = ["no such table", "no such column"];

/// The class of an error that a tool replied.
pub(super) fn class_of_error(reply: &str) -> String {
    let message = SQL_MESSAGES.iter().find(|message| reply.contains(*message));
    if let Some(message) = message {
        return (*message).to_owned();
    }
    let rest = reply.strip_prefix("Error (");
    let class = rest.and_then(|rest| rest.split_once(')')).map(|(class, _)| class);
    format!("error: {}", class.unwrap_or("other"))
}

/// The `most` most common mistakes with their numbers, in alphabetical order if equally common.
pub(super) fn most_common<'a>(
    mistakes: impl Iterator<Item = &'a str>,
    most: usize,
) -> Vec<(String, usize)> {
    let mut counts: Vec<(String, usize)> = Vec::new();
    for mistake in mistakes {
        match counts.iter_mut().find(|(name, _)| name == mistake) {
            Some((_, count)) => *count += 1,
            None => counts.push((mistake.to_owned(), 1)),
        }
    }
    counts.sort_by(|(one, first), (other, second)| second.cmp(first).then(one.cmp(other)));
    counts.truncate(most);
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_the_class_of_their_reply_or_of_their_message() {
        let of = class_of_error;
        assert_eq!(of("Error (syntax): near \"order\"\nHint: x"), "error: syntax");
        assert_eq!(of("Error (query): no such column: a.b. Nearest columns: b"), "no such column");
        assert_eq!(of("Error (query): the query cannot be run: no such table: t"), "no such table");
        assert_eq!(of("{\"code\":-32602}"), "error: other");
    }

    #[test]
    fn the_most_common_mistakes_come_first() {
        let mistakes = ["b", "a", "c", "b", "c", "c"];
        let expected = [("c".to_owned(), 3), ("b".to_owned(), 2)];
        assert_eq!(most_common(mistakes.into_iter(), 2), expected);
        assert_eq!(most_common(["b", "a"].into_iter(), 9)[0].0, "a");
    }
}

//! The wording of the questions.

use crate::task::{Comparison, CorpusKind, Family, Parameters, Predicate};

/// The question for parameters.
pub(super) fn text(family: Family, kind: CorpusKind, parameters: &Parameters) -> String {
    match parameters {
        Parameters::Ids { ids } if family == Family::IdLookupPaper => format!(
            "Determine how many of these IDs exist in the memory store: {}. Answer with the \
             number.",
            ids.join(", ")
        ),
        Parameters::Ids { ids } => format!(
            "How many of these ids are the {} of one of the {}? An id that is only mentioned \
             inside other {} does not count. The ids: {}. Answer with the number.",
            id_name(kind),
            plural(kind),
            plural(kind),
            ids.join(", ")
        ),
        Parameters::Filter { namespace, min_priority, word } => format!(
            "How many memories in the namespace {namespace} or below it have an \
             extensions.bench.priority of at least {min_priority} and contain the whole word \
             \"{word}\", in any case, in their content? Answer with the number."
        ),
        Parameters::Matching { predicates } => {
            format!("How many {} {}? Answer with the number.", plural(kind), conditions(predicates))
        }
        Parameters::Group { by, predicates } => format!(
            "Consider the {} that {}. Which value of `{by}` do most of them have? One with several \
             values counts for each. Answer with the value.",
            plural(kind),
            conditions(predicates)
        ),
        Parameters::Top { tag, min_priority, n } => format!(
            "What are the titles of the {n} memories with the highest provenance.confidence among \
             those with the tag \"{tag}\" and an extensions.bench.priority of at least \
             {min_priority}? Order them by confidence, highest first, and equal ones by id in \
             ascending order. Answer with the list of titles, or with \"none\" if no memory \
             matches."
        ),
        Parameters::Time { after, tag, last } => format!(
            "What is the id of the {} memory that was created after {after} and has the tag \
             \"{tag}\"? Answer with the id, or with \"none\" if no memory matches.",
            if *last { "last" } else { "first" }
        ),
        Parameters::Related { namespace, min_priority, min_source_priority } => format!(
            "Take the memories in the namespace {namespace} or below it that have an \
             extensions.bench.priority of at least {min_priority}. How many memories with an \
             extensions.bench.priority of at least {min_source_priority} have a relationship whose \
             target is one of them? A target is `urn:mif:` and an id. Answer with the number."
        ),
        Parameters::Sentence { id, after } => format!(
            "Which sentence follows directly after \"{after}\" in the {} of the {} {id}? Answer \
             with its exact words, including the full stop.",
            kind.text_field().unwrap_or("text"),
            noun(kind)
        ),
        Parameters::Message { request } => format!(
            "What is the message of the line with req={request}? The message is everything after \
             the request id and one space. Answer with its exact words."
        ),
        Parameters::Both { first, second } => format!(
            "Two questions. First: {} Second: {} Answer with the list of the two answers.",
            text(family, kind, first),
            text(family, kind, second)
        ),
    }
}

fn noun(kind: CorpusKind) -> &'static str {
    match kind {
        CorpusKind::Memories => "memory",
        CorpusKind::Issues => "issue",
        CorpusKind::Log => "line",
        CorpusKind::Map => "service",
    }
}

fn plural(kind: CorpusKind) -> &'static str {
    match kind {
        CorpusKind::Memories => "memories",
        CorpusKind::Issues => "issues",
        CorpusKind::Log => "lines",
        CorpusKind::Map => "services",
    }
}

fn id_name(kind: CorpusKind) -> &'static str {
    match kind {
        CorpusKind::Memories => "id",
        CorpusKind::Issues | CorpusKind::Map => "key",
        CorpusKind::Log => "request id (after `req=`)",
    }
}

/// The predicates as a clause without its subject.
fn conditions(predicates: &[Predicate]) -> String {
    let clauses: Vec<String> = predicates.iter().map(condition).collect();
    match clauses.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, others)) => format!("{} and {last}", others.join(", ")),
        None => String::new(),
    }
}

fn condition(predicate: &Predicate) -> String {
    let field = &predicate.field;
    match &predicate.comparison {
        Comparison::Equals(text) => format!("have `{field}` \"{text}\""),
        Comparison::AtLeast(least) => format!("have `{field}` of at least {least}"),
        Comparison::Word(word) => {
            format!("contain the whole word \"{word}\", in any case, in `{field}`")
        }
        Comparison::Within(namespace) => format!("have `{field}` {namespace} or one below it"),
    }
}

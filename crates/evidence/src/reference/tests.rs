//! Both references on records whose answers can be seen.

use super::iteration::ParsedRecords;
use super::no_match;
use super::sqlite::RecordDatabase;
use crate::corpora::Corpus;
use crate::task::{Answer, Comparison, CorpusId, CorpusKind, Parameters, Predicate};

fn corpus(kind: CorpusKind, size: usize, text: &str) -> Corpus {
    Corpus { id: CorpusId { kind, size }, bytes: text.as_bytes().to_vec() }
}

fn memories() -> Corpus {
    let lines = [
        r#"{"id":"a","title":"A","namespace":"_semantic/x","tags":["t","u"],"created":"2026-01-01T10:00:00Z","content":"The HERON is new. It works.\nIt is red.","relationships":[{"type":"uses","target":"urn:mif:c"}],"provenance":{"confidence":0.5},"extensions":{"bench":{"priority":3}}}"#,
        r#"{"id":"b","title":"B","namespace":"_semantic","tags":["t"],"created":"2026-01-03T10:00:00Z","content":"heron, heronry and \"more\". It works.","relationships":[{"type":"uses","target":"urn:mif:entity:c"},{"type":"uses","target":"urn:mif:zz"}],"provenance":{"confidence":0.9},"extensions":{"planner":{"priority":5},"bench":{"priority":1}}}"#,
        r#"{"id":"c","title":"C","namespace":"_semanticx","tags":["t"],"created":"2026-01-02T10:00:00Z","content":"Heronry.","provenance":{"confidence":0.9},"extensions":{"bench":{"priority":5}}}"#,
        r#"{"id":"d","title":"D","namespace":"_episodic","created":"2026-01-04T10:00:00Z","content":"None.","relationships":[{"type":"uses","target":"urn:mif:a"},{"type":"uses","target":"urn:mif:b"}],"provenance":{"confidence":1.0},"extensions":{"bench":{"priority":2}}}"#,
    ];
    corpus(CorpusKind::Memories, lines.len(), &(lines.join("\n") + "\n"))
}

/// The answer of both references, which must be the same.
fn answer(corpus: &Corpus, parameters: &Parameters) -> Answer {
    let iterated = ParsedRecords::parse(corpus).unwrap().answer(parameters).unwrap();
    let queried = RecordDatabase::open(corpus).unwrap().answer(parameters).unwrap();
    assert_eq!(iterated, queried, "{parameters:?}");
    iterated
}

fn text(text: &str) -> Answer {
    Answer::Text(text.to_owned())
}

#[test]
fn only_ids_of_records_are_present() {
    let ids = ["a", "zz", "c", "e", "A"].map(str::to_owned).to_vec();
    assert_eq!(answer(&memories(), &Parameters::Ids { ids }), Answer::Count(2));
}

#[test]
fn a_filter_compares_segments_whole_words_and_the_right_priority() {
    let filter = |namespace: &str, min_priority, word: &str| Parameters::Filter {
        namespace: namespace.to_owned(),
        min_priority,
        word: word.to_owned(),
    };
    let memories = memories();
    assert_eq!(answer(&memories, &filter("_semantic", 1, "Heron")), Answer::Count(2));
    assert_eq!(answer(&memories, &filter("_semantic", 2, "Heron")), Answer::Count(1));
    assert_eq!(answer(&memories, &filter("_semantic", 4, "Heron")), Answer::Count(0));
    assert_eq!(answer(&memories, &filter("_semantic/x", 1, "heron")), Answer::Count(1));
    assert_eq!(answer(&memories, &filter("_semanticx", 1, "heron")), Answer::Count(0));
    assert_eq!(answer(&memories, &filter("_semantic", 1, "more")), Answer::Count(1));
}

#[test]
fn the_largest_group_is_found_among_the_records_that_match() {
    let group = |least| Parameters::Group {
        by: "tags".to_owned(),
        predicates: vec![Predicate {
            field: "extensions.bench.priority".to_owned(),
            comparison: Comparison::AtLeast(least),
        }],
    };
    assert_eq!(answer(&memories(), &group(1)), text("t"));
    assert_eq!(answer(&memories(), &group(9)), no_match());
}

#[test]
fn titles_are_ordered_by_confidence_and_then_by_id() {
    let top = |tag: &str, min_priority| Parameters::Top { tag: tag.to_owned(), min_priority, n: 3 };
    let titles = |titles: &[&str]| Answer::List(titles.iter().map(|title| text(title)).collect());
    let memories = memories();
    assert_eq!(answer(&memories, &top("t", 1)), titles(&["B", "C", "A"]));
    assert_eq!(answer(&memories, &top("t", 3)), titles(&["C", "A"]));
    assert_eq!(answer(&memories, &top("v", 1)), no_match());
}

#[test]
fn times_are_after_the_date() {
    let time =
        |after: &str, last| Parameters::Time { after: after.to_owned(), tag: "t".to_owned(), last };
    let memories = memories();
    assert_eq!(answer(&memories, &time("2026-01-01T11:00:00Z", false)), text("c"));
    assert_eq!(answer(&memories, &time("2026-01-01T11:00:00Z", true)), text("b"));
    assert_eq!(answer(&memories, &time("2026-01-03T10:00:00Z", false)), no_match());
}

#[test]
fn related_memories_count_once() {
    let related = |namespace: &str, min_priority, min_source_priority| Parameters::Related {
        namespace: namespace.to_owned(),
        min_priority,
        min_source_priority,
    };
    let memories = memories();
    assert_eq!(answer(&memories, &related("_semantic", 1, 1)), Answer::Count(1));
    assert_eq!(answer(&memories, &related("_semantic", 1, 3)), Answer::Count(0));
    assert_eq!(answer(&memories, &related("_semanticx", 5, 3)), Answer::Count(1));
    assert_eq!(answer(&memories, &related("_episodic", 1, 1)), Answer::Count(0));
}

#[test]
fn the_next_sentence_is_exact() {
    let sentence =
        |id: &str, after: &str| Parameters::Sentence { id: id.to_owned(), after: after.to_owned() };
    let memories = memories();
    assert_eq!(answer(&memories, &sentence("a", "The HERON is new.")), text("It works."));
    assert_eq!(answer(&memories, &sentence("a", "It works.")), text("It is red."));
    assert_eq!(answer(&memories, &sentence("a", "It is red.")), no_match());
    assert_eq!(answer(&memories, &sentence("b", "It is red.")), no_match());
    assert_eq!(answer(&memories, &sentence("e", "It works.")), no_match());
}

#[test]
fn two_questions_have_two_answers() {
    let ids = vec!["a".to_owned()];
    let first = Parameters::Ids { ids };
    let second = Parameters::Sentence { id: "a".to_owned(), after: "It works.".to_owned() };
    let both = Parameters::Both { first: Box::new(first), second: Box::new(second) };
    let expected = Answer::List(vec![Answer::Count(1), text("It is red.")]);
    assert_eq!(answer(&memories(), &both), expected);
}

fn matching(predicates: &[(&str, Comparison)]) -> Parameters {
    let predicate = |(field, comparison): &(&str, Comparison)| Predicate {
        field: (*field).to_owned(),
        comparison: comparison.clone(),
    };
    Parameters::Matching { predicates: predicates.iter().map(predicate).collect() }
}

#[test]
fn nested_fields_and_arrays_are_compared() {
    let issues = corpus(
        CorpusKind::Issues,
        2,
        r#"{"total_count":2,"items":[
            {"key":"X-1","state":"open","author":{"team":"core"},"labels":[{"name":"bug"},{"name":"ci"}],"assignees":[],"milestone":null,"comments":{"count":4},"body":"One. Two."},
            {"key":"X-2","state":"open","author":{"team":"web"},"labels":[{"name":"ci"}],"assignees":[{"login":"ann"}],"milestone":{"title":"v1"},"comments":{"count":9},"body":"Three."}]}"#,
    );
    let equals = |text: &str| Comparison::Equals(text.to_owned());
    for (predicates, count) in [
        (vec![("labels.name", equals("ci"))], 2),
        (vec![("labels.name", equals("ci")), ("comments.count", Comparison::AtLeast(5))], 1),
        (vec![("milestone.title", equals("v1")), ("author.team", equals("core"))], 0),
        (vec![("assignees.login", equals("ann"))], 1),
    ] {
        assert_eq!(answer(&issues, &matching(&predicates)), Answer::Count(count));
    }
    let sentence = Parameters::Sentence { id: "X-1".to_owned(), after: "One.".to_owned() };
    assert_eq!(answer(&issues, &sentence), text("Two."));
}

#[test]
fn lines_of_a_log_are_split_into_fields() {
    let log = corpus(
        CorpusKind::Log,
        3,
        "2026-01-05T00:00:03.414Z ERROR mailer node-03 req=0a Timeout of 0b ignored\n\
         2026-01-05T00:00:04.000Z INFO mailer node-04 req=0c timeouts counter \"x\\y\"\n\
         2026-01-05T00:00:05.000Z ERROR search node-03 req=0d upstream TIMEOUT\n",
    );
    let timeout = ("message", Comparison::Word("timeout".to_owned()));
    let equals = |text: &str| Comparison::Equals(text.to_owned());
    assert_eq!(answer(&log, &matching(std::slice::from_ref(&timeout))), Answer::Count(2));
    let of_mailer = [("service", equals("mailer")), timeout.clone()];
    assert_eq!(answer(&log, &matching(&of_mailer)), Answer::Count(1));
    let at_host = [("host", equals("node-03")), ("level", equals("ERROR"))];
    assert_eq!(answer(&log, &matching(&at_host)), Answer::Count(2));
    let message = |request: &str| Parameters::Message { request: request.to_owned() };
    assert_eq!(answer(&log, &message("0c")), text("timeouts counter \"x\\y\""));
    assert_eq!(answer(&log, &message("0b")), no_match());
}

#[test]
fn the_members_of_a_map_are_records() {
    let map = corpus(
        CorpusKind::Map,
        2,
        r#"{"svc-1":{"owner":"a","replicas":3,"depends_on":["svc-3"],"notes":"One. Two."},"svc-2":{"owner":"a","replicas":1,"depends_on":[],"notes":"Three."}}"#,
    );
    let ids = ["svc-1", "svc-3"].map(str::to_owned).to_vec();
    assert_eq!(answer(&map, &Parameters::Ids { ids }), Answer::Count(1));
    let predicates =
        [("owner", Comparison::Equals("a".to_owned())), ("replicas", Comparison::AtLeast(2))];
    assert_eq!(answer(&map, &matching(&predicates)), Answer::Count(1));
}

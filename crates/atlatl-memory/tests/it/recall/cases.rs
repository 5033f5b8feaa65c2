//! The test cases of the services, for any store.

use std::sync::Arc;

use atlatl_memory::contract::BlockOn;
use atlatl_memory::{
    CaptureService, EmbedError, Embedder, EmptyAnswer, Filter, Highlighter, MatchedBy,
    MemoryIdSeed, MemoryStore, Mode, OnConflict, PromptIntegration, RankPosition, RankedBy,
    RecallRequest, RecallService, SearchHit, SearchRequest, SearchResults, SearchService,
    StoreError, TotalAccuracy, embed_missing,
};
use chrono::{DateTime, Utc};
use mif::{Map, Memory, MemoryId, Value};
use testkit::corpus;

/// An empty store.
pub(crate) struct Place {
    pub(crate) store: Arc<dyn MemoryStore>,
}

fn now() -> DateTime<Utc> {
    "2026-11-15T10:00:00Z".parse().unwrap()
}

fn fields(json: &str) -> Map {
    let Value::Object(map) = json.parse().unwrap() else { panic!("an object") };
    map
}

fn capture(place: &Place, n: u8, json: &str) -> Memory {
    let at = MemoryIdSeed { now: now(), random: u128::from(n) };
    CaptureService::new(place.store.clone()).capture(fields(json), at).wait().unwrap()
}

fn titles(hits: &[SearchHit]) -> Vec<&str> {
    hits.iter().map(|hit| hit.memory.title.as_deref().unwrap_or_default()).collect()
}

pub(crate) fn a_captured_memory_has_what_can_be_worked_out(place: &Place) {
    let memory = capture(
        place,
        1,
        r##"{"memory_type":"procedural","content":"# Release\nSee [[checklist]].","mood":1.50}"##,
    );
    assert_eq!(memory.title.as_deref(), Some("Release"));
    assert_eq!(memory.namespace.as_ref().unwrap().as_str(), "_procedural");
    assert_eq!(memory.tags(), [] as [&str; 0]);
    assert_eq!(memory.wiki_links, Some(vec!["checklist".to_owned()]));
    assert!(memory.to_json().contains(r#""mood":1.50"#), "unknown fields are kept");
    assert_eq!(place.store.get(&memory.id).wait().unwrap(), Some(memory.clone()));

    let capture = CaptureService::new(place.store.clone());
    let change = fields(r#"{"content":"Deploy\n[[steps]]","mood":null,"id":"x","created":"x"}"#);
    let later = now() + chrono::TimeDelta::hours(1);
    let changed = capture.update(&memory.id, &change, later).wait().unwrap().unwrap();
    assert_eq!(changed.title.as_deref(), Some("Deploy"), "it was worked out from the content");
    assert_eq!(changed.wiki_links, Some(vec!["steps".to_owned()]));
    assert_eq!(changed.modified.as_ref().unwrap().instant(), later);
    assert_eq!((&changed.id, &changed.created), (&memory.id, &memory.created));
    assert!(!changed.to_json().contains("mood"));

    let refused = capture.update(&memory.id, &fields(r#"{"memory_type":"odd"}"#), later).wait();
    assert!(matches!(refused, Err(StoreError::Invalid(_))));
    assert!(capture.delete(&memory.id).wait().unwrap());
    assert_eq!(capture.update(&memory.id, &Map::new(), later).wait().unwrap(), None);
}

pub(crate) fn the_best_answer_has_1_and_time_takes_weight(place: &Place) {
    for (n, title, decay) in [
        (1, "fresh", r#"{"model":"exponential","half_life":"P7D"}"#),
        (
            2,
            "stale",
            r#"{"model":"exponential","half_life":"P7D","last_reinforced":"2026-01-01T00:00:00Z"}"#,
        ),
        (3, "fixed", r#"{"model":"none"}"#),
    ] {
        capture(
            place,
            n,
            &format!(
                r#"{{"memory_type":"semantic","content":"the cache is redis","title":"{title}","temporal":{{"decay":{decay}}}}}"#
            ),
        );
    }
    let recall = RecallService::new(place.store.clone(), None);
    let hits = recall.recall(&RecallRequest::new("redis cache", now())).wait().unwrap();
    assert_eq!(titles(&hits)[2], "stale");
    assert!((hits[0].score - 1.0).abs() < f64::EPSILON);
    assert!(hits[2].score < 0.01, "{}", hits[2].score);
    assert!(hits.iter().all(|hit| hit.lexical.is_some() && hit.vector.is_none()));
}

pub(crate) fn all_of_ten_thousand_are_recalled_and_pages_cover_them_once(place: &Place) {
    let memories = corpus::memories(12_000, 7);
    place.store.put(&memories, OnConflict::Keep).wait().unwrap();
    let recall = RecallService::new(place.store.clone(), None);
    let mut request = RecallRequest::new("the deploy service database cache", now());
    let all = recall.results(&request).wait().unwrap();
    assert!(all.total_matches > 1000, "{}", all.total_matches);
    assert_eq!(all.hits.len() as u64, all.total_matches.min(10_000));
    request.limit = Some(777);
    let mut met = Vec::new();
    loop {
        let page = recall.results(&request).wait().unwrap();
        assert_eq!(page.total_matches, all.total_matches);
        met.extend(page.hits.iter().map(|hit| hit.memory.id.clone()));
        let last = page.hits.last().unwrap();
        request.after = Some(RankPosition { score: last.score, id: last.memory.id.clone() });
        if !page.more {
            break;
        }
    }
    let ids: Vec<_> = all.hits.iter().map(|hit| hit.memory.id.clone()).collect();
    assert!(met == ids, "pages and the whole agree");
}

pub(crate) fn the_first_page_is_the_beginning_of_all_pages(place: &Place) {
    let memories: Vec<Memory> = corpus::memories(2_000, 21)
        .into_iter()
        .enumerate()
        .map(|(n, memory)| {
            let json = memory.to_json();
            if n % 3 > 0 || json.contains("\"temporal\"") {
                return memory;
            }
            let decay = r#""temporal":{"decay":{"model":"exponential","half_life":"P90D"}}"#;
            Memory::from_json(&format!("{},{decay}}}", &json[..json.len() - 1])).unwrap()
        })
        .collect();
    place.store.put(&memories, OnConflict::Keep).wait().unwrap();
    let embedder: Arc<dyn Embedder> = Arc::new(Topics { broken: false });
    while embed_missing(&*place.store, &embedder).wait().unwrap() > 0 {}
    for embedder in [None, Some(embedder)] {
        let recall = RecallService::new(place.store.clone(), embedder);
        for memory in memories.iter().step_by(100) {
            let words: Vec<&str> = memory.content.split_whitespace().take(5).collect();
            let mut request = RecallRequest::new(words.join(" "), now());
            let ids = |found: &SearchResults| {
                let id = |hit: &SearchHit| (hit.memory.id.clone(), hit.score.to_bits());
                found.hits.iter().take(10).map(id).collect::<Vec<_>>()
            };
            let all = recall.results(&request).wait().unwrap();
            request.limit = Some(10);
            assert_eq!(ids(&recall.results(&request).wait().unwrap()), ids(&all), "{words:?}");
        }
    }
}

fn corrections(found: &SearchResults) -> Vec<(&str, Vec<&str>)> {
    let pairs = found.corrections.iter();
    pairs.map(|one| (one.written.as_str(), one.used.iter().map(String::as_str).collect())).collect()
}

pub(crate) fn a_misspelt_word_finds_what_is_meant(place: &Place) {
    for (n, content) in [
        (1, "We deploy on Thursdays."),
        (2, "The café opens at nine."),
        (3, "Backups run at night."),
    ] {
        capture(place, n, &format!(r#"{{"memory_type":"semantic","content":"{content}"}}"#));
    }
    let recall = RecallService::new(place.store.clone(), None);
    let ask = |query: &str| recall.results(&RecallRequest::new(query, now())).wait().unwrap();
    for (query, corrected, expected) in [
        ("deploy", vec![], vec!["We deploy on Thursdays."]),
        ("Deplyo", vec![("Deplyo", vec!["deploy"])], vec!["We deploy on Thursdays."]),
        ("\"deplyo\"", vec![], vec![]),
        (
            "deplyo nigth",
            vec![("deplyo", vec!["deploy"]), ("nigth", vec!["night"])],
            vec!["We deploy on Thursdays.", "Backups run at night."],
        ),
        ("caffé", vec![("caffé", vec!["café"])], vec!["The café opens at nine."]),
        ("opn", vec![("opn", vec!["open"])], vec!["The café opens at nine."]),
        ("zebra", vec![], vec![]),
        // A known word is not corrected, and neither is a short one beside it.
        ("backups opn", vec![], vec!["Backups run at night."]),
    ] {
        let found = ask(query);
        assert_eq!(corrections(&found), corrected, "{query}");
        let mut titles = titles(&found.hits);
        titles.sort_unstable();
        let mut expected = expected;
        expected.sort_unstable();
        assert_eq!(titles, expected, "{query}");
    }
    let search = SearchService::new(place.store.clone(), None);
    let found = search.results(&SearchRequest::new("thursdays deplyo", now())).wait().unwrap();
    assert_eq!(titles(&found.hits), ["We deploy on Thursdays."]);
    assert_eq!(corrections(&found), [("deplyo", vec!["deploy"])]);
    let found = search.results(&SearchRequest::new("thursdays nigth", now())).wait().unwrap();
    assert!(found.hits.is_empty(), "all words must match");
    // A word that the model knows is right, although no memory contains it.
    assert_eq!(corrections(&ask("right")), [("right", vec!["night"])]);
    let model: Arc<dyn Embedder> = Arc::new(Topics { broken: false });
    let recall = RecallService::new(place.store.clone(), Some(model));
    let found = recall.results(&RecallRequest::new("right", now())).wait().unwrap();
    assert_eq!(corrections(&found), []);
}

pub(crate) fn an_empty_answer_says_why(place: &Place) {
    let recall = RecallService::new(place.store.clone(), None);
    let search = SearchService::new(place.store.clone(), None);
    let recalled = |query: &str, tag: Option<&str>| {
        let mut request = RecallRequest::new(query, now());
        request.filter.tags = tag.map(str::to_owned).into_iter().collect();
        recall.results(&request).wait().unwrap().empty
    };
    let searched =
        |query: &str| search.results(&SearchRequest::new(query, now())).wait().unwrap().empty;
    assert_eq!(recalled("redis", None), Some(EmptyAnswer::NothingStored));
    for (n, fields) in [
        (1, r#""content":"We deploy on Thursdays.","tags":["ops"]"#),
        (2, r#""content":"Redis is the cache.""#),
        (3, r#""content":"Notes about herons.","status":"archived""#),
    ] {
        capture(place, n, &format!(r#"{{"memory_type":"semantic",{fields}}}"#));
    }
    let unknown = |words: &[&str]| {
        Some(EmptyAnswer::UnknownWords(words.iter().map(|&word| word.to_owned()).collect()))
    };
    let filtered = |filters: &[&'static str]| {
        let (accuracy, filters) = (TotalAccuracy::Exact, filters.to_vec());
        Some(EmptyAnswer::Filtered { matches: 1, accuracy, filters })
    };
    assert_eq!(recalled("redis", None), None);
    assert_eq!(recalled("zebra 4711", None), unknown(&["zebra", "4711"]));
    assert_eq!(recalled("redis", Some("ops")), filtered(&["tags"]));
    assert_eq!(recalled("heron", None), filtered(&["status"]));
    assert_eq!(searched("redis zebra"), unknown(&["zebra"]));
    let accuracy = TotalAccuracy::Exact;
    assert_eq!(searched("redis thursdays"), Some(EmptyAnswer::NotTogether { some: 2, accuracy }));
    assert_eq!(recalled("…", None), None);
}

pub(crate) fn g63_hybrid_is_said_only_if_vectors_took_part(place: &Place) {
    capture(place, 1, r#"{"memory_type":"semantic","content":"We use Postgres."}"#);
    let embedder: Arc<dyn Embedder> = Arc::new(Topics { broken: false });
    let search = SearchService::new(place.store.clone(), Some(embedder.clone()));
    let ask = |query: &str, mode, tags: &[&str]| {
        let mut request = SearchRequest::new(query, now());
        request.mode = mode;
        request.filter.tags = tags.iter().map(|&tag| tag.to_owned()).collect();
        let found = search.results(&request).wait().unwrap();
        (found.ranked_by, found.warning, found.hits.len())
    };
    for mode in [Mode::Hybrid, Mode::Vector] {
        let (ranked_by, warning, hits) = ask("postgres", mode, &[]);
        assert_eq!((ranked_by, hits), (RankedBy::Lexical, 1), "{mode:?}");
        let warning = warning.unwrap();
        assert!(warning.contains("no memory has a vector yet: ranked only by words"), "{warning}");
        assert_eq!(ask("postgres", mode, &["none"]), (RankedBy::Lexical, None, 0), "{mode:?}");
    }
    while embed_missing(&*place.store, &embedder).wait().unwrap() > 0 {}
    assert_eq!(ask("database", Mode::Hybrid, &[]), (RankedBy::Hybrid, None, 1));
    assert_eq!(ask("database", Mode::Vector, &[]), (RankedBy::Vector, None, 1));
    assert_eq!(ask("postgres", Mode::Lexical, &[]), (RankedBy::Lexical, None, 1));
    assert_eq!(ask("database", Mode::Hybrid, &["none"]), (RankedBy::Lexical, None, 0));
}

/// Stores seven memories with the same words and different times, and ten others.
fn put_walks(place: &Place) {
    let memory = |n: u128, created: &str, content: &str, temporal: &str| {
        let id = MemoryId::from_u128(n);
        let json = format!(
            r#"{{"id":"{}","memory_type":"episodic","content":"{content}","created":"{created}T12:00:00Z","temporal":{{{temporal}}}}}"#,
            id.as_str()
        );
        Memory::from_json(&json).unwrap()
    };
    let valid = r#""valid_from":"2026-03-20T00:00:00Z","valid_until":"2026-03-25T00:00:00Z""#;
    let recorded = r#""recorded_at":"2024-03-30T00:00:00Z""#;
    let walks = [
        (1, "2026-01-10", ""),
        (2, "2026-02-10", ""),
        (3, "2026-03-05", ""),
        (4, "2024-03-07", ""),
        (5, "2026-04-01", valid),
        (6, "2026-04-02", recorded),
        (7, "2026-10-20", ""),
    ];
    let walk = |(n, created, temporal)| memory(n, created, "Ana saw the harbour.", temporal);
    let mut memories: Vec<Memory> = walks.into_iter().map(walk).collect();
    memories.extend((8..18).map(|n| memory(n, "2026-06-01", "Backups run at night.", "")));
    place.store.put(&memories, OnConflict::Keep).wait().unwrap();
}

/// Returns recalls with and without vectors.
fn recalls(place: &Place) -> [RecallService; 2] {
    let embedder: Arc<dyn Embedder> = Arc::new(Topics { broken: false });
    while embed_missing(&*place.store, &embedder).wait().unwrap() > 0 {}
    [None, Some(embedder)].map(|embedder| RecallService::new(place.store.clone(), embedder))
}

pub(crate) fn a_month_in_the_question_prefers_memories_of_that_month(place: &Place) {
    put_walks(place);
    for recall in recalls(place) {
        for (query, expected) in [
            ("what did Ana see in the harbour", [1, 2, 3, 4, 5, 6, 7]),
            ("what did Ana see in the harbour in March", [3, 4, 5, 6, 1, 2, 7]),
            ("what did Ana see in the harbour in March 2024", [4, 6, 1, 2, 3, 5, 7]),
            ("what did Ana see in the harbour last month", [7, 1, 2, 3, 4, 5, 6]),
            ("what did Ana see in the harbour \"in March\"", [1, 2, 3, 4, 5, 6, 7]),
        ] {
            let mut request = RecallRequest::new(query, now());
            for limit in [None, Some(3)] {
                request.limit = limit;
                let hits = recall.recall(&request).wait().unwrap();
                let ids: Vec<u128> =
                    hits.iter().take(7).map(|hit| hit.memory.id.as_u128()).collect();
                assert_eq!(ids, expected[..limit.unwrap_or(7)], "{query}");
                assert!((hits[0].score - 1.0).abs() < f64::EPSILON, "{query}");
            }
        }
    }
}

pub(crate) fn a_month_that_no_memory_has_changes_nothing(place: &Place) {
    put_walks(place);
    for recall in recalls(place) {
        let ranking = |query: &str| -> Vec<(u128, u64)> {
            let hits = recall.recall(&RecallRequest::new(query, now())).wait().unwrap();
            hits.iter().map(|hit| (hit.memory.id.as_u128(), hit.score.to_bits())).collect()
        };
        // No memory contains the last word of either query.
        let without = ranking("Ana saw the harbour, Zanzibar");
        assert!(without.len() >= 7);
        assert_eq!(ranking("Ana saw the harbour, August"), without);
        assert_ne!(ranking("Ana saw the harbour, October"), without);
    }
}

pub(crate) fn a_hit_says_why_it_matches(place: &Place) {
    for (n, content) in
        [(1, "We use Postgres."), (2, "The database is slow."), (3, "The backup runs at night.")]
    {
        capture(place, n, &format!(r#"{{"memory_type":"semantic","content":"{content}"}}"#));
    }
    let embedder: Arc<dyn Embedder> = Arc::new(Topics { broken: false });
    while embed_missing(&*place.store, &embedder).wait().unwrap() > 0 {}
    let reasons = |found: &SearchResults| {
        let highlighter = Highlighter::new(&found.terms);
        let reason =
            |hit: &SearchHit| (highlighter.snippet(hit).to_markdown(), hit.matched_by.unwrap());
        let mut reasons: Vec<_> = found.hits.iter().map(reason).collect();
        reasons.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        reasons
    };
    let reason = |snippet: &str, by| (snippet.to_owned(), by);
    let request = RecallRequest::new("postgres bakcup", now());
    let recall = RecallService::new(place.store.clone(), Some(embedder.clone()));
    assert_eq!(
        reasons(&recall.results(&request).wait().unwrap()),
        [
            reason("The **backup** runs at night.", MatchedBy::Words),
            reason("The database is slow.", MatchedBy::Meaning),
            reason("We use **Postgres**.", MatchedBy::Both),
        ]
    );
    let recall = RecallService::new(place.store.clone(), None);
    assert_eq!(
        reasons(&recall.results(&request).wait().unwrap()),
        [
            reason("The **backup** runs at night.", MatchedBy::Words),
            reason("We use **Postgres**.", MatchedBy::Words),
        ]
    );
    let newest = recall.recall(&RecallRequest::new("", now())).wait().unwrap();
    assert!(newest.len() == 3 && newest.iter().all(|hit| hit.matched_by.is_none()));
    let mut request = SearchRequest::new("postgres", now());
    request.mode = Mode::Vector;
    let near =
        SearchService::new(place.store.clone(), Some(embedder)).search(&request).wait().unwrap();
    assert!(near.iter().all(|hit| hit.matched_by == Some(MatchedBy::Meaning)), "{near:?}");
    assert!(!near.is_empty());
}

/// A model of three words, which is enough to distinguish vectors from words.
struct Topics {
    broken: bool,
}

impl Embedder for Topics {
    fn model(&self) -> &'static str {
        "topics"
    }

    fn dimensions(&self) -> usize {
        3
    }

    fn knows_word(&self, word: &str) -> bool {
        word == "right"
    }

    fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
        if self.broken {
            return Err(EmbedError::Unreachable {
                why: "no response".to_owned(),
                source: None,
                retry_after: None,
            });
        }
        let groups = [["database", "postgres"], ["holiday", "vacation"], ["deploy", "release"]];
        let vector = |text: &&str| {
            let text = text.to_lowercase();
            let has = |group: &[&str; 2]| group.iter().any(|word| text.contains(word));
            let raw: Vec<f32> = groups.iter().map(|g| if has(g) { 1.0 } else { 0.0 }).collect();
            let length = raw.iter().map(|x| x * x).sum::<f32>().sqrt().max(1.0);
            raw.iter().map(|x| x / length).collect()
        };
        Ok(texts.iter().map(vector).collect())
    }
}

pub(crate) fn words_and_vectors_are_merged_and_a_broken_model_is_said(place: &Place) {
    for (n, content) in
        [(1, "We use Postgres."), (2, "The vacation is in June."), (3, "Backups run at night.")]
    {
        capture(place, n, &format!(r#"{{"memory_type":"semantic","content":"{content}"}}"#));
    }
    let embedder: Arc<dyn Embedder> = Arc::new(Topics { broken: false });
    let recall = RecallService::new(place.store.clone(), Some(embedder.clone()));
    let request = RecallRequest::new("when are backups of the database made", now());
    let before = recall.results(&request).wait().unwrap();
    assert_eq!(titles(&before.hits), ["Backups run at night."], "vectors lag, words do not");
    assert_eq!(before.ranked_by, RankedBy::Lexical);
    while embed_missing(&*place.store, &embedder).wait().unwrap() > 0 {}
    let after = recall.results(&request).wait().unwrap();
    assert_eq!(after.ranked_by, RankedBy::Hybrid);
    assert!(titles(&after.hits)[..2].contains(&"We use Postgres."), "{:?}", titles(&after.hits));
    assert_eq!(after.total_matches, after.hits.len() as u64);

    let search = SearchService::new(place.store.clone(), Some(embedder));
    let mut asked = SearchRequest::new("holiday", now());
    asked.mode = Mode::Vector;
    let near = search.results(&asked).wait().unwrap();
    assert_eq!(near.ranked_by, RankedBy::Vector);
    assert_eq!(titles(&near.hits)[0], "The vacation is in June.");
    asked.mode = Mode::Lexical;
    assert!(search.search(&asked).wait().unwrap().is_empty());

    let broken: Arc<dyn Embedder> = Arc::new(Topics { broken: true });
    let lexical =
        RecallService::new(place.store.clone(), Some(broken)).results(&request).wait().unwrap();
    assert_eq!(lexical.ranked_by, RankedBy::Lexical);
    assert!(lexical.warning.unwrap().contains("no response"));
    let none = SearchService::new(place.store.clone(), None);
    asked.mode = Mode::Vector;
    assert!(none.results(&asked).wait().unwrap().warning.unwrap().contains("memory.embedder"));
}

pub(crate) fn nothing_asked_is_everything_the_newest_first(place: &Place) {
    place.store.put(&corpus::memories(30, 3), OnConflict::Keep).wait().unwrap();
    let recall = RecallService::new(place.store.clone(), None);
    let mut request = RecallRequest::new(" ", now());
    request.limit = Some(10);
    let found = recall.results(&request).wait().unwrap();
    let active = place.store.count(&Filter::default(), now()).wait().unwrap();
    assert_eq!((found.hits.len(), found.total_matches), (10, active));
    assert_eq!(found.ranked_by, RankedBy::Time);
}

fn prompt(place: &Place) -> PromptIntegration {
    let recall = RecallService::new(place.store.clone(), None);
    PromptIntegration::new(recall, Arc::new(|text| text.chars().count().div_ceil(4) as u64))
}

pub(crate) fn a_prompt_has_whole_memories_and_keeps_to_its_budget(place: &Place) {
    capture(
        place,
        1,
        r#"{"memory_type":"semantic","title":"Short\nkey","content":"The key is blue."}"#,
    );
    let long = "The key is kept in the green box. ".repeat(40);
    capture(
        place,
        2,
        &format!(r#"{{"memory_type":"semantic","title":"Long","content":"{long}"}}"#),
    );
    let request = RecallRequest::new("blue key", now());
    let all = prompt(place).context(&request, 4000).wait().unwrap();
    assert_eq!(all.included, 2);
    assert!(all.text.contains("## Short key\n_semantic · "), "{}", all.text);
    assert!(all.text.contains(long.trim_end()));

    let some = prompt(place).context(&request, 120).wait().unwrap();
    assert_eq!(some.results.hits.len(), 2, "the set before the budget");
    assert_eq!(some.included, 2);
    assert!(some.text.chars().count() <= 480);
    assert!(some.text.contains("The key is blue."));
    assert!(some.text.trim_end().ends_with("green box. […]"), "{}", some.text);

    for budget in 0..200 {
        let text = prompt(place).inject_context(&request, budget).wait().unwrap();
        assert!(text.chars().count().div_ceil(4) as u64 <= budget, "{budget}");
    }
}

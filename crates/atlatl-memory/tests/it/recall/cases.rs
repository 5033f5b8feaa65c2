//! The test cases of the services, for any store.

use std::sync::Arc;

use atlatl_memory::{
    CaptureService, EmbedError, Embedder, Filter, MemoryIdSeed, MemoryStore, Mode, OnConflict,
    PromptIntegration, RankPosition, RankedBy, RecallRequest, RecallService, SearchHit,
    SearchRequest, SearchService, StoreError, embed_missing,
};
use chrono::{DateTime, Utc};
use mif::{Map, Memory, Value};
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
    CaptureService::new(place.store.clone()).capture(fields(json), at).unwrap()
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
    assert_eq!(place.store.get(&memory.id).unwrap(), Some(memory.clone()));

    let capture = CaptureService::new(place.store.clone());
    let change = fields(r#"{"content":"Deploy\n[[steps]]","mood":null,"id":"x","created":"x"}"#);
    let later = now() + chrono::TimeDelta::hours(1);
    let changed = capture.update(&memory.id, &change, later).unwrap().unwrap();
    assert_eq!(changed.title.as_deref(), Some("Deploy"), "it was worked out from the content");
    assert_eq!(changed.wiki_links, Some(vec!["steps".to_owned()]));
    assert_eq!(changed.modified.as_ref().unwrap().instant(), later);
    assert_eq!((&changed.id, &changed.created), (&memory.id, &memory.created));
    assert!(!changed.to_json().contains("mood"));

    let refused = capture.update(&memory.id, &fields(r#"{"memory_type":"odd"}"#), later);
    assert!(matches!(refused, Err(StoreError::Invalid(_))));
    assert!(capture.delete(&memory.id).unwrap());
    assert_eq!(capture.update(&memory.id, &Map::new(), later).unwrap(), None);
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
    let hits = recall.recall(&RecallRequest::new("redis cache", now())).unwrap();
    assert_eq!(titles(&hits)[2], "stale");
    assert!((hits[0].score - 1.0).abs() < f64::EPSILON);
    assert!(hits[2].score < 0.01, "{}", hits[2].score);
    assert!(hits.iter().all(|hit| hit.lexical.is_some() && hit.vector.is_none()));
}

pub(crate) fn all_of_ten_thousand_are_recalled_and_pages_cover_them_once(place: &Place) {
    let memories = corpus::memories(12_000, 7);
    place.store.put(&memories, OnConflict::Keep).unwrap();
    let recall = RecallService::new(place.store.clone(), None);
    let mut request = RecallRequest::new("the deploy service database cache", now());
    let all = recall.results(&request).unwrap();
    assert!(all.total_matches > 1000, "{}", all.total_matches);
    assert_eq!(all.hits.len() as u64, all.total_matches.min(10_000));
    request.limit = Some(777);
    let mut met = Vec::new();
    loop {
        let page = recall.results(&request).unwrap();
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
    let before = recall.results(&request).unwrap();
    assert_eq!(titles(&before.hits), ["Backups run at night."], "vectors lag, words do not");
    while embed_missing(&*place.store, &*embedder).unwrap() > 0 {}
    let after = recall.results(&request).unwrap();
    assert_eq!(after.ranked_by, RankedBy::Hybrid);
    assert!(titles(&after.hits)[..2].contains(&"We use Postgres."), "{:?}", titles(&after.hits));
    assert_eq!(after.total_matches, after.hits.len() as u64);

    let search = SearchService::new(place.store.clone(), Some(embedder));
    let mut asked = SearchRequest::new("holiday", now());
    asked.mode = Mode::Vector;
    let near = search.results(&asked).unwrap();
    assert_eq!(near.ranked_by, RankedBy::Vector);
    assert_eq!(titles(&near.hits)[0], "The vacation is in June.");
    asked.mode = Mode::Lexical;
    assert!(search.search(&asked).unwrap().is_empty());

    let broken: Arc<dyn Embedder> = Arc::new(Topics { broken: true });
    let lexical = RecallService::new(place.store.clone(), Some(broken)).results(&request).unwrap();
    assert_eq!(lexical.ranked_by, RankedBy::Lexical);
    assert!(lexical.warning.unwrap().contains("no response"));
    let none = SearchService::new(place.store.clone(), None);
    asked.mode = Mode::Vector;
    assert!(none.results(&asked).unwrap().warning.unwrap().contains("memory.embedder"));
}

pub(crate) fn nothing_asked_is_everything_the_newest_first(place: &Place) {
    place.store.put(&corpus::memories(30, 3), OnConflict::Keep).unwrap();
    let recall = RecallService::new(place.store.clone(), None);
    let mut request = RecallRequest::new(" ", now());
    request.limit = Some(10);
    let found = recall.results(&request).unwrap();
    let active = place.store.count(&Filter::default(), now()).unwrap();
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
    let all = prompt(place).context(&request, 4000).unwrap();
    assert_eq!(all.included, 2);
    assert!(all.text.contains("## Short key\n_semantic · "), "{}", all.text);
    assert!(all.text.contains(long.trim_end()));

    let some = prompt(place).context(&request, 120).unwrap();
    assert_eq!(some.results.hits.len(), 2, "the set before the budget");
    assert_eq!(some.included, 2);
    assert!(some.text.chars().count() <= 480);
    assert!(some.text.contains("The key is blue."));
    assert!(some.text.trim_end().ends_with("green box. […]"), "{}", some.text);

    for budget in 0..200 {
        let text = prompt(place).inject_context(&request, budget).unwrap();
        assert!(text.chars().count().div_ceil(4) as u64 <= budget, "{budget}");
    }
}

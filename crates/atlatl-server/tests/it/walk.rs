//! Walks over all cursors, for sets around the threshold.

use std::collections::HashSet;

use mif::Memory;
use serde_json::{Value, json};

use crate::fixture::{ERAS, Era, Place, memories};
use crate::http::served::Served;

/// A generator with the same numbers in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[usize::try_from(self.below(from.len() as u64)).unwrap()]
    }
}

/// Memories from a few words to more than the threshold each; some not in Latin script.
fn corpus(random: &mut Random, threshold: u64) -> Vec<Memory> {
    let count = 1 + random.below(30);
    memories((0..count).map(|n| {
        let words = match random.below(4) {
            0 => random.below(threshold * 2),
            1 => random.below(8),
            _ => random.below(threshold / 3 + 1),
        };
        let word = random.pick(&["harbour ", "ship ", "quay ", "\u{6e2f}\u{53e3} "]);
        format!("Row {n} of the harbour. {}", word.repeat(usize::try_from(words).unwrap()))
    }))
}

/// The outcome of a walk.
#[derive(Debug, Default)]
struct Walk {
    ids: Vec<String>,
    pages: usize,
    /// The descriptor of the first page, if it was offloaded.
    offloaded: Option<Value>,
}

fn walk(
    mut arguments: Value,
    limit_once: bool,
    threshold: u64,
    mut call: impl FnMut(Value) -> Value,
) -> Walk {
    let mut walk = Walk::default();
    loop {
        let set = call(arguments.clone());
        walk.pages += 1;
        assert!(walk.pages < 100, "the walk does not end");
        if set["offloaded"] == true {
            assert!(set.get("next_cursor").is_none(), "A4: {set}");
            assert_eq!(walk.pages, 1, "a page that a cursor leads to is never offloaded: {set}");
            walk.offloaded = Some(set);
            return walk;
        }
        let page = set["memories"].as_array().unwrap_or_else(|| panic!("{set}"));
        assert_eq!(set["count"], page.len());
        if walk.pages > 1 {
            let chars: usize = page.iter().map(|m| m.to_string().chars().count()).sum();
            assert!(page.len() == 1 || chars as u64 / 4 <= threshold, "{chars} characters");
        }
        walk.ids.extend(page.iter().map(|memory| memory["id"].as_str().unwrap().to_owned()));
        if set["next_cursor"].is_null() {
            return walk;
        }
        assert!(!page.is_empty(), "a cursor behind nothing");
        arguments["cursor"] = set["next_cursor"].clone();
        if limit_once {
            arguments.as_object_mut().unwrap().remove("limit");
        }
    }
}

/// Every memory exactly once, or all of them in one file.
fn whole(walk: &Walk, limit: usize, count: usize, context: &str) {
    if let Some(descriptor) = &walk.offloaded {
        assert_eq!(descriptor["summary"]["count"], limit.min(count), "{context}");
        return;
    }
    let met: HashSet<&String> = walk.ids.iter().collect();
    assert_eq!((walk.ids.len(), met.len()), (count, count), "{context}: {walk:?}");
}

#[test]
fn g20_a_walk_of_cursors_delivers_every_memory_exactly_once() {
    let mut random = Random(20);
    let (mut walked, mut offloaded) = (0, 0);
    for round in 0..24 {
        let threshold = random.pick(&[60, 150, 400]);
        let corpus = corpus(&mut random, threshold);
        let mut place = Place::with(&corpus);
        place.config.prompt.offload.threshold_tokens = u32::try_from(threshold).unwrap();
        place.config.prompt.offload.shared_filesystem = true;
        let served = Served::start(&place);
        for _ in 0..3 {
            let limit = usize::try_from(1 + random.below(7)).unwrap();
            let (tool, arguments) = random.pick(&[
                ("list_memories", "{}"),
                ("recall_memories", r#"{"query":"harbour row"}"#),
                ("search_memories", r#"{"query":"harbour row","mode":"lexical"}"#),
                ("recall_memories", r#"{"query":""}"#),
            ]);
            let mut arguments: Value = serde_json::from_str(arguments).unwrap();
            arguments["limit"] = limit.into();
            arguments["detail"] = random.pick(&["light", "medium", "full"]).into();
            let limit_once = random.below(3) == 0;
            let context = format!("round {round}: {tool} {arguments}, threshold {threshold}");
            let era = random.pick(&ERAS);
            let mut stdio = place.client(era);
            let mut proxy = place.proxy(era);
            let (http, http_proxy) = (served.client(era), served.proxy(era));
            let walks = [
                walk(arguments.clone(), limit_once, threshold, |asked| stdio.call(tool, asked)),
                walk(arguments.clone(), limit_once, threshold, |asked| proxy.call(tool, asked)),
                walk(arguments.clone(), limit_once, threshold, |asked| http.call(tool, asked)),
                walk(arguments.clone(), limit_once, threshold, |asked| {
                    http_proxy.call(tool, asked)
                }),
            ];
            for (n, walk) in walks.iter().enumerate() {
                whole(walk, limit, corpus.len(), &format!("{context}, client {n}"));
                walked += usize::from(walk.pages > 1);
                offloaded += usize::from(walk.offloaded.is_some());
            }
        }
    }
    // Both outcomes occurred many times.
    assert!(walked > 40 && offloaded > 10, "{walked} walks, {offloaded} offloaded");
}

#[test]
fn g20_large_memories_behind_a_cursor_come_inline_with_a_cursor() {
    // The newest four are small, the next four large.
    let contents = (0..8).map(|n| {
        let long =
            if n < 4 { "A long row about ships and quays. ".repeat(60) } else { String::new() };
        format!("Row {n} of the harbour. {long}")
    });
    let place = Place::with(&memories(contents));
    for era in ERAS {
        let mut client = place.client(era);
        let mut arguments = json!({"limit": 4, "detail": "full"});
        let first = client.call("list_memories", arguments.clone());
        assert_eq!(first["count"], 4);
        arguments["cursor"] = first["next_cursor"].clone();
        let second = client.call("list_memories", arguments.clone());
        assert!(second.get("offloaded").is_none(), "{second}");
        assert_eq!(
            (&second["total_matches"], second["next_cursor"].is_string()),
            (&json!(8), true)
        );
        // The page ends at the threshold.
        assert!(second["count"].as_u64().unwrap() < 4, "{second}");
        let met = walk(json!({"limit": 4, "detail": "full"}), false, 1600, |asked| {
            client.call("list_memories", asked)
        });
        whole(&met, 4, 8, "rows");
    }
    assert!(place.files().is_empty());
}

#[test]
fn g20_a_proxy_gets_the_cursor_of_a_limited_set() {
    let place = Place::with(&memories((0..8).map(|n| format!("Row {n} of the harbour."))));
    let mut proxy = place.proxy(Era::Legacy);
    let first = proxy.call("list_memories", json!({"limit": 5}));
    let cursor = &first["next_cursor"];
    assert!(cursor.is_string(), "{first}");
    let second = proxy.call("list_memories", json!({"limit": 5, "cursor": cursor}));
    assert_eq!((&second["count"], &second["next_cursor"]), (&json!(3), &Value::Null));
}

//! A backup: what a dump of a cluster at work restores in an empty one.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use testkit::corpus;
use testkit::postgres::PASSWORD;

use super::tenants::{House, ask, keep, tool};
use super::*;

/// Who dumps: it may read everything, past the policies, and change nothing.
const BACKUP: &str = "backup";
/// Whole, or not at all.
const WHOLE: [&str; 2] = ["--exit-on-error", "--single-transaction"];

/// What memories were answered with when they were acknowledged, by their ids.
type Acknowledged = BTreeMap<String, String>;

/// The name of the database.
fn database(house: &House) -> &str {
    house.owner.rsplit('/').next().unwrap()
}

fn dumped_by(role: &str, house: &House, more: &[&str]) -> Result<PathBuf, String> {
    let file = house.program.path("work/memories.dump");
    let args = ["-Fc", "-f", file.to_str().unwrap(), database(house)];
    PostgresServer::shared().program("pg_dump", role, &[&args, more].concat())?;
    Ok(file)
}

fn dumped(house: &House) -> PathBuf {
    let server = PostgresServer::shared();
    let role = format!(
        "CREATE ROLE {BACKUP} LOGIN BYPASSRLS PASSWORD '{PASSWORD}' IN ROLE pg_read_all_data"
    );
    if server.sql("postgres", &format!("SELECT 1 FROM pg_roles WHERE rolname = '{BACKUP}'")) != "1"
    {
        server.sql("postgres", &role);
    }
    dumped_by(BACKUP, house, &[]).unwrap()
}

/// Another server, with the roles and nothing else.
fn empty_cluster() -> PostgresServer {
    PostgresServer::start(&["fsync=off", "full_page_writes=off"])
}

fn restored_by(
    server: &PostgresServer,
    role: &str,
    into: &str,
    dump: &Path,
    more: &[&str],
) -> bool {
    let args = [more, &["-d", into, dump.to_str().unwrap()]].concat();
    server.program("pg_restore", role, &args).is_ok()
}

fn restored(server: &PostgresServer, dump: &Path) -> House {
    let into = server.database_without_pgvector();
    assert!(restored_by(server, "postgres", &into, dump, &WHOLE));
    House::of(server, &into)
}

/// Keeps a memory with everything that it says.
fn keep_all(url: &str, key: &str, fields: &str, kept: &mut Acknowledged) {
    let made = ask(url, key, "POST", "/v1/memories", fields);
    assert_eq!(made.status, 201, "{made:?}");
    kept.insert(made.json()["id"].as_str().unwrap().to_owned(), made.body);
}

/// Memories of all kinds, through a server.
fn fill(url: &str, key: &str, n: usize, seed: u64) -> Acknowledged {
    let mut kept = Acknowledged::new();
    let mut memories = corpus::memories(n, seed);
    for memory in &mut memories {
        // Nothing is over while the test runs.
        memory.temporal = None;
    }
    for line in corpus::lines(&memories, mif::DetailLevel::Full) {
        keep_all(url, key, &line, &mut kept);
    }
    let (words, last) = ("large words ".repeat(mif::MAX_CONTENT_BYTES / 12 + 1), "the last words");
    let odd = [
        "港の灯台は朝まで光る。 Ⅻ 🦀 naïve\u{301} \u{202e}مرفأ\u{202c} Ελλάδα \\ \" \t \u{1}"
            .to_owned(),
        format!("{}{last}", &words[..mif::MAX_CONTENT_BYTES - last.len()]),
    ];
    for content in odd {
        let body = json!({
            "content": content, "memory_type": "episodic", "title": "Odd — 奇",
            "tags": ["härbour", "港", "a,b \"c\" {d}"], "namespace": "_episodic/odd",
            "extensions": {"kept": {"number": 12_345_678_901_234_567_u64, "none": null}},
        });
        keep_all(url, key, &body.to_string(), &mut kept);
    }
    kept
}

/// What a tenant is answered: everything listed, and the best of several questions.
fn answers(url: &str, key: &str) -> Vec<Value> {
    let asked = |method, path, body: &Value| ask(url, key, method, path, &body.to_string()).json();
    let mut answers = vec![
        asked("GET", "/v1/memories?limit=1000", &json!({})),
        asked("GET", "/v1/memories?limit=20&offset=7&order=modified_desc", &json!({})),
        asked("GET", "/v1/memories?tags=%E6%B8%AF", &json!({})),
    ];
    for query in ["restore a backup", "灯台", "naïve harbour", "\"the last words\"", "deploy"] {
        answers.push(asked("POST", "/v1/search", &json!({"query": query, "limit": 100})));
        let recalled = tool(url, key, "recall_memories", &json!({"query": query, "limit": 9}));
        let set = &recalled["result"]["structuredContent"];
        assert!(set["memories"].is_array(), "{recalled}");
        answers.push(json!([set["total_matches"], set["memories"]]));
    }
    answers
}

/// The ids on all pages behind a cursor.
fn pages(url: &str, key: &str, question: &Value, mut cursor: Value) -> Vec<Value> {
    let mut ids = Vec::new();
    while cursor.is_string() {
        let mut arguments = question.clone();
        arguments["cursor"] = cursor;
        let page = tool(url, key, "list_memories", &arguments);
        let set = &page["result"]["structuredContent"];
        let memories = set["memories"].as_array().unwrap_or_else(|| panic!("{page}"));
        ids.extend(memories.iter().map(|memory| memory["id"].clone()));
        cursor = set["next_cursor"].clone();
    }
    ids
}

/// Dumps during writes. Returns what was acknowledged before the dump began and after it ended.
fn dumped_under_load(house: &House, url: &str, key: &str) -> (PathBuf, [Acknowledged; 2]) {
    let done = AtomicBool::new(false);
    let kept = std::sync::Mutex::new(Acknowledged::new());
    let (dump, before) = thread::scope(|scope| {
        for writer in 0..2 {
            let (done, kept) = (&done, &kept);
            scope.spawn(move || {
                for n in 0.. {
                    if done.load(Ordering::Relaxed) {
                        break;
                    }
                    let text = format!("Writer {writer} put this as number {n}.");
                    let body = json!({"content": text, "memory_type": "semantic"}).to_string();
                    let mut one = Acknowledged::new();
                    keep_all(url, key, &body, &mut one);
                    kept.lock().unwrap().append(&mut one);
                }
            });
        }
        while kept.lock().unwrap().len() < 30 {
            thread::yield_now();
        }
        let before = kept.lock().unwrap().clone();
        let dump = dumped(house);
        done.store(true, Ordering::Relaxed);
        (dump, before)
    });
    (dump, [before, kept.into_inner().unwrap()])
}

#[test]
fn a_dump_of_a_cluster_at_work_restores_what_was_acknowledged_and_gives_the_same_answers() {
    let old = House::new();
    let [ann, bob, busy] = ["ann", "bob", "busy"].map(|name| old.tenant(name));
    let serving = Serving::start(&old.program, &[]);
    let url = &serving.url;
    let kept = [(&ann, fill(url, &ann, 160, 31)), (&bob, fill(url, &bob, 90, 32))];
    let question = json!({"limit": 20, "detail": "light"});
    let page = tool(url, &ann, "list_memories", &question);
    let cursor = page["result"]["structuredContent"]["next_cursor"].clone();
    let revoked = old.key("ann", &["--name", "lost"]);
    let run = old.run(&["keys", "revoke", revoked["id"].as_str().unwrap()]);
    assert_eq!(run.status, 0, "{run}");

    let (dump, [before, after]) = dumped_under_load(&old, url, &busy);
    assert!(before.len() < after.len(), "no writes during the dump");
    let cluster = empty_cluster();
    let new = restored(&cluster, &dump);
    let again = Serving::start(&new.program, &[]);
    let there = &again.url;

    for (key, kept) in &kept {
        for (id, body) in kept {
            let same = ask(there, key, "GET", &format!("/v1/memories/{id}"), "");
            assert!(same.status == 200 && same.body == *body, "{id}: {same:?}");
        }
        assert_eq!(answers(url, key), answers(there, key));
        let total = ask(there, key, "GET", "/v1/memories?limit=1", "").json()["total"].clone();
        assert_eq!(total, ask(url, key, "GET", "/v1/memories?limit=1", "").json()["total"]);
    }
    let rest = pages(there, &ann, &question, cursor.clone());
    assert!(rest.len() > 100, "{rest:?}");
    assert_eq!(rest, pages(url, &ann, &question, cursor));
    assert_eq!(ask(there, revoked["key"].as_str().unwrap(), "GET", "/v1/memories", "").status, 401);

    // Of what was written meanwhile: all that was acknowledged before, and of the rest whole memories.
    let listed = ask(there, &busy, "GET", "/v1/memories?limit=1000", "").json();
    let listed: Vec<&str> = listed["memories"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|one| one["id"].as_str())
        .collect();
    assert!((before.len()..=after.len() + 2).contains(&listed.len()), "{}", listed.len());
    assert!(before.keys().all(|id| listed.contains(&id.as_str())));
    for id in &listed {
        let path = format!("/v1/memories/{id}");
        let [one, other] = [url, there].map(|url| ask(url, &busy, "GET", &path, "").body);
        assert_eq!(one, other);
    }
    let torn = "SELECT count(*) FROM atlatl.memory m FULL JOIN atlatl.document d USING (tenant, key) \
                FULL JOIN atlatl.search_document s USING (tenant, key) \
                WHERE m.id IS NULL OR d.json IS NULL OR s.id IS NULL";
    assert_eq!(cluster.sql(database(&new), torn), "0");

    // And it goes on there.
    let id = keep(there, &ann, "Kept after the restore.");
    let found = tool(
        there,
        &ann,
        "recall_memories",
        &json!({"query": "kept after the restore", "limit": 1}),
    );
    let best = &found["result"]["structuredContent"]["memories"][0]["id"];
    assert_eq!(best, id.as_str(), "{found}");
    assert!(new.tenant("cleo").starts_with("atl_"));
    tenants_are_kept_apart(&cluster, &new, there, [&ann, &bob], &id);
}

/// As in every database: by the server, by its role, and by plain SQL.
fn tenants_are_kept_apart(
    cluster: &PostgresServer,
    house: &House,
    url: &str,
    [ann, bob]: [&str; 2],
    of_ann: &str,
) {
    let path = format!("/v1/memories/{of_ann}");
    assert_eq!(ask(url, ann, "GET", &path, "").status, 200);
    assert_eq!(ask(url, bob, "GET", &path, "").status, 404);
    assert_eq!(ask(url, "atl_made_up", "GET", &path, "").status, 401);
    let check = house.program.run(&["db", "check", "--json"]);
    assert_eq!((check.status, &check.json()["role"]), (0, &json!(APP)), "{check}");
    let as_app = |sql: &str| cluster.sql(database(house), &format!("SET ROLE {APP}; {sql}"));
    for table in [
        "memory",
        "document",
        "search_document",
        "embedding",
        "embedding_queue",
        "embedding_index",
        "lease",
        "secret",
    ] {
        assert_eq!(as_app(&format!("SELECT count(*) FROM atlatl.{table}")), "0", "{table}");
    }
    let of_ann = "SET atlatl.tenant = 'ann'; SELECT DISTINCT tenant FROM atlatl.memory";
    assert_eq!(as_app(of_ann), "ann");
    let loose = "SELECT count(*), count(*) FILTER (WHERE NOT relrowsecurity OR NOT relforcerowsecurity) \
                 FROM pg_class WHERE relnamespace = 'atlatl'::regnamespace AND relkind IN ('r', 'p') \
                 AND relname <> 'migration'";
    assert_eq!(cluster.sql(database(house), loose), "100|0");
}

#[test]
fn a_restore_that_left_roles_or_policies_out_is_refused_and_a_migration_repairs_it() {
    let old = House::new();
    let [ann, bob] = ["ann", "bob"].map(|name| old.tenant(name));
    let id = {
        let serving = Serving::start(&old.program, &[]);
        keep(&serving.url, &bob, "Bob's own.");
        keep(&serving.url, &ann, "Ann's canary sings.")
    };
    let dump = dumped(&old);
    let cluster = empty_cluster();
    let refused = |house: &House, why: &str| {
        for args in [&["db", "check"][..], &["memory", "list"], &["serve", "--http", "127.0.0.1:0"]]
        {
            let run = house.program.run(args);
            assert_eq!(run.status, 1, "{args:?}: {run}");
            assert!(run.stderr.contains(why), "{args:?}: {run}");
            assert!(run.stderr.contains("hint: atlatl db migrate --as postgres://"), "{run}");
        }
    };
    let check_repaired = |house: &House| {
        let run = house.run(&["db", "migrate", "--json"]);
        assert_eq!((run.status, &run.json()["applied"]), (0, &json!(["policies"])), "{run}");
        let serving = Serving::start(&house.program, &[]);
        tenants_are_kept_apart(&cluster, house, &serving.url, [&ann, &bob], &id);
        let canary = json!({"query": "canary"});
        for (key, total) in [(&ann, 1), (&bob, 0)] {
            let found = tool(&serving.url, key, "recall_memories", &canary);
            let found = &found["result"]["structuredContent"]["total_matches"];
            assert_eq!(found, total);
        }
    };

    // Without policies tenants would see each other.
    let open = cluster.database();
    assert!(restored_by(&cluster, "postgres", &open, &dump, &["--no-policies"]));
    let seen = format!("SET ROLE {APP}; SELECT count(*) FROM atlatl.memory");
    assert_eq!(cluster.sql(&open, &seen), "2");
    let house = House::of(&cluster, &open);
    refused(&house, "has no row-level security, for example after a restore");
    check_repaired(&house);

    // For another owner, the functions that know keys and words would see nothing.
    cluster.sql("postgres", &format!("CREATE ROLE other LOGIN PASSWORD '{PASSWORD}'"));
    let others = cluster.database();
    cluster.sql("postgres", &format!("ALTER DATABASE {others} OWNER TO other"));
    let without_owner = [&["--no-owner", "--no-comments"], &WHOLE[..]].concat();
    assert!(restored_by(&cluster, "other", &others, &dump, &without_owner));
    let mut house = House::of(&cluster, &others);
    house.owner = cluster.url("other", &others);
    refused(&house, "lacks the policy for its owner, for example after a restore");
    let list = house.run(&["tenants", "list"]);
    assert!(list.status == 1 && list.stderr.contains("lacks the policy for its owner"), "{list}");
    check_repaired(&house);

    // Without the roles, statements that name one fail, and pg_restore continues by default.
    let bare = cluster.database();
    for role in [OWNER, APP] {
        cluster.sql("postgres", &format!("ALTER ROLE {role} RENAME TO \"{role} of later\""));
    }
    assert!(!restored_by(&cluster, "postgres", &bare, &dump, &[]));
    for role in [OWNER, APP] {
        cluster.sql("postgres", &format!("ALTER ROLE \"{role} of later\" RENAME TO {role}"));
    }
    let mut house = House::of(&cluster, &bare);
    house.owner = cluster.url("postgres", &bare);
    refused(&house, "role \"app\" has no access to the schema");
    check_repaired(&house);
}

#[test]
fn a_dump_by_the_owner_fails_and_with_row_security_on_it_has_no_memory() {
    let old = House::new();
    let ann = old.tenant("ann");
    let serving = Serving::start(&old.program, &[]);
    keep(&serving.url, &ann, "Ann's canary sings.");
    let refused = dumped_by(OWNER, &old, &[]).unwrap_err();
    assert!(refused.contains("would be affected by row-level security policy"), "{refused}");
    let refused = dumped_by(APP, &old, &[]).unwrap_err();
    assert!(refused.contains("permission denied"), "{refused}");
    // It succeeds, has the tenants, and lacks what they are there for.
    let empty = dumped_by(OWNER, &old, &["--enable-row-security"]).unwrap();
    let rows = |dump: &Path| {
        let cluster = empty_cluster();
        let new = restored(&cluster, dump);
        let counted =
            "SELECT (SELECT count(*) FROM atlatl.tenant), (SELECT count(*) FROM atlatl.memory)";
        cluster.sql(database(&new), counted)
    };
    assert_eq!(rows(&empty), "1|0");
    assert_eq!(rows(&dumped(&old)), "1|1");
}

#[test]
fn a_result_whose_bucket_was_not_copied_is_gone_and_one_that_was_is_answered() {
    let s3 = s3::S3Server::shared();
    let [old_bucket, new_bucket] = [s3.bucket(), s3.bucket()];
    let with = |mut house: House, bucket: &str| {
        let url = format!("s3://{bucket}/atlatl");
        house.program = house.program.variable("ATLATL_SPOOL__URL", &url);
        house
    };
    let old = with(House::new(), &old_bucket);
    let [ann, bob] = ["ann", "bob"].map(|name| old.tenant(name));
    let serving = Serving::start(&old.program, &[]);
    for n in 0..60 {
        keep(&serving.url, &ann, &format!("Berth {n}. {}", "It lies in the harbour. ".repeat(30)));
    }
    let large = tool(&serving.url, &ann, "list_memories", &json!({"detail": "full"}));
    let descriptor = &large["result"]["structuredContent"];
    assert_eq!(descriptor["offloaded"], true, "{large}");
    let link = descriptor["file_path"].as_str().unwrap().strip_prefix(&serving.url).unwrap();
    let count =
        json!({"ref": descriptor["lro"]["ref"], "sql": "SELECT count(*) AS n FROM results"});

    let cluster = empty_cluster();
    let new = with(restored(&cluster, &dumped(&old)), &new_bucket);
    let again = Serving::start(&new.program, &[]);
    let gone = tool(&again.url, &ann, "lro_extract", &count);
    assert_eq!(gone["result"]["isError"], true, "{gone}");
    let said = gone["result"]["content"][0]["text"].as_str().unwrap();
    assert!(said.contains("Repeat the call that returned it"), "{said}");
    assert_eq!(asked(&again.url, "GET", link, "").unwrap().status, 404);
    // The same call returns the same result again.
    let repeated = tool(&again.url, &ann, "list_memories", &json!({"detail": "full"}));
    assert_eq!(repeated["result"]["structuredContent"]["summary"]["count"], 60, "{repeated}");

    let [from, to] = [&old_bucket, &new_bucket].map(|bucket| s3.path(bucket));
    let copied = Command::new("cp").arg("-a").arg(from.join(".")).arg(&to).status().unwrap();
    assert!(copied.success());
    let there = tool(&again.url, &ann, "lro_extract", &count);
    let said = there["result"]["content"][0]["text"].as_str().unwrap();
    assert!(said.ends_with("{\"n\":60}\n"), "{there}");
    let fetched = asked(&again.url, "GET", link, "").unwrap();
    assert_eq!((fetched.status, fetched.body.lines().count()), (200, 61));
    assert_eq!(tool(&again.url, &bob, "lro_extract", &count)["result"]["isError"], true);
}

//! Results of a code host: a page of issues, a GraphQL response with errors, and commits.

use serde_json::{Value, json};

use super::corpus::{Corpus, count_by, int, sentence, text_result, time, top};
use crate::SplitMix64;

const LOGINS: [&str; 14] = [
    "adalove",
    "brkvist",
    "c-morales",
    "dhruv-p",
    "emmaw",
    "fkowalski",
    "gtanaka",
    "hoodz",
    "ines-r",
    "jpark",
    "kolade",
    "lmartin",
    "mweiss",
    "nora-b",
];
const LABELS: [&str; 9] = [
    "bug",
    "enhancement",
    "docs",
    "security",
    "good first issue",
    "performance",
    "regression",
    "question",
    "ci",
];
const MILESTONES: [&str; 4] = ["v2.3", "v2.4", "v3.0", "backlog"];

struct Issue {
    number: i64,
    title: String,
    open: bool,
    login: &'static str,
    labels: Vec<&'static str>,
    comments: i64,
    created: i64,
    closed: Option<i64>,
    milestone: Option<&'static str>,
    body: String,
}

const CURSOR: &str = "Y3Vyc29yOnYyOpK5MjAyNi0wNy0xMVQwODoxMjo0NFrOYKm3lg==";

/// The second page of a search for issues, as GitHub's REST API returns it, with the cursor that a
/// server adds.
pub(super) fn issues() -> Corpus {
    let mut random = SplitMix64::new(2301);
    let issues: Vec<Issue> = (0..420).map(|index| issue(&mut random, 4210 - index)).collect();
    let items: Vec<Value> = issues.iter().map(issue_json).collect();
    let payload = json!({
        "total_count": 3127, "incomplete_results": true, "items": items,
        "next_cursor": CURSOR, "has_more": true,
    });
    let is_busy_bug =
        |issue: &&Issue| issue.open && issue.comments > 20 && issue.labels.contains(&"bug");
    let asked = issues.iter().find(|issue| issue.number == 3977);
    let mut discussed: Vec<&Issue> = issues.iter().collect();
    discussed.sort_by_key(|issue| (std::cmp::Reverse(issue.comments), issue.number));
    let discussed: Vec<Value> =
        discussed.iter().take(5).map(|issue| json!([issue.number, issue.comments])).collect();
    let labels = issues.iter().flat_map(|issue| issue.labels.iter().copied());
    Corpus::new("issues", "list_issues", text_result(&[&payload.to_string()]))
        .answer("next_cursor", json!([CURSOR]))
        .answer("busy_open_bugs", json!([issues.iter().filter(is_busy_bug).count()]))
        .answer("most_discussed", json!(discussed))
        .answer("top_reporters", top(issues.iter().map(|issue| issue.login), 3))
        .answer("closed_at", json!([asked.and_then(|issue| issue.closed).map(time)]))
        .answer("by_label", count_by(labels))
}

fn issue(random: &mut SplitMix64, number: i64) -> Issue {
    let created = 1_752_000_000 + number * 9_000 + int(random, 8_000);
    let open = random.chance(58) && number != 3977;
    // Few people report most issues.
    let who = random.below(LOGINS.len()) * random.below(LOGINS.len()) / LOGINS.len();
    let mut labels: Vec<&'static str> = Vec::new();
    for _ in 0..random.below(4) {
        let label = *random.pick(&LABELS);
        if !labels.contains(&label) {
            labels.push(label);
        }
    }
    Issue {
        number,
        title: sentence(random, 7),
        open,
        login: LOGINS[who],
        labels,
        comments: int(random, 40) * int(random, 40) / 20,
        created,
        closed: (!open).then(|| created + 3_600 + int(random, 4_000_000)),
        milestone: random.chance(35).then(|| *random.pick(&MILESTONES)),
        body: sentence(random, 60),
    }
}

fn issue_json(issue: &Issue) -> Value {
    let id =
        |name: &str| name.bytes().fold(7_u64, |hash, byte| hash * 31 % 1_000_003 + u64::from(byte));
    let labels: Vec<Value> = issue
        .labels
        .iter()
        .map(|name| json!({"id": id(name), "name": name, "color": format!("{:06x}", id(name) % 0xff_ffff), "default": false}))
        .collect();
    json!({
        "id": 2_410_000_000 + issue.number, "number": issue.number, "title": issue.title,
        "user": {"login": issue.login, "id": id(issue.login), "type": "User", "site_admin": false},
        "labels": labels, "state": if issue.open { "open" } else { "closed" }, "locked": false,
        "milestone": issue.milestone.map(|title| json!({"title": title, "state": "open"})),
        "comments": issue.comments, "created_at": time(issue.created),
        "updated_at": time(issue.closed.unwrap_or(issue.created) + 60),
        "closed_at": issue.closed.map(time), "author_association": "CONTRIBUTOR", "body": issue.body,
    })
}

struct PullRequest {
    number: i64,
    title: String,
    draft: bool,
    state: &'static str,
    author: &'static str,
    merged: Option<i64>,
    additions: i64,
    deletions: i64,
    decision: Option<&'static str>,
    created: i64,
}

const END_CURSOR: &str = "Y3Vyc29yOnYyOpHOVWnAgg==";
const DENIED: &str = "Resource not accessible by integration";

/// A GraphQL response that is incomplete: some nodes could not be read.
pub(super) fn graphql() -> Corpus {
    let mut random = SplitMix64::new(2302);
    let pulls: Vec<PullRequest> =
        (0..300).map(|index| pull_request(&mut random, 8400 - index)).collect();
    let nodes: Vec<Value> = pulls
        .iter()
        .map(|pull| {
            json!({
                "number": pull.number, "title": pull.title, "isDraft": pull.draft, "state": pull.state,
                "author": {"login": pull.author}, "createdAt": time(pull.created),
                "mergedAt": pull.merged.map(time), "additions": pull.additions, "deletions": pull.deletions,
                "changedFiles": 1 + pull.additions / 40, "reviewDecision": pull.decision,
                "headRefName": format!("{}/pr-{}", pull.author, pull.number),
            })
        })
        .collect();
    let payload = json!({
        "data": {"repository": {"nameWithOwner": "acme/gateway", "pullRequests": {
            "totalCount": 1284, "pageInfo": {"hasNextPage": true, "endCursor": END_CURSOR}, "nodes": nodes}}},
        "errors": [{"type": "FORBIDDEN", "path": ["repository", "pullRequests", "nodes", 17, "reviewThreads"],
            "message": DENIED}],
    });
    let merged = pulls.iter().filter(|pull| pull.state == "MERGED");
    let requested = pulls
        .iter()
        .filter(|pull| pull.state == "OPEN" && pull.decision == Some("CHANGES_REQUESTED"))
        .map(|pull| pull.number);
    let drafts = pulls.iter().filter(|pull| pull.draft).map(|pull| pull.author);
    let asked = pulls.iter().find(|pull| pull.number == 8128);
    Corpus::new("graphql", "run_graphql_query", text_result(&[&payload.to_string()]))
        .answer("end_cursor", json!([END_CURSOR]))
        .answer("error_message", json!([DENIED]))
        .answer("drafts_by_author", top(drafts, 3))
        .answer("merged_additions", json!([merged.map(|pull| pull.additions).sum::<i64>()]))
        .answer("changes_requested", requested.collect())
        .answer("author_of", json!([asked.map(|pull| pull.author)]))
}

fn pull_request(random: &mut SplitMix64, number: i64) -> PullRequest {
    let created = 1_770_000_000 + number * 2_500;
    let state = *random.pick(&["OPEN", "MERGED", "MERGED", "CLOSED"]);
    let decisions = [None, Some("APPROVED"), Some("CHANGES_REQUESTED"), Some("REVIEW_REQUIRED")];
    PullRequest {
        number,
        title: sentence(random, 6),
        draft: state == "OPEN" && random.chance(40),
        state,
        author: LOGINS[random.below(LOGINS.len()) * random.below(LOGINS.len()) / LOGINS.len()],
        merged: (state == "MERGED").then(|| created + int(random, 600_000)),
        additions: int(random, 60) * int(random, 30),
        deletions: int(random, 400),
        decision: *random.pick(&decisions),
        created,
    }
}

struct Commit {
    sha: String,
    author: &'static str,
    email: String,
    date: i64,
    message: String,
    verified: bool,
    login: Option<&'static str>,
    parents: Vec<String>,
    additions: i64,
    deletions: i64,
    files: Vec<(&'static str, i64)>,
}

const PEOPLE: [&str; 7] = [
    "Ada Lovell",
    "Bjorn Kvist",
    "Carla Morales",
    "Dhruv Patel",
    "Emma Wright",
    "Filip Kowalski",
    "Go Tanaka",
];
const PATHS: [&str; 8] = [
    "src/gateway/router.rs",
    "src/gateway/pool.rs",
    "src/auth/token.rs",
    "docs/deploy.md",
    "Cargo.lock",
    "src/billing/invoice.rs",
    "tests/it/router.rs",
    "src/main.rs",
];

/// Commits with nested authors, statistics and files.
pub(super) fn commits() -> Corpus {
    let mut random = SplitMix64::new(2303);
    let mut commits: Vec<Commit> = Vec::new();
    for index in 0..220 {
        let parent = commits.last().map(|commit| commit.sha.clone());
        commits.push(commit(&mut random, index, parent));
    }
    commits.reverse();
    let items: Vec<Value> = commits.iter().map(commit_json).collect();
    let payload = Value::Array(items).to_string();
    let in_june = |commit: &&Commit| time(commit.date).starts_with("2026-06");
    let unverified = commits.iter().filter(|commit| !commit.verified).map(|commit| commit.author);
    let merges = commits.iter().filter(|commit| commit.parents.len() > 1).count();
    let changed = |commit: &Commit| commit.additions + commit.deletions;
    let largest = commits.iter().max_by_key(|commit| changed(commit));
    let touching = commits
        .iter()
        .filter(|commit| commit.files.iter().any(|(path, _)| *path == "src/auth/token.rs"));
    Corpus::new("commits", "list_commits", text_result(&[&payload]))
        .answer("by_author", count_by(commits.iter().map(|commit| commit.author)))
        .answer("unverified", count_by(unverified))
        .answer("in_june", json!([commits.iter().filter(in_june).count()]))
        .answer("merges", json!([merges]))
        .answer(
            "largest",
            largest.map_or(Value::Null, |commit| json!([[commit.sha, changed(commit)]])),
        )
        .answer("touching_token", json!([touching.count()]))
}

fn commit(random: &mut SplitMix64, index: i64, parent: Option<String>) -> Commit {
    let sha = format!(
        "{:016x}{:016x}{:08x}",
        random.next_u64(),
        random.next_u64(),
        random.below(0xffff_ffff)
    );
    let who = random.below(PEOPLE.len());
    let mut files: Vec<(&'static str, i64)> = Vec::new();
    for _ in 0..=random.below(4) {
        let path = *random.pick(&PATHS);
        if files.iter().all(|(known, _)| *known != path) {
            files.push((path, 1 + int(random, 180)));
        }
    }
    let mut parents: Vec<String> = parent.into_iter().collect();
    if index > 0 && random.chance(15) {
        parents.push(format!(
            "{:016x}{:016x}{:08x}",
            random.next_u64(),
            random.next_u64(),
            random.below(0xffff_ffff)
        ));
    }
    Commit {
        sha,
        author: PEOPLE[who],
        email: format!("{}@example.com", PEOPLE[who].to_lowercase().replace(' ', ".")),
        date: 1_778_000_000 + index * 40_000 + int(random, 30_000),
        message: sentence(random, 9),
        verified: random.chance(70),
        login: random.chance(85).then(|| LOGINS[who]),
        parents,
        additions: files.iter().map(|(_, lines)| lines).sum(),
        // All totals differ, so that one commit is the largest.
        deletions: int(random, 90) * 300 + index,
        files,
    }
}

fn commit_json(commit: &Commit) -> Value {
    let person = json!({"name": commit.author, "email": commit.email, "date": time(commit.date)});
    let reason = if commit.verified { "valid" } else { "unsigned" };
    let files: Vec<Value> = commit
        .files
        .iter()
        .map(|(path, lines)| json!({"filename": path, "status": "modified", "additions": lines}))
        .collect();
    json!({
        "sha": commit.sha,
        "commit": {"author": person, "committer": person, "message": commit.message, "comment_count": 0,
            "verification": {"verified": commit.verified, "reason": reason}},
        "author": commit.login.map(|login| json!({"login": login, "type": "User"})),
        "parents": commit.parents.iter().map(|sha| json!({"sha": sha})).collect::<Vec<_>>(),
        "stats": {"additions": commit.additions, "deletions": commit.deletions,
            "total": commit.additions + commit.deletions},
        "files": files,
    })
}

//! The issues: nested records of an API, in an object with their number.

use chrono::SecondsFormat;
use serde_json::{Value, json};
use testkit::SplitMix64;

use super::text::{PRODUCTS, paragraph, product_index, spelled, weighted};
use super::time::{MINUTE_MILLIS, random_time, rfc3339};

/// The number of the first issue is a little higher.
const FIRST_NUMBER: usize = 10_000;
/// Issues with these numbers and higher ones do not exist, but others refer to them.
const FIRST_UNUSED_NUMBER: usize = 90_000;
/// One issue in this many is long.
const LONG_INTERVAL: usize = 12;
/// The first long issue.
const FIRST_LONG: usize = 7;

const TEAMS: [&str; 4] = ["core", "storage", "network", "clients"];
const LOGINS_PER_TEAM: usize = 4;
/// The members of the teams, in the order of the teams.
const LOGINS: [&str; 16] = [
    "adalove",
    "brkvist",
    "cmorales",
    "dhruvp",
    "emmaw",
    "fkowalski",
    "gtanaka",
    "hoodz",
    "inesr",
    "jpark",
    "kolade",
    "lmartin",
    "mweiss",
    "norab",
    "opetrov",
    "quinnl",
];
/// Labels with their colours.
const LABELS: [(&str, &str); 8] = [
    ("bug", "d73a4a"),
    ("enhancement", "a2eeef"),
    ("docs", "0075ca"),
    ("security", "b60205"),
    ("performance", "fbca04"),
    ("regression", "e99695"),
    ("ci", "5319e7"),
    ("question", "d876e3"),
];
const LABEL_WEIGHTS: [usize; 8] = [30, 20, 12, 10, 10, 8, 6, 4];
/// Milestones with their dates.
const MILESTONES: [(&str, &str); 4] = [
    ("v2.3", "2026-03-01"),
    ("v2.4", "2026-05-01"),
    ("v3.0", "2026-09-01"),
    ("backlog", "2027-01-01"),
];
/// `{p}` is a product.
const TITLES: [&str; 6] = [
    "{p} loses the session",
    "{p} is slow after a deploy",
    "Upgrade of {p} fails",
    "{p} ignores the limit",
    "Wrong total in {p}",
    "{p} docs are outdated",
];

/// Writes an object with `count` issues.
pub(super) fn generate(count: usize, random: &mut SplitMix64) -> String {
    let mut numbers = Vec::with_capacity(count);
    let issues: Vec<Value> = (0..count).map(|index| issue(index, &mut numbers, random)).collect();
    let document = json!({"total_count": count, "incomplete_results": false, "items": issues});
    format!("{document}\n")
}

/// Makes an issue that can refer to the earlier ones. Adds its number to `numbers`.
fn issue(index: usize, numbers: &mut Vec<usize>, random: &mut SplitMix64) -> Value {
    let number = numbers.last().unwrap_or(&FIRST_NUMBER) + 1 + random.below(6);
    let team = random.below(TEAMS.len());
    let product = product_index(random);
    let author = LOGINS[team * LOGINS_PER_TEAM + random.below(LOGINS_PER_TEAM)];
    let template = *random.pick(&TITLES);
    let title = template.replace("{p}", &spelled(PRODUCTS[product].name, random));
    let is_closed = random.chance(40);
    let labels = labels(team, random);
    let assignees = assignees(team, random);
    let milestone = if random.chance(25) {
        Value::Null
    } else {
        let (title, due_on) = *random.pick(&MILESTONES);
        json!({"title": title, "due_on": due_on})
    };
    let comments = if random.chance(30) { random.below(40) } else { random.below(8) };
    let (up, down) = (random.below(20), random.below(4));
    let blocks = blocks(numbers, random);
    let created = random_time(random);
    let updated = created + (1 + random.below(20_000) as u64) * MINUTE_MILLIS;
    let time = |millis| rfc3339(millis, SecondsFormat::Secs);
    let sentences = if index % LONG_INTERVAL == FIRST_LONG {
        11 + random.below(4)
    } else {
        2 + random.below(4)
    };
    let body = paragraph(sentences, product, random);
    numbers.push(number);
    json!({
        "key": key(number),
        "title": title,
        "state": if is_closed { "closed" } else { "open" },
        "author": {"login": author, "team": TEAMS[team]},
        "labels": labels,
        "assignees": assignees,
        "milestone": milestone,
        "comments": {"count": comments, "url": format!("/issues/{number}/comments")},
        "reactions": {"up": up, "down": down},
        "links": {"blocks": blocks},
        "created_at": time(created),
        "updated_at": time(updated),
        "closed_at": is_closed.then(|| time(updated)),
        "body": body,
    })
}

fn key(number: usize) -> String {
    format!("ATL-{number}")
}

/// One to three labels. Each team has two that it uses more.
fn labels(team: usize, random: &mut SplitMix64) -> Vec<Value> {
    let mut labels: Vec<usize> = Vec::new();
    for _ in 0..=random.below(3) {
        let label = if random.chance(45) {
            2 * team + random.below(2)
        } else {
            weighted(random, &LABEL_WEIGHTS)
        };
        if !labels.contains(&label) {
            labels.push(label);
        }
    }
    let object = |label: usize| json!({"name": LABELS[label].0, "color": LABELS[label].1});
    labels.into_iter().map(object).collect()
}

/// Up to two assignees, most of them from the team of the author.
fn assignees(team: usize, random: &mut SplitMix64) -> Vec<Value> {
    let mut assignees: Vec<usize> = Vec::new();
    for _ in 0..random.below(3) {
        let assignee = if random.chance(75) {
            let member = random.below(LOGINS_PER_TEAM).min(random.below(LOGINS_PER_TEAM));
            team * LOGINS_PER_TEAM + member
        } else {
            random.below(LOGINS.len())
        };
        if !assignees.contains(&assignee) {
            assignees.push(assignee);
        }
    }
    assignees.into_iter().map(|assignee| json!({"login": LOGINS[assignee]})).collect()
}

/// Up to two issues that an issue blocks, of which some do not exist.
fn blocks(numbers: &[usize], random: &mut SplitMix64) -> Vec<String> {
    (0..random.below(3))
        .map(|_| {
            if !numbers.is_empty() && random.chance(60) {
                key(*random.pick(numbers))
            } else {
                key(FIRST_UNUSED_NUMBER + random.below(9_000))
            }
        })
        .collect()
}

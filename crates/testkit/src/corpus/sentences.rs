//! The sentences the corpus is made of.

use mif::MemoryType;

use crate::random::SplitMix64;

pub(super) struct Text {
    pub(super) title: String,
    pub(super) content: String,
    pub(super) tags: Vec<String>,
}

/// `{s}` is a service, `{p}` a person, `{t}` a tool, `{n}` a number.
const SEMANTIC: &[(&str, &str)] = &[
    (
        "{s} keeps its data in {t}",
        "The {s} service stores its records in {t}, one schema for each customer.",
    ),
    (
        "{p} owns {s}",
        "{p} is responsible for the {s} service and answers questions about it on weekdays.",
    ),
    (
        "{s} allows {n} requests per second",
        "The {s} service refuses more than {n} requests per second from one client.",
    ),
    ("{p} prefers {t}", "{p} prefers {t} for daily work and asks that examples be written for it."),
    (
        "{t} was chosen for {s}",
        "The team chose {t} for {s} because the alternatives needed more memory.",
    ),
    (
        "{s} speaks version {n} of the protocol",
        "Since the spring release {s} only accepts version {n} of the wire protocol.",
    ),
    (
        "Backups of {s} are kept {n} days",
        "Backups of {s} are made with {t} every night and kept for {n} days.",
    ),
];
const EPISODIC: &[(&str, &str)] = &[
    (
        "{s} was down for {n} minutes",
        "On Tuesday the {s} service was unreachable for {n} minutes after a bad deployment.",
    ),
    (
        "{p} and the slow query in {s}",
        "{p} found that a missing index in {t} made every request to {s} take {n} milliseconds.",
    ),
    (
        "Planning session about {s}",
        "In the planning session {p} proposed to split {s} in two and to retire {t}.",
    ),
    (
        "The migration of {s} stopped",
        "The migration of {s} stopped at row {n} because {t} ran out of disk space.",
    ),
    (
        "{p} could not reach {t}",
        "{p} was blocked for {n} hours because the certificate of {t} had expired.",
    ),
    ("Load test of {s}", "The load test of {s} ended after {n} seconds with errors from {t}."),
];
const PROCEDURAL: &[(&str, &str)] = &[
    (
        "How to restart {s}",
        "To restart {s}, drain it first, wait {n} seconds, then start it again with {t}.",
    ),
    (
        "How to rotate the keys of {s}",
        "Make a new key with {t}, publish it to {s}, wait {n} minutes, and retire the old key.",
    ),
    (
        "Moving {s} to {t}",
        "Copy the data of {s} to {t} in batches of {n}, compare the counts, then switch the reads.",
    ),
    (
        "How {p} reviews changes to {s}",
        "{p} reviews changes to {s} in two passes and asks for a test when more than {n} lines change.",
    ),
    (
        "Retry with a limit in {s}",
        "Calls from {s} to {t} are retried at most {n} times, each time after twice the pause.",
    ),
    (
        "How to restore {s} from a backup",
        "Stop {s}, load the newest backup with {t}, replay {n} minutes of the log, and start it.",
    ),
];
const MORE: &[&str] = &[
    "Ask {p} before changing this.",
    "The dashboard shows it under \"{s} health\".",
    "It was written down after the review with {p}.",
    "See [[{t}]] for the details.",
    "The limit of {n} is enforced in the gateway, not here.",
    "Nobody has measured it since the move to {t}.",
    "Steps:\n1. look at {s}\n2. look at {t}\n3. tell {p}",
    "Numbers:\tbefore {n}, after less than half.",
    "The naïve approach was tried at the café meeting and failed.",
    "The customer in Tokyo (東京, 日本) depends on it.",
    "It costs about {n} € a month — acceptable, said {p}.",
    "This replaces the note from last year.",
    "The tests cover it only in part.",
    "If it fails, {s} falls back to the cached answer.",
];
const SERVICES: &[&str] = &[
    "billing",
    "search",
    "checkout",
    "inventory",
    "mail",
    "reports",
    "login",
    "catalog",
    "audit",
    "shipping",
    "export",
    "pricing",
    "alerts",
    "uploads",
    "payments",
    "profile",
];
const PEOPLE: &[&str] = &[
    "Ana Lim",
    "Jürgen Weiß",
    "Olu Adeyemi",
    "Mei Tanaka",
    "Priya Nair",
    "Lucía Gómez",
    "Tom Reed",
    "Ewa Król",
    "Sam O'Neil",
    "Noor Haddad",
];
const TOOLS: &[&str] = &[
    "Postgres",
    "Redis",
    "Kafka",
    "Terraform",
    "Grafana",
    "Nginx",
    "SQLite",
    "Ansible",
    "Vault",
    "Docker",
    "Consul",
    "Jenkins",
];
const TAGS: &[&str] = &[
    "database",
    "deployment",
    "security",
    "performance",
    "customer",
    "cost",
    "team",
    "network",
    "monitoring",
    "release",
    "backup",
    "api",
];

pub(super) fn text(memory_type: MemoryType, random: &mut SplitMix64) -> Text {
    let templates = match memory_type {
        MemoryType::Episodic => EPISODIC,
        MemoryType::Procedural => PROCEDURAL,
        _ => SEMANTIC,
    };
    let (title, sentence) = random.pick(templates);
    let service = *random.pick(SERVICES);
    let cast = Cast::new(service, random);
    let mut title = cast.fill(title);
    if random.chance(8) {
        let odd = ["\"urgent\"", "a\ttab", "two\nlines", "über alles", "☃ winter", "C:\\temp"];
        title = format!("{title} {}", random.pick(&odd));
    }
    let mut content = cast.fill(sentence);
    for _ in 0..2 + random.below(3) {
        content.push(if random.chance(15) { '\n' } else { ' ' });
        let more = *random.pick(MORE);
        content.push_str(&Cast::new(service, random).fill(more));
    }
    let mut tags = vec![service.to_owned()];
    for _ in 0..random.below(3) {
        let tag = (*random.pick(TAGS)).to_owned();
        if !tags.contains(&tag) {
            tags.push(tag);
        }
    }
    Text { title, content, tags }
}

/// Who and what a sentence is about; title and first sentence are about the same.
struct Cast {
    service: &'static str,
    person: &'static str,
    tool: &'static str,
    number: String,
}

impl Cast {
    fn new(service: &'static str, random: &mut SplitMix64) -> Self {
        let (person, tool) = (*random.pick(PEOPLE), *random.pick(TOOLS));
        Self { service, person, tool, number: (2 + random.below(998)).to_string() }
    }

    fn fill(&self, template: &str) -> String {
        template
            .replace("{s}", self.service)
            .replace("{p}", self.person)
            .replace("{t}", self.tool)
            .replace("{n}", &self.number)
    }
}

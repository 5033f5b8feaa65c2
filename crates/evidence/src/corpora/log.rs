//! The log: lines of text with a time, a level, a service, a host, a request id and a message.

use std::fmt::Write as _;

use chrono::SecondsFormat;
use testkit::SplitMix64;

use super::text::{hex_digits, spelled, weighted};
use super::time::{START_MILLIS, rfc3339};

/// The digits of a request id.
pub(crate) const REQUEST_DIGITS: usize = 12;

const LEVELS: [&str; 4] = ["DEBUG", "INFO", "WARN", "ERROR"];
const LEVEL_WEIGHTS: [usize; 4] = [12, 58, 20, 10];
const SERVICES: [&str; 8] =
    ["billing", "catalog", "checkout", "gateway", "inventory", "mailer", "reports", "search"];
const HOSTS: usize = 12;

/// What messages are about, each with a longer word that contains it.
pub(crate) const TOPICS: [(&str, &str); 12] = [
    ("Timeout", "timeouts"),
    ("Refused", "unrefused"),
    ("Retry", "retrying"),
    ("Evicted", "nonevicted"),
    ("Throttled", "unthrottled"),
    ("Checksum", "checksums"),
    ("Deadlock", "deadlocks"),
    ("Rollback", "rollbacks"),
    ("Handshake", "handshakes"),
    ("Overflow", "overflows"),
    ("Stale", "staleness"),
    ("Orphan", "orphans"),
];
/// Words that occur inside longer words only.
pub(crate) const UNUSED_TOPICS: [(&str, &str); 2] = [("Panic", "panics"), ("Quota", "quotas")];

/// `{t}` is a topic, `{n}` a number and `{r}` the id of another request.
const TOPICAL: [&str; 6] = [
    "{t} while reading shard {n}",
    "upstream {t} after {n} ms",
    "{t} in worker {n}",
    "{t} of {r} ignored",
    "{t} on attempt {n}",
    "recovered from {t} in {n} ms",
];
/// `{x}` is a longer word that contains a topic.
const PLAIN: [&str; 8] = [
    "request finished in {n} ms",
    "cache hit ratio {n} percent",
    "{x} counter reset to {n}",
    "{x} reported by job {n}",
    "{n} rows written",
    "connection {n} closed",
    "queue depth {n}",
    "{r} was forwarded to shard {n}",
];

/// Writes `count` lines.
pub(super) fn generate(count: usize, random: &mut SplitMix64) -> String {
    let mut text = String::new();
    let mut requests = Vec::with_capacity(count);
    let mut millis = START_MILLIS;
    for _ in 0..count {
        millis += 1 + random.below(4_000) as u64;
        let level = LEVELS[weighted(random, &LEVEL_WEIGHTS)];
        let service = random.below(SERVICES.len());
        let host = 1 + if random.chance(60) { random.below(HOSTS) } else { service };
        let request = hex_digits(REQUEST_DIGITS, random);
        let message = message(service, &requests, random);
        let (time, service) = (rfc3339(millis, SecondsFormat::Millis), SERVICES[service]);
        let _ = writeln!(text, "{time} {level} {service} node-{host:02} req={request} {message}");
        requests.push(request);
    }
    text
}

/// A message that can refer to an earlier request. Each service has three topics that it meets
/// more.
fn message(service: usize, requests: &[String], random: &mut SplitMix64) -> String {
    let mut text = if random.chance(55) {
        let topic =
            if random.chance(50) { service + random.below(3) } else { random.below(TOPICS.len()) };
        let template = *random.pick(&TOPICAL);
        template.replace("{t}", &spelled(TOPICS[topic].0, random))
    } else {
        (*random.pick(&PLAIN)).to_owned()
    };
    if text.contains("{x}") {
        let index = random.below(TOPICS.len() + UNUSED_TOPICS.len());
        let (_, longer) = match TOPICS.get(index) {
            Some(topic) => *topic,
            None => UNUSED_TOPICS[index - TOPICS.len()],
        };
        text = text.replace("{x}", longer);
    }
    if text.contains("{n}") {
        text = text.replace("{n}", &(1 + random.below(900)).to_string());
    }
    if text.contains("{r}") {
        // Half of the other requests are not in the log.
        let other = if !requests.is_empty() && random.chance(50) {
            random.pick(requests).clone()
        } else {
            hex_digits(REQUEST_DIGITS, random)
        };
        text = text.replace("{r}", &other);
    }
    text
}

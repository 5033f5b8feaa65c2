//! The memories: MIF objects, one per line.

use mif::{
    Entity, EntityType, Map, Memory, MemoryId, MemoryType, NodeReference, Provenance, Relationship,
    RelationshipType, Status, Timestamp, UnitInterval,
};
use serde_json::json;
use testkit::SplitMix64;

use super::text::{
    PEOPLE, PRODUCTS, REPORT_SENTENCES, Templates, UNMENTIONED_PRODUCTS, product_index, sentence,
};
use super::time::{date_time, random_time};

/// One memory in this many is long.
const LONG_INTERVAL: usize = 16;
/// The first long memory.
const FIRST_LONG: usize = 9;
/// The sentences before the line break of a long memory.
const FIRST_PARAGRAPH_SENTENCES: usize = 5;

const NAMESPACES: [&str; 10] = [
    "_semantic/decisions",
    "_semantic/knowledge",
    "_semantic/entities",
    "_semantic/preferences",
    "_episodic/incidents",
    "_episodic/sessions",
    "_episodic/blockers",
    "_procedural/runbooks",
    "_procedural/patterns",
    "_procedural/migrations",
];

/// The tags of the memories.
const TAGS: [&str; 24] = [
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
    "latency",
    "storage",
    "compliance",
    "mobile",
    "search",
    "cache",
    "queue",
    "onboarding",
    "incident",
    "contract",
    "testing",
    "support",
];

/// Tags that no memory has. Some of the words occur in sentences.
pub(crate) const UNUSED_TAGS: [&str; 10] = [
    "firmware",
    "payroll",
    "lighting",
    "catering",
    "translation",
    "warranty",
    "telemetry",
    "signage",
    "parking",
    "printing",
];

/// `{p}` is a product and `{n}` a number.
const TITLES: [&str; 6] = [
    "{p} limits {n}",
    "{p} outage {n}",
    "{p} runbook {n}",
    "{p} review {n}",
    "{p} costs {n}",
    "{p} notes {n}",
];

/// The first sentences of semantic memories.
const SEMANTIC: &[&str] = &[
    "{p} keeps its state in Postgres.",
    "{p} accepts {n} requests per second.",
    "{w} owns {p} and its budget.",
    "Billing depends on {p} for invoices.",
    "{p} stores backups for {n} days.",
    "The contract for {p} ends in May.",
    "{w} prefers {p} over spreadsheets.",
    "{p} runs in two regions.",
];

/// The first sentences of episodic memories.
const EPISODIC: &[&str] = &[
    "{p} was down for {n} minutes.",
    "{w} rolled {p} back on Friday.",
    "The {p} migration stopped at row {n}.",
    "A customer lost {n} orders in {p}.",
    "{w} met the {p} team in Lisbon.",
    "The load test of {p} failed after {n} seconds.",
    "An expired certificate blocked {p} for a day.",
    "{w} saw {n} errors in {p}.",
];

/// The first sentences of procedural memories.
const PROCEDURAL: &[&str] = &[
    "Drain {p} before a restart.",
    "Rotate the {p} keys every {n} days.",
    "Ask {w} before changing {p}.",
    "Copy {p} data in batches of {n}.",
    "Retry {p} calls at most {n} times.",
    "Restore {p} from the newest backup.",
    "Warm the {p} cache after a deploy.",
    "Tell {w} when {p} is slow.",
];

/// The further sentences of short memories.
const FURTHER: &[&str] = &[
    "See the {x} page for details.",
    "{w} measured it twice.",
    "It costs {n} euros a month.",
    "{w} has not tested it with {p}.",
    "The {x} report disagrees.",
    "This replaces note {n}.",
    "The Zürich office depends on it.",
    "Payroll asked for it.",
    "The firmware was not the cause.",
    "{p} shares the same limit.",
];

const RELATIONSHIP_TYPES: [RelationshipType; 5] = [
    RelationshipType::RelatesTo,
    RelationshipType::DerivedFrom,
    RelationshipType::Supersedes,
    RelationshipType::PartOf,
    RelationshipType::Uses,
];

/// Writes `count` memories, each on a line.
pub(super) fn generate(count: usize, random: &mut SplitMix64) -> String {
    let mut text = String::new();
    let mut ids = Vec::with_capacity(count);
    for index in 0..count {
        let memory = memory(index, &ids, random);
        text.push_str(&memory.to_json());
        text.push('\n');
        ids.push(memory.id);
    }
    text
}

/// An id that no memory has.
pub(crate) fn unused_id(random: &mut SplitMix64) -> MemoryId {
    let time = random_time(random);
    id(time, random)
}

/// Makes a memory that can refer to the earlier ones, `ids`.
fn memory(index: usize, ids: &[MemoryId], random: &mut SplitMix64) -> Memory {
    let product = product_index(random);
    // Namespaces and tags depend on the product, so that groups have a clear largest one.
    let namespace = if random.chance(60) {
        NAMESPACES[3 * product % NAMESPACES.len()]
    } else {
        *random.pick(&NAMESPACES)
    };
    let time = random_time(random);
    let id = id(time, random);
    let title = title(product, random);
    let memory_type = memory_type(namespace);
    let content = content(index, memory_type, product, random);
    let mut memory = Memory::new(id, memory_type, content, Timestamp::from(date_time(time)))
        .expect("the content is neither empty nor long");
    memory.title = Some(title);
    memory.namespace = Some(namespace.parse().expect("the namespaces are valid"));
    memory.status = Some(Status::Active);
    if random.chance(60) {
        memory.tags = Some(tags(product, random));
        memory.entities = Some(entities(product, random));
        memory.relationships = Some(relationships(product, ids, random));
    }
    memory.provenance = Some(provenance(random));
    memory.extensions = Some(extensions(random));
    memory
}

fn memory_type(namespace: &str) -> MemoryType {
    match namespace.split('/').next() {
        Some("_episodic") => MemoryType::Episodic,
        Some("_procedural") => MemoryType::Procedural,
        _ => MemoryType::Semantic,
    }
}

fn id(time: u64, random: &mut SplitMix64) -> MemoryId {
    let mut bits = [0; 10];
    bits[..8].copy_from_slice(&random.next_u64().to_be_bytes());
    bits[8..].copy_from_slice(&random.next_u64().to_be_bytes()[..2]);
    MemoryId::v7(time, bits)
}

/// A title. A few name another product than the content does.
fn title(product: usize, random: &mut SplitMix64) -> String {
    let template = *random.pick(&TITLES);
    let name = if random.chance(12) {
        let index = random.below(UNMENTIONED_PRODUCTS.len() + PRODUCTS.len());
        match UNMENTIONED_PRODUCTS.get(index) {
            Some(product) => product.name,
            None => PRODUCTS[index - UNMENTIONED_PRODUCTS.len()].name,
        }
    } else {
        PRODUCTS[product].name
    };
    let number = (2 + random.below(998)).to_string();
    template.replace("{p}", name).replace("{n}", &number)
}

fn content(
    index: usize,
    memory_type: MemoryType,
    product: usize,
    random: &mut SplitMix64,
) -> String {
    let first = match memory_type {
        MemoryType::Episodic => EPISODIC,
        MemoryType::Procedural => PROCEDURAL,
        _ => SEMANTIC,
    };
    let template = *random.pick(first);
    let mut sentences = vec![sentence(template, product, random)];
    let is_long = index % LONG_INTERVAL == FIRST_LONG;
    let (templates, count) = if is_long {
        (REPORT_SENTENCES, 10 + random.below(4))
    } else {
        (FURTHER, 1 + random.below(3))
    };
    let mut templates = Templates::new(templates);
    for _ in 0..count {
        let template = templates.draw(random);
        let product = product_index(random);
        sentences.push(sentence(template, product, random));
    }
    if is_long {
        let (first, second) = sentences.split_at(FIRST_PARAGRAPH_SENTENCES);
        format!("{}\n{}", first.join(" "), second.join(" "))
    } else {
        sentences.join(" ")
    }
}

fn tags(product: usize, random: &mut SplitMix64) -> Vec<String> {
    let mut tags: Vec<String> = Vec::new();
    for _ in 0..3 + random.below(3) {
        let tag = if random.chance(55) {
            TAGS[(5 * product + random.below(2)) % TAGS.len()]
        } else {
            *random.pick(&TAGS)
        };
        if !tags.iter().any(|known| known == tag) {
            tags.push(tag.to_owned());
        }
    }
    tags
}

fn entities(product: usize, random: &mut SplitMix64) -> Vec<Entity> {
    let mut technology = Entity::default();
    technology.entity_type = Some(EntityType::Technology);
    technology.name = Some(PRODUCTS[product].name.to_owned());
    let mut entities = vec![technology];
    if random.chance(20) {
        let mut person = Entity::default();
        person.name = Some((*random.pick(&PEOPLE)).to_owned());
        entities.push(person);
    }
    entities
}

/// Relationships: most to an earlier memory, some to a memory that does not exist, so that an id
/// can occur in the result without being the id of a record, and some to an entity.
fn relationships(product: usize, ids: &[MemoryId], random: &mut SplitMix64) -> Vec<Relationship> {
    let count = 1 + usize::from(random.chance(6));
    (0..count)
        .map(|_| {
            let relationship_type = random.pick(&RELATIONSHIP_TYPES).clone();
            let choice = random.below(100);
            let target = if choice < 78 && !ids.is_empty() {
                // Earlier memories are targets more often, as in real collections.
                ids[random.below(ids.len()).min(random.below(ids.len()))].urn()
            } else if choice < 92 {
                unused_id(random).urn()
            } else {
                format!("urn:mif:entity:{}", PRODUCTS[product].name.to_lowercase())
            };
            Relationship::new(relationship_type, NodeReference::from(target.as_str()))
        })
        .collect()
}

/// A confidence from 0.30 to 1.00 with the median 0.7.
fn provenance(random: &mut SplitMix64) -> Provenance {
    let hundredths = if random.chance(48) { 30 + random.below(40) } else { 70 + random.below(31) };
    let hundredths = u32::try_from(hundredths).expect("at most 100");
    let mut provenance = Provenance::default();
    // A single division, which every machine rounds in the same way.
    provenance.confidence = UnitInterval::new(f64::from(hundredths) / 100.0);
    provenance
}

/// The priority, and in some memories another priority that no question is about.
fn extensions(random: &mut SplitMix64) -> Map {
    let priority = 1 + random.below(5);
    let mut extensions = Map::new();
    if random.chance(15) {
        let other = json!({"priority": 1 + random.below(5)});
        extensions.insert("planner".to_owned(), other.into());
    }
    extensions.insert("bench".to_owned(), json!({"priority": priority}).into());
    extensions
}

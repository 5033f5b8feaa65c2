//! The map: an object whose keys are the ids of services.

use serde_json::{Map, Value, json};
use testkit::SplitMix64;

use super::text::{PRODUCTS, hex_digits, paragraph, product_index, weighted};

/// The digits of an id after its prefix.
const ID_DIGITS: usize = 8;

const REGIONS: [&str; 5] = ["eu-north", "eu-west", "us-east", "us-west", "ap-south"];
const TIERS: [&str; 3] = ["gold", "silver", "bronze"];
const TIER_WEIGHTS: [usize; 3] = [25, 35, 40];
const OWNERS: [&str; 8] =
    ["atlas", "boreas", "castor", "draco", "electra", "fornax", "gemini", "hydra"];
const MAX_REPLICAS: usize = 12;

/// Writes an object with `count` services.
pub(super) fn generate(count: usize, random: &mut SplitMix64) -> String {
    let mut members = Map::new();
    let mut keys = Vec::with_capacity(count);
    for _ in 0..count {
        let key = key(random);
        let service = service(&keys, random);
        members.insert(key.clone(), service);
        keys.push(key);
    }
    format!("{}\n", Value::Object(members))
}

fn key(random: &mut SplitMix64) -> String {
    format!("svc-{}", hex_digits(ID_DIGITS, random))
}

/// Makes a service that can depend on the earlier ones, `keys`.
fn service(keys: &[String], random: &mut SplitMix64) -> Value {
    let product = product_index(random);
    let owner = random.below(OWNERS.len());
    let region =
        if random.chance(45) { owner % REGIONS.len() } else { random.below(REGIONS.len()) };
    let tier = TIERS[weighted(random, &TIER_WEIGHTS)];
    let replicas = 1 + random.below(MAX_REPLICAS).min(random.below(MAX_REPLICAS));
    let cpu_millis = (1 + random.below(16)) * 250;
    let memory_mb = (1 + random.below(32)) * 128;
    let depends_on: Vec<String> = (0..random.below(3))
        .map(|_| {
            // A third of the dependencies are not in the map.
            if !keys.is_empty() && random.chance(65) {
                random.pick(keys).clone()
            } else {
                key(random)
            }
        })
        .collect();
    let sentences = 3 + random.below(4);
    let notes = paragraph(sentences, product, random);
    json!({
        "product": PRODUCTS[product].name,
        "owner": OWNERS[owner],
        "region": REGIONS[region],
        "tier": tier,
        "replicas": replicas,
        "limits": {"cpu_millis": cpu_millis, "memory_mb": memory_mb},
        "depends_on": depends_on,
        "notes": notes,
    })
}

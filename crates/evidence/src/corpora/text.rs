//! Words and sentences of the corpora.
//!
//! A sentence ends with its only full stop, so that a text can be split into sentences without
//! knowledge of a language.

use testkit::SplitMix64;

/// A product that sentences mention.
#[derive(Debug)]
pub(crate) struct Product {
    /// The name. Sentences spell it in three ways.
    pub(crate) name: &'static str,
    /// A longer word that contains the name and is not a mention.
    longer: &'static str,
    /// The number of mentions in 100 that are of this product.
    weight: usize,
}

const fn product(name: &'static str, longer: &'static str, weight: usize) -> Product {
    Product { name, longer, weight }
}

/// The products, most frequent first.
pub(crate) const PRODUCTS: [Product; 12] = [
    product("Heron", "heronry", 26),
    product("Sparrow", "sparrowhawk", 18),
    product("Falcon", "falconer", 13),
    product("Osprey", "ospreys", 11),
    product("Kestrel", "kestrels", 9),
    product("Condor", "condors", 7),
    product("Plover", "plovers", 5),
    product("Curlew", "curlews", 4),
    product("Merlin", "merlins", 3),
    product("Bittern", "bitterns", 2),
    product("Swift", "swiftly", 1),
    product("Wren", "wrens", 1),
];

/// Products that no sentence mentions: their names occur in titles and inside longer words only.
pub(crate) const UNMENTIONED_PRODUCTS: [Product; 3] = [
    product("Gannet", "gannets", 0),
    product("Puffin", "puffins", 0),
    product("Linnet", "linnets", 0),
];

/// People.
pub(crate) const PEOPLE: [&str; 8] = ["Ana", "Mei", "Priya", "Tom", "Ewa", "Noor", "Jürgen", "Olu"];

/// Sentences of reports. `{p}` is a product, `{w}` a person, `{n}` a number and `{x}` a longer word
/// that contains the name of a product.
pub(crate) const REPORT_SENTENCES: &[&str] = &[
    "{w} opened ticket {n}.",
    "The first alarm came from {p}.",
    "Queue {n} was full.",
    "{w} compared both dashboards.",
    "The {x} job was not involved.",
    "A restart took {n} seconds.",
    "Disk usage was at {n} percent.",
    "{w} called the hosting company.",
    "The cache of {p} was cold.",
    "Traffic moved to region {n}.",
    "The replica was {n} records behind.",
    "{w} found a stale lock.",
    "The lock belonged to {p}.",
    "A script removed it.",
    "The number of retries fell to {n}.",
    "Customers were told at noon.",
    "{w} wrote the summary.",
    "The summary names {p} as the cause.",
    "The {x} entry in the wiki is outdated.",
    "The test environment showed no errors.",
    "{w} asked for a second review.",
    "The review found {n} open points.",
    "The certificate was valid.",
    "The new limit is {n}.",
    "The old limit was lower.",
    "{w} keeps a copy of the logs.",
    "The logs cover {n} hours.",
    "Telemetry from the printers was ignored.",
    "The warranty does not cover it.",
    "The next check is in week {n}.",
];

/// Draws an index with these weights.
pub(crate) fn weighted(random: &mut SplitMix64, weights: &[usize]) -> usize {
    let mut left = random.below(weights.iter().sum());
    for (index, weight) in weights.iter().enumerate() {
        if left < *weight {
            return index;
        }
        left -= weight;
    }
    weights.len() - 1
}

/// Draws the index of a product.
pub(crate) fn product_index(random: &mut SplitMix64) -> usize {
    weighted(random, &PRODUCTS.map(|product| product.weight))
}

/// Spells a capitalized name as it is, in lower case or in upper case.
pub(crate) fn spelled(name: &str, random: &mut SplitMix64) -> String {
    match random.below(3) {
        0 => name.to_owned(),
        1 => name.to_lowercase(),
        _ => name.to_uppercase(),
    }
}

/// Fills the gaps of a sentence about `product`, an index of [`PRODUCTS`].
pub(crate) fn sentence(template: &str, product: usize, random: &mut SplitMix64) -> String {
    let mut text = template.to_owned();
    if text.contains("{p}") {
        text = text.replace("{p}", &spelled(PRODUCTS[product].name, random));
    }
    if text.contains("{w}") {
        let person = *random.pick(&PEOPLE);
        text = text.replace("{w}", person);
    }
    if text.contains("{n}") {
        text = text.replace("{n}", &(2 + random.below(88)).to_string());
    }
    if text.contains("{x}") {
        let index = random.below(PRODUCTS.len() + UNMENTIONED_PRODUCTS.len());
        let longer = match PRODUCTS.get(index) {
            Some(product) => product.longer,
            None => UNMENTIONED_PRODUCTS[index - PRODUCTS.len()].longer,
        };
        text = text.replace("{x}", longer);
    }
    text
}

/// Draws templates, none of them twice.
pub(crate) struct Templates(Vec<&'static str>);

impl Templates {
    pub(crate) fn new(templates: &[&'static str]) -> Self {
        Self(templates.to_vec())
    }

    pub(crate) fn draw(&mut self, random: &mut SplitMix64) -> &'static str {
        self.0.remove(random.below(self.0.len()))
    }
}

/// A paragraph of a report, half of whose sentences can only mention `product`.
pub(crate) fn paragraph(sentences: usize, product: usize, random: &mut SplitMix64) -> String {
    let mut templates = Templates::new(REPORT_SENTENCES);
    let texts: Vec<String> = (0..sentences)
        .map(|_| {
            let template = templates.draw(random);
            let product = if random.chance(50) { product } else { product_index(random) };
            sentence(template, product, random)
        })
        .collect();
    texts.join(" ")
}

/// A number of hexadecimal digits, at most 16.
pub(crate) fn hex_digits(digits: usize, random: &mut SplitMix64) -> String {
    let mut text = format!("{:016x}", random.next_u64());
    text.truncate(digits);
    text
}

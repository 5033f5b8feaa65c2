//! Semantic quality of a model: related sentences are nearer than unrelated ones.

use atlatl_memory::embed::Embedder;

use super::contract::dot;

/// A sentence, a paraphrase, and whether they share words.
const RELATED: [(&str, &str); 8] = [
    ("The server ran out of disk space.", "There is no disk space left on the server."),
    ("She prefers tea to coffee in the morning.", "For breakfast she drinks tea, not coffee."),
    ("The database backup runs every night.", "Backups of the database are made nightly."),
    ("Our train to Berlin was cancelled.", "The railway dropped our Berlin train."),
    ("The cat is sleeping on the sofa.", "A kitten naps on the couch."),
    ("Interest rates rose again this quarter.", "The central bank raised interest rates."),
    ("He broke his leg while skiing.", "A skiing accident left him with a broken leg."),
    ("Use four spaces to indent Python code.", "Python code is indented with four spaces."),
];

/// Every sentence finds its partner among all sixteen.
pub(crate) fn run(embedder: &dyn Embedder) {
    let texts: Vec<&str> = RELATED.iter().flat_map(|&(a, b)| [a, b]).collect();
    let vectors = embedder.embed(&texts).unwrap();
    for (index, vector) in vectors.iter().enumerate() {
        let partner = index ^ 1;
        let related = dot(vector, &vectors[partner]);
        for (other, unrelated) in vectors.iter().enumerate() {
            if other != index && other != partner {
                let unrelated = dot(vector, unrelated);
                assert!(
                    related > unrelated,
                    "{:?} is nearer to {:?} ({unrelated:.3}) than to {:?} ({related:.3})",
                    texts[index],
                    texts[other],
                    texts[partner],
                );
            }
        }
    }
}

//! A program that is nothing but a worker.

fn main() {
    lro_query::worker::enter();
}

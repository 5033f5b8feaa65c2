//! A program that is only a worker, for embedders that cannot call `worker::enter` themselves.

fn main() {
    lro_query::worker::enter();
}

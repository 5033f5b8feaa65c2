//! Route: a path, what answers it, and what a request must prove.

use axum::routing::MethodRouter;

/// What a request must prove before a route answers it. Every route says so, and tests take the list of
/// routes from where they are declared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exposure {
    /// Who sends it.
    Authenticated,
    /// Nothing but its path, which holds a signature.
    SignedLink,
    /// Nothing: the answer holds no data of a user.
    Public,
}

/// One path of a server.
pub struct Route<S = ()> {
    /// As axum spells it.
    pub path: &'static str,
    /// What a request must prove.
    pub exposure: Exposure,
    /// What answers it.
    pub methods: MethodRouter<S>,
}

impl<S> Route<S> {
    /// `methods` at `path`.
    pub fn new(path: &'static str, exposure: Exposure, methods: MethodRouter<S>) -> Self {
        Self { path, exposure, methods }
    }
}

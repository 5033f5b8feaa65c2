//! Access: who asks, told by what they bring.
//!
//! A key of ours is looked up and compared; a token of an authorization server is checked with that
//! server's public keys, which are fetched and change. Whoever was known a moment ago is known still:
//! a revoked key is let in for ten seconds at most.

mod doorman;
mod issuer;
mod known;

pub use doorman::{Denied, Doorman, Keys};
pub use issuer::{Fetch, Issuer};

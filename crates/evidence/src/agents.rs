//! Agents: what answers the questions.

pub mod endpoint;
pub mod scripted;

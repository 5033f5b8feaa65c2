//! The parts of a world: the program, its tools, and the tools that a host adds.

pub(crate) mod data_tool;
pub(crate) mod definitions;
pub(crate) mod python;
pub(crate) mod replies;
pub(crate) mod sandbox;
pub(crate) mod server;

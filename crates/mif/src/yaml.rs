//! Front matter: the part of YAML that is JSON in friendlier clothes.
//!
//! Read with `saphyr-parser`, which reports events with their exact source text, because a YAML
//! library with values of its own would turn `123456789012345678901234567890` into a float and
//! expand aliases before anyone could object. Written by hand, because only then is it certain
//! that what is written reads back as the same value.

mod read;
mod scalar;
mod write;

pub(crate) use read::read;
pub(crate) use write::write;

//! The field names of the first records.

use lro_json::{Elements, Members, decode};
use lro_spool::{PositionedRead, SpoolError};

/// The bytes of the first records that are read for their field names.
const HEAD_BYTES: usize = 256 * 1024;
/// The depth of field names.
const MAX_DEPTH: usize = 5;
/// The number of field names.
const MAX_PATHS: usize = 2000;

/// The fields of the first records: paths of names.
#[derive(Default)]
pub(crate) struct FieldPaths {
    paths: Vec<Vec<String>>,
    /// The paths of arrays of objects.
    #[cfg_attr(not(feature = "jq"), expect(dead_code, reason = "only filters iterate them"))]
    arrays: Vec<Vec<String>>,
}

impl FieldPaths {
    /// Reads the names from the first of the record lines, which begin at `begin`.
    pub(crate) fn read(records: &dyn PositionedRead, begin: u64) -> Result<Self, SpoolError> {
        let mut head = vec![0; HEAD_BYTES];
        let mut filled = 0;
        while filled < head.len() {
            match records.read_at(begin + filled as u64, &mut head[filled..])? {
                0 => break,
                read => filled += read,
            }
        }
        let mut paths = Self::default();
        // The last line may be incomplete; its first members are still good.
        for line in head[..filled].split(|byte| *byte == b'\n') {
            paths.add(line, &mut Vec::new());
        }
        Ok(paths)
    }

    fn add(&mut self, json: &[u8], path: &mut Vec<String>) {
        if path.len() == MAX_DEPTH || self.paths.len() >= MAX_PATHS {
            return;
        }
        for (name, value) in Members::new(json).into_iter().flatten().map_while(Result::ok) {
            let Some(name) = decode(name) else { continue };
            path.push(name.into_owned());
            if !self.paths.contains(path) {
                self.paths.push(path.clone());
            }
            self.add(value, path);
            let first = Elements::new(value).and_then(|mut elements| elements.next()?.ok());
            if first.is_some_and(|first| first.starts_with(b"{")) && !self.arrays.contains(path) {
                self.arrays.push(path.clone());
            }
            path.pop();
        }
    }

    /// All paths.
    #[cfg(feature = "sql")]
    pub(crate) fn paths(&self) -> &[Vec<String>] {
        &self.paths
    }

    /// The names of the fields of a record.
    pub(crate) fn top(&self) -> impl Iterator<Item = &String> {
        self.paths.iter().filter(|path| path.len() == 1).map(|path| &path[0])
    }

    /// The paths of arrays of objects.
    #[cfg(feature = "jq")]
    pub(crate) fn arrays(&self) -> &[Vec<String>] {
        &self.arrays
    }

    /// The only path that ends with `names`, ignoring case; the shortest if one is a prefix of the
    /// others in length.
    #[cfg(feature = "sql")]
    pub(crate) fn ending_with(&self, names: &[&str]) -> Option<&[String]> {
        let mut ending: Vec<&Vec<String>> = self
            .paths
            .iter()
            .filter(|path| {
                path.len() >= names.len()
                    && path[path.len() - names.len()..]
                        .iter()
                        .zip(names)
                        .all(|(name, wanted)| name.eq_ignore_ascii_case(wanted))
            })
            .collect();
        ending.sort_by_key(|path| path.len());
        match ending.as_slice() {
            [only] => Some(only),
            [first, second, ..] if first.len() < second.len() => Some(first),
            _ => None,
        }
    }
}

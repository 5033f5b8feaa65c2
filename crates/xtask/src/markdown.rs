//! Just enough Markdown to check documents: fenced blocks, prose, table rows, headings.

pub mod generated;

/// A fenced code block.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Block<'a> {
    /// The text after the opening fence.
    pub(crate) info: &'a str,
    /// The line number of the opening fence, from 1.
    pub(crate) line: usize,
    /// The lines between the fences, without the fence's indentation.
    pub(crate) body: Vec<&'a str>,
}

/// A document split into its fenced blocks and the lines outside them.
#[derive(Debug)]
pub(crate) struct Document<'a> {
    /// The fenced blocks in order.
    pub(crate) blocks: Vec<Block<'a>>,
    /// The other lines with their numbers, from 1.
    pub(crate) prose: Vec<(usize, &'a str)>,
}

impl<'a> Document<'a> {
    /// Splits `text`; a fence that is never closed runs to the end, as in `CommonMark`.
    pub(crate) fn parse(text: &'a str) -> Self {
        let mut document = Self { blocks: Vec::new(), prose: Vec::new() };
        let mut lines = text.lines().enumerate().map(|(index, line)| (index + 1, line));
        while let Some((number, line)) = lines.next() {
            let Some(fence) = Fence::open(line) else {
                document.prose.push((number, line));
                continue;
            };
            let body = lines
                .by_ref()
                .map(|(_, line)| line)
                .take_while(|line| !fence.closes(line))
                .map(|line| fence.unindent(line))
                .collect();
            document.blocks.push(Block { info: fence.info, line: number, body });
        }
        document
    }

    /// The cells of every table row outside code blocks, rules and header rows included.
    pub(crate) fn table_rows(&self) -> impl Iterator<Item = (usize, Vec<&'a str>)> + '_ {
        self.prose.iter().filter_map(|(number, line)| {
            let inner = line.trim().strip_prefix('|')?.strip_suffix('|')?;
            Some((*number, cells(inner)))
        })
    }

    /// The anchors that the headings make, as GitHub spells them.
    pub(crate) fn anchors(&self) -> Vec<String> {
        let mut anchors: Vec<String> = Vec::new();
        for (_, line) in &self.prose {
            let title = line.trim_start_matches('#');
            if title.len() == line.len() || !title.starts_with(' ') {
                continue;
            }
            let base: String = title
                .trim()
                .chars()
                .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
                .flat_map(char::to_lowercase)
                .map(|c| if c == ' ' { '-' } else { c })
                .collect();
            let earlier = (1..).map(|n| format!("{base}-{n}"));
            let free = std::iter::once(base.clone()).chain(earlier).find(|a| !anchors.contains(a));
            anchors.extend(free);
        }
        anchors
    }
}

/// The cells of a table row; a `|` inside backticks or after a backslash does not divide.
fn cells(row: &str) -> Vec<&str> {
    let mut cells = Vec::new();
    let (mut start, mut in_code, mut escaped) = (0, false, false);
    for (at, c) in row.char_indices() {
        match c {
            '`' => in_code = !in_code,
            '|' if !in_code && !escaped => {
                cells.push(row[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
        escaped = c == '\\' && !escaped;
    }
    cells.push(row[start..].trim());
    cells
}

/// The spans between single backticks in `text`.
pub(crate) fn code_spans(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

#[derive(Debug)]
struct Fence<'a> {
    marker: char,
    length: usize,
    indent: usize,
    info: &'a str,
}

impl<'a> Fence<'a> {
    fn open(line: &'a str) -> Option<Self> {
        let rest = line.trim_start();
        let marker = rest.chars().next().filter(|c| matches!(c, '`' | '~'))?;
        let info = rest.trim_start_matches(marker);
        let length = rest.len() - info.len();
        // An info string with a backtick is inline code, not a fence.
        let is_fence = length >= 3 && !(marker == '`' && info.contains('`'));
        is_fence.then(|| Self {
            marker,
            length,
            indent: line.len() - rest.len(),
            info: info.trim(),
        })
    }

    fn closes(&self, line: &str) -> bool {
        let line = line.trim();
        line.len() >= self.length && line.chars().all(|c| c == self.marker)
    }

    fn unindent<'l>(&self, line: &'l str) -> &'l str {
        let spaces = line.bytes().take(self.indent).take_while(|b| *b == b' ').count();
        &line[spaces..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_and_prose_are_told_apart() {
        let document = Document::parse("a\n```console\n$ x\n```\nb\n  ~~~\n  y\n  ~~~\n");
        assert_eq!(document.prose, [(1, "a"), (5, "b")]);
        assert_eq!(
            document.blocks,
            [
                Block { info: "console", line: 2, body: vec!["$ x"] },
                Block { info: "", line: 6, body: vec!["y"] },
            ]
        );
    }

    #[test]
    fn a_longer_fence_holds_a_shorter_one() {
        let document = Document::parse("````markdown\n```console\n```\n````\nend");
        assert_eq!(document.blocks.len(), 1);
        assert_eq!(document.blocks[0].body, ["```console", "```"]);
        assert_eq!(document.prose, [(5, "end")]);
    }

    #[test]
    fn rows_are_split_outside_code() {
        let document = Document::parse("| a | `b | c` |\n|---|---|\ntext | no row\n");
        let rows: Vec<_> = document.table_rows().map(|(_, cells)| cells).collect();
        assert_eq!(rows, [vec!["a", "`b | c`"], vec!["---", "---"]]);
    }

    #[test]
    fn anchors_follow_the_headings() {
        let document = Document::parse("# A `b` C!\n## Two words\n## Two words\n#no\n");
        assert_eq!(document.anchors(), ["a-b-c", "two-words", "two-words-1"]);
    }

    #[test]
    fn spans_are_the_text_between_backticks() {
        assert_eq!(code_spans("see `a::b` and `c`"), ["a::b", "c"]);
    }
}

//! The commands of a shell script, split into pipelines. It understands as much of the syntax as
//! commands of agents use: quotes, pipes, lists, redirections, substitutions and here-documents.

/// The words of a simple command.
pub(super) type Words = Vec<String>;
/// The commands of a pipeline.
pub(super) type Pipeline = Vec<Words>;

/// Words before a command that are not part of it.
const KEYWORDS: [&str; 12] =
    ["if", "then", "elif", "else", "while", "until", "do", "time", "!", "{", "}", "exec"];

/// The pipelines of a script, those of substitutions included.
pub(super) fn pipelines(script: &str) -> Vec<Pipeline> {
    let mut splitter = Splitter::default();
    splitter.split(script);
    splitter.end_pipeline();
    splitter.pipelines
}

#[derive(Default)]
struct Splitter {
    pipelines: Vec<Pipeline>,
    pipeline: Pipeline,
    words: Words,
    word: Option<String>,
    /// The next word is the target of a redirection.
    redirected: bool,
    /// The end marks of here-documents that begin with the next line.
    here_documents: Vec<String>,
}

impl Splitter {
    fn split(&mut self, script: &str) {
        let mut rest = script;
        while let Some(character) = rest.chars().next() {
            let after = &rest[character.len_utf8()..];
            rest = match character {
                '\'' => {
                    let (inner, after) = after.split_once('\'').unwrap_or((after, ""));
                    self.push(inner);
                    after
                }
                '"' => self.double_quoted(after),
                '\\' => {
                    let escaped = after.chars().next().map_or(0, char::len_utf8);
                    let (escaped, after) = after.split_at(escaped);
                    if escaped != "\n" {
                        self.push(escaped);
                    }
                    after
                }
                '$' if after.starts_with('(') && !after.starts_with("((") => {
                    self.substitution(&after[1..], ')')
                }
                '`' => self.substitution(after, '`'),
                '#' if self.word.is_none() => after.find('\n').map_or("", |at| &after[at..]),
                '\n' => {
                    self.end_pipeline();
                    self.skip_here_documents(after)
                }
                ';' | '(' | ')' => {
                    self.end_pipeline();
                    after
                }
                '&' if after.starts_with('>') => after,
                '&' => {
                    self.end_pipeline();
                    after.strip_prefix('&').unwrap_or(after)
                }
                '|' => {
                    if let Some(after) = after.strip_prefix('|') {
                        self.end_pipeline();
                        after
                    } else {
                        self.end_command();
                        after.strip_prefix('&').unwrap_or(after)
                    }
                }
                '<' | '>' => self.redirection(character, after),
                character if character.is_whitespace() => {
                    self.end_word();
                    after
                }
                character => {
                    self.push(character.encode_utf8(&mut [0; 4]));
                    after
                }
            };
        }
    }

    fn push(&mut self, text: &str) {
        self.word.get_or_insert_default().push_str(text);
    }

    /// Reads up to the closing quote.
    fn double_quoted<'a>(&mut self, text: &'a str) -> &'a str {
        self.push("");
        let mut rest = text;
        while let Some(character) = rest.chars().next() {
            let after = &rest[character.len_utf8()..];
            rest = match character {
                '"' => return after,
                '\\' if after.starts_with(['"', '\\', '$', '`', '\n']) => {
                    let (escaped, after) = after.split_at(1);
                    if escaped != "\n" {
                        self.push(escaped);
                    }
                    after
                }
                '$' if after.starts_with('(') && !after.starts_with("((") => {
                    self.substitution(&after[1..], ')')
                }
                '`' => self.substitution(after, '`'),
                character => {
                    self.push(character.encode_utf8(&mut [0; 4]));
                    after
                }
            };
        }
        rest
    }

    /// Splits the commands of a substitution, and leaves a mark in the word.
    fn substitution<'a>(&mut self, text: &'a str, end: char) -> &'a str {
        let at = closing(text, end);
        self.pipelines.extend(pipelines(&text[..at]));
        self.push("$()");
        text[at..].strip_prefix(end).unwrap_or_default()
    }

    fn redirection<'a>(&mut self, character: char, after: &'a str) -> &'a str {
        // The number of a file descriptor belongs to the redirection.
        if self.word.as_deref().is_some_and(|word| word.bytes().all(|byte| byte.is_ascii_digit())) {
            self.word = None;
        }
        self.end_word();
        if character == '<' && after.starts_with('<') && !after.starts_with("<<") {
            let after = after[1..].trim_start_matches('-').trim_start_matches(' ');
            let length = after.find(char::is_whitespace).unwrap_or(after.len());
            let mark = after[..length].trim_matches(['\'', '"', '\\']);
            self.here_documents.push(mark.to_owned());
            return &after[length..];
        }
        self.redirected = true;
        after.trim_start_matches(['<', '>', '&', '|'])
    }

    fn skip_here_documents<'a>(&mut self, text: &'a str) -> &'a str {
        let mut rest = text;
        for mark in std::mem::take(&mut self.here_documents) {
            while !rest.is_empty() {
                let (line, after) = rest.split_once('\n').unwrap_or((rest, ""));
                rest = after;
                if line.trim() == mark {
                    break;
                }
            }
        }
        rest
    }

    fn end_word(&mut self) {
        let Some(word) = self.word.take() else { return };
        let redirected = std::mem::take(&mut self.redirected);
        let is_prefix = KEYWORDS.contains(&word.as_str()) || is_assignment(&word);
        if redirected || (self.words.is_empty() && is_prefix) {
            return;
        }
        self.words.push(word);
    }

    fn end_command(&mut self) {
        self.end_word();
        self.redirected = false;
        if !self.words.is_empty() {
            self.pipeline.push(std::mem::take(&mut self.words));
        }
    }

    fn end_pipeline(&mut self) {
        self.end_command();
        if !self.pipeline.is_empty() {
            self.pipelines.push(std::mem::take(&mut self.pipeline));
        }
    }
}

/// The position of the end of a substitution, outside of quotes and of inner parentheses.
fn closing(text: &str, end: char) -> usize {
    let (mut depth, mut quote, mut escaped) = (0_usize, None, false);
    for (at, character) in text.char_indices() {
        if std::mem::take(&mut escaped) {
            continue;
        }
        match (character, quote) {
            ('\\', None | Some('"')) => escaped = true,
            ('\'' | '"', None) => quote = Some(character),
            (character, Some(open)) if character == open => quote = None,
            (character, None) if character == end && depth == 0 => return at,
            ('(', None) => depth += 1,
            (')', None) => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    text.len()
}

fn is_assignment(word: &str) -> bool {
    let is_name = |name: &str| {
        let mut bytes = name.bytes();
        bytes.next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_')
            && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    word.split_once('=').is_some_and(|(name, _)| is_name(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(script: &str) -> Vec<Vec<String>> {
        let joined = |pipeline: Pipeline| {
            pipeline.into_iter().map(|words| words.join("·")).collect::<Vec<_>>()
        };
        pipelines(script).into_iter().map(joined).collect()
    }

    #[test]
    fn a_pipeline_has_commands() {
        assert_eq!(
            split("tail -n +2 '/tmp/a b' | jq -r '.a | .b' 2>/dev/null | wc -l"),
            [["tail·-n·+2·/tmp/a b", "jq·-r·.a | .b", "wc·-l"]]
        );
    }

    #[test]
    fn lists_are_pipelines() {
        assert_eq!(split("a && b || c; d &\ne # f\n"), [["a"], ["b"], ["c"], ["d"], ["e"]]);
    }

    #[test]
    fn quotes_are_removed() {
        assert_eq!(split(r#"echo "a \"b\" c"'d'\ e """#), [[r#"echo·a "b" cd e·"#]]);
    }

    #[test]
    fn substitutions_are_pipelines_of_their_own() {
        assert_eq!(
            split(r#"n=$(grep -c "x)" f); echo "$(cat f | wc -l) of `ls`""#),
            [vec!["grep·-c·x)·f"], vec!["cat·f", "wc·-l"], vec!["ls"], vec!["echo·$() of $()"]]
        );
    }

    #[test]
    fn keywords_and_here_documents_are_no_commands() {
        assert_eq!(
            split("for i in a b; do if grep -q $i f; then echo $i; fi; done"),
            [["for·i·in·a·b"], ["grep·-q·$i·f"], ["echo·$i"], ["fi"], ["done"]]
        );
        assert_eq!(
            split("python3 - <<'EOF' > out\nimport json | x\nEOF\nls"),
            [["python3·-"], ["ls"]]
        );
    }
}

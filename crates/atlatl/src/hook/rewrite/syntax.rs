//! Splits a command line into pipelines of simple commands.
//!
//! The words stay as they were typed, so that the host's shell expands them. The parser finds the
//! boundaries of commands and refuses every construct whose boundaries differ between `sh`, `bash` and
//! `zsh`, or that it does not know.

use super::Reason;

/// The length of the longest line that is parsed.
const MAX_LINE_LEN: usize = 32 * 1024;

/// A list of pipelines, joined by `;`, `&&` or `||`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CommandLine<'a> {
    pub(crate) pipelines: Vec<Pipeline<'a>>,
}

impl<'a> CommandLine<'a> {
    /// The simple commands, in the order of the line.
    pub(crate) fn commands(&self) -> impl Iterator<Item = &SimpleCommand<'a>> {
        self.pipelines.iter().flat_map(|pipeline| &pipeline.commands)
    }
}

/// Commands joined by `|`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Pipeline<'a> {
    pub(crate) commands: Vec<SimpleCommand<'a>>,
}

/// A program and its arguments, without assignments and redirections.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct SimpleCommand<'a> {
    /// The byte at which the first word begins.
    pub(crate) offset: usize,
    pub(crate) words: Vec<Word<'a>>,
}

/// A word of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Word<'a> {
    /// The word with its quotes.
    pub(crate) raw: &'a str,
    /// The word without quotes; what the shell expands is unchanged.
    pub(crate) text: String,
    /// Whether the shell passes `text` to the program as it is.
    pub(crate) is_literal: bool,
}

/// Parses a line; an error is the first construct that is not understood.
pub(crate) fn parse(line: &str) -> Result<CommandLine<'_>, Reason> {
    if line.len() > MAX_LINE_LEN {
        return Err(Reason::TooLong);
    }
    // Unicode has blanks that one shell treats as separators and another one does not.
    let unsupported = |c: char| c.is_control() || (!c.is_ascii() && c.is_whitespace());
    if line.chars().any(unsupported) {
        return Err(Reason::ControlCharacter);
    }
    let mut parser = Parser { line, position: 0 };
    let mut pipelines = vec![Pipeline::default()];
    loop {
        let command = parser.command()?;
        let last = pipelines.len() - 1;
        pipelines[last].commands.push(command);
        match parser.operator()? {
            Operator::End => return Ok(CommandLine { pipelines }),
            Operator::Pipe => {}
            Operator::List => pipelines.push(Pipeline::default()),
        }
    }
}

enum Operator {
    End,
    Pipe,
    List,
}

struct Parser<'a> {
    line: &'a str,
    position: usize,
}

impl<'a> Parser<'a> {
    fn rest(&self) -> &'a str {
        &self.line[self.position..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let next = self.peek()?;
        self.position += next.len_utf8();
        Some(next)
    }

    fn skip_blanks(&mut self) {
        while self.peek() == Some(' ') {
            self.position += 1;
        }
    }

    fn command(&mut self) -> Result<SimpleCommand<'a>, Reason> {
        self.skip_blanks();
        let mut command = SimpleCommand { offset: self.position, words: Vec::new() };
        while let Some(word) = self.word()? {
            command.words.push(word);
            self.skip_blanks();
        }
        if command.words.is_empty() {
            return Err(match self.peek() {
                Some('&') if !self.rest().starts_with("&&") => Reason::Background,
                Some(_) => Reason::Operator,
                None => Reason::Empty,
            });
        }
        Ok(command)
    }

    fn operator(&mut self) -> Result<Operator, Reason> {
        let rest = self.rest();
        let (operator, len) = match rest.as_bytes() {
            [] => (Operator::End, 0),
            [b'&', b'&', ..] | [b'|', b'|', ..] => (Operator::List, 2),
            [b'&', ..] => return Err(Reason::Background),
            // `|&` redirects standard error in bash and zsh.
            [b'|', b'&', ..] => return Err(Reason::Redirection),
            [b'|', ..] => (Operator::Pipe, 1),
            [b';', ..] => (Operator::List, 1),
            _ => return Err(Reason::Operator),
        };
        self.position += len;
        Ok(operator)
    }

    /// The word at the position, if no operator or end is there.
    fn word(&mut self) -> Result<Option<Word<'a>>, Reason> {
        let start = self.position;
        let (mut text, mut is_literal) = (String::new(), true);
        while let Some(c) = self.peek() {
            match c {
                ' ' | ';' | '&' | '|' => break,
                '<' | '>' => return Err(Reason::Redirection),
                '(' | ')' => return Err(Reason::Grouping),
                '{' | '}' => return Err(Reason::Braces),
                '`' => return Err(Reason::Substitution),
                '#' if self.position == start => return Err(Reason::Comment),
                // A path in zsh, which crashed when there was no such program.
                '=' if self.position == start => return Err(Reason::Parameter),
                _ => {}
            }
            self.position += c.len_utf8();
            match c {
                '\'' => text.push_str(self.single_quoted()?),
                '"' => is_literal &= self.double_quoted(&mut text)?,
                '\\' => text.push(self.escaped()?),
                '$' => {
                    is_literal = false;
                    text.push_str(self.parameter()?);
                }
                // Expanded at the start of a word, and in some shells after `=` and `:`. `^` and `#`
                // belong to the extended patterns of zsh.
                '*' | '?' | '[' | ']' | '~' | '^' | '#' => {
                    is_literal = false;
                    text.push(c);
                }
                _ => text.push(c),
            }
        }
        let raw = &self.line[start..self.position];
        Ok((!raw.is_empty()).then_some(Word { raw, text, is_literal }))
    }

    /// What follows a single quote, which has been read, up to the next one.
    fn single_quoted(&mut self) -> Result<&'a str, Reason> {
        let (inner, _) = self.rest().split_once('\'').ok_or(Reason::Quote)?;
        self.position += inner.len() + 1;
        Ok(inner)
    }

    /// Appends what follows a double quote, which has been read; returns whether it is literal.
    fn double_quoted(&mut self, text: &mut String) -> Result<bool, Reason> {
        let mut is_literal = true;
        loop {
            match self.next().ok_or(Reason::Quote)? {
                '"' => return Ok(is_literal),
                '`' => return Err(Reason::Substitution),
                '\\' => match self.next().ok_or(Reason::Quote)? {
                    escaped @ ('"' | '\\' | '$' | '`') => text.push(escaped),
                    other => text.extend(['\\', other]),
                },
                // The end of a line in a regular expression.
                '$' if matches!(self.peek(), Some('"' | ' ')) => text.push('$'),
                '$' => {
                    is_literal = false;
                    text.push_str(self.parameter()?);
                }
                other => text.push(other),
            }
        }
    }

    fn escaped(&mut self) -> Result<char, Reason> {
        self.next().ok_or(Reason::Quote)
    }

    /// A parameter whose dollar sign has been read: `NAME`, `{NAME}` or `?`. The result has the sign.
    fn parameter(&mut self) -> Result<&'a str, Reason> {
        let start = self.position - 1;
        let rest = self.rest();
        let name_len = |text: &str| {
            let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
            let len = text.find(|c| !is_name(c)).unwrap_or(text.len());
            (len > 0 && !text.starts_with(|c: char| c.is_ascii_digit())).then_some(len)
        };
        let len = match rest.as_bytes() {
            [b'(', ..] => return Err(Reason::Substitution),
            [b'?', ..] => 1,
            [b'{', ..] => {
                let len = name_len(&rest[1..]).ok_or(Reason::Parameter)?;
                if !rest[1 + len..].starts_with('}') {
                    return Err(Reason::Parameter);
                }
                len + 2
            }
            _ => name_len(rest).ok_or(Reason::Parameter)?,
        };
        self.position += len;
        // A subscript or modifier of zsh.
        if matches!(self.peek(), Some('[' | ':')) {
            return Err(Reason::Parameter);
        }
        Ok(&self.line[start..self.position])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(line: &str) -> Vec<Vec<String>> {
        let parsed = parse(line).unwrap();
        let words = |command: &SimpleCommand<'_>| {
            command.words.iter().map(|word| word.text.clone()).collect::<Vec<_>>()
        };
        parsed.commands().map(words).collect()
    }

    #[test]
    fn words_are_split_and_unquoted() {
        assert_eq!(texts("a 'b c' \"d \\\" e\" f\\ g"), [["a", "b c", "d \" e", "f g"]]);
        assert_eq!(texts("a|b&&c ; d||e").len(), 5);
        assert_eq!(texts("a ''"), [["a", ""]]);
        assert_eq!(texts("grep \"x$\" y"), [["grep", "x$", "y"]]);
    }

    #[test]
    fn offsets_point_to_the_first_word() {
        let line = "  ls -l | sort -u;wc";
        let parsed = parse(line).unwrap();
        let starts: Vec<&str> = parsed.commands().map(|c| &line[c.offset..c.offset + 2]).collect();
        assert_eq!(starts, ["ls", "so", "wc"]);
        assert_eq!(parsed.pipelines.len(), 2);
    }

    #[test]
    fn expansions_are_no_literals() {
        for word in ["*.rs", "~/x", "$X", "${X}", "a?b", "[ab]", "\"$X\"", "HEAD^"] {
            let line = format!("ls {word}");
            let parsed = parse(&line).unwrap();
            assert!(!parsed.pipelines[0].commands[0].words[1].is_literal, "{word}");
        }
        for word in ["a=b", "'*'", "\"*\"", "\\*", "a,b", "x:y", "--a=b", "!"] {
            let line = format!("ls {word}");
            let parsed = parse(&line).unwrap();
            assert!(parsed.pipelines[0].commands[0].words[1].is_literal, "{word}");
        }
    }

    #[test]
    fn an_unfinished_line_is_refused() {
        for line in
            ["a 'b", "a \"b", "a \\", "a \"\\", "a &&", "a |", "a ;", "| a", ";; a", "", " "]
        {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}

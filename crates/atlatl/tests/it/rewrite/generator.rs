//! Random command lines: lists and pipelines of small programs, with words of every kind.

use testkit::SplitMix64;

/// Words, most of which a shell expands or unquotes.
const WORDS: &[&str] = &[
    "a.txt",
    "b.txt",
    "data.csv",
    "sub",
    "sub/c.txt",
    "*.txt",
    "sub/*",
    "?.txt",
    "[ab].txt",
    "*.none",
    "'name with spaces.txt'",
    "\"name with spaces.txt\"",
    "name\\ with\\ spaces.txt",
    "\"it's.txt\"",
    "'it'\\''s.txt'",
    "it\\'s.txt",
    "$X",
    "\"$X\"",
    "'$X'",
    "${X}",
    "\"${X}\"",
    "\\$X",
    "$EMPTY",
    "\"$EMPTY\"",
    "''",
    "\"\"",
    "$UNSET",
    "\"$UNSET\"",
    "$DIR/c.txt",
    "\"$DIR\"/c.txt",
    "${DIR}/*",
    "~",
    "~/home.txt",
    "x=~",
    "a=b",
    "=x",
    "-- -dash",
    "./-dash",
    "-dash",
    "'*'",
    "\"*\"",
    "\\*",
    "$STAR",
    "\"$STAR\"",
    ".*",
    ".hidden",
    "'a;b'",
    "'a|b'",
    "'a&b'",
    "\"a > b\"",
    "'#'",
    "a#b",
    "'`x`'",
    "\"\\`\"",
    "\"\\$HOME\"",
    "'$(x)'",
    "HEAD^",
    "a^b",
    "!",
    "a!b",
    "\"!\"",
    "%1",
    "a,b",
    "x:y",
    "@a",
    "+x",
    "\"end$\"",
    "\"a\\b\"",
    "'a\\b'",
    "a\\\\b",
    "\\;",
    "\\|",
    "\\&",
    "\\<",
    "\\(",
    "\\{",
    "'{a,b}'",
    "ünï",
    "'日本'",
    "1",
    "22",
    "\"$?\"",
    "$?",
    "a''b",
    "\"a\"'b'c",
    "\\ ",
    "'  '",
    "\\\"",
    "\\'",
];

/// Words that no line with a rewrite has.
const FOREIGN: &[&str] = &[
    "> out", "2>&1", "< a.txt", "$(pwd)", "`pwd`", "{a,b}", "(a)", "# x", "&", "$$", "${X:-y}",
    "'open", "\"open", "<<< x", "$'a'", "\\", ";;", "|&", "A=1",
];

/// Programs that read standard input to its end, with arguments: one that does not would kill the
/// command before it at a random moment.
const FILTERS: &[&str] = &[
    "cat",
    "sort",
    "sort -r",
    "uniq -c",
    "wc -l",
    "tail -n 1",
    "tr a-z A-Z",
    "cut -c1-3",
    "grep o",
    "grep -v o",
    "grep -c .",
    "awk '{print $1}'",
    "awk -F, '{print $2}'",
    "nl",
    "tac",
    "sed -n 1,2p",
    "sed -n '$p'",
    "od -c",
    "fold -w 3",
    "base64",
    "./emit x",
    "./arguments",
    "./change a",
    "timeout 5 cat",
    "env A=1 sort",
    "nice cat",
    "sha256sum",
    "paste - -",
    "grep \"o$\"",
    "stdbuf -oL cat",
    "cat - a.txt",
];

/// Programs with operands.
const PROGRAMS: &[&str] = &[
    "./arguments",
    "./arguments",
    "./arguments",
    "./arguments",
    "./emit",
    "./emit",
    "./change",
    "cat",
    "ls",
    "ls -d",
    "head -n 1",
    "wc -c",
    "grep -h o",
    "sort",
    "basename",
    "dirname",
    "cmp",
    "diff",
    "comm",
    "stat -c %s",
    "sha256sum",
    "find",
    "od -c",
    "printf '%s\\n'",
    "echo",
    "test -f",
    "env V=2 ./arguments",
    "timeout 5 ./arguments",
    "nice ./emit",
    "tail -n 2",
    "seq",
    "/bin/cat",
    "/usr/bin/env",
    "du -b",
    "timeout 9 ./emit",
    "realpath",
    "readlink",
    "python3 -c 'print(1)'",
    "awk 1",
    "sub/../arguments",
];

const STARTS: &[&str] =
    &["true", "false", "pwd", "echo hi", "seq 3", "printf 'a\\nb\\n'", "test -d sub"];

/// The next line.
pub(super) fn line(random: &mut SplitMix64) -> String {
    let mut line = pipeline(random);
    while random.chance(40) {
        let operators = [" && ", " || ", "; ", "&&", "||", ";", " ;  "];
        line.push_str(random.pick::<&str>(&operators));
        line.push_str(&pipeline(random));
    }
    if random.chance(10) {
        line.push(' ');
    }
    if random.chance(10) {
        line.insert(0, ' ');
    }
    line
}

fn pipeline(random: &mut SplitMix64) -> String {
    let mut text = command(random);
    while random.chance(35) {
        text.push_str(random.pick::<&str>(&[" | ", "|", " |", "| "]));
        text.push_str(random.pick::<&str>(FILTERS));
    }
    text
}

fn command(random: &mut SplitMix64) -> String {
    if random.chance(15) {
        return (*random.pick(STARTS)).to_owned();
    }
    let mut text = (*random.pick(PROGRAMS)).to_owned();
    for _ in 0..random.below(5) {
        text.push_str(random.pick::<&str>(&[" ", " ", " ", "  "]));
        let words = if random.chance(4) { FOREIGN } else { WORDS };
        text.push_str(random.pick::<&str>(words));
    }
    text
}

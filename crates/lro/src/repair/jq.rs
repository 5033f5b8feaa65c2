//! Corrects typical mistakes in jq filters.

mod comparison;
mod field_case;
mod match_operator;
mod pipe;

use super::{FieldPaths, Repair};
pub(crate) use comparison::other_type;
pub(crate) use field_case::same_fields;

/// The mistakes in one filter that are corrected.
pub(crate) const MAX_REPAIRS: usize = 4;

/// Corrects mistakes that jq accepts with another meaning: the command around the filter, `=` in a
/// condition, a comma between arguments, and a pipe beside `and`. `=~` is not accepted; without it, `=`
/// is an assignment.
pub(crate) fn before_run(filter: &str) -> Option<Repair> {
    without_command(filter)
        .or_else(|| match_operator::repair(filter))
        .or_else(|| comparison(filter))
        .or_else(|| flags(filter))
        .or_else(|| pipe::in_condition(filter))
}

/// The filter without the mistakes that [`before_run`] corrects, for a hint.
pub(crate) fn corrected(mut filter: String) -> String {
    for _ in 0..MAX_REPAIRS {
        match before_run(&filter) {
            Some(repair) => filter = repair.text,
            None => break,
        }
    }
    filter
}

/// Corrects mistakes that jq refuses: operators and quotes of other languages, and commas between
/// arguments.
pub(crate) fn after_refusal(filter: &str) -> Option<Repair> {
    let operators = [("&&", "and"), ("||", "or"), ("===", "=="), ("!==", "!="), ("<>", "!=")];
    for (old, new) in operators {
        let spaced =
            if new.starts_with(char::is_alphabetic) { format!(" {new} ") } else { new.to_owned() };
        let text = map_code(filter, |code| code.replace(old, &spaced));
        if text != filter {
            return Some(Repair { text, change: (old.to_owned(), new.to_owned()) });
        }
    }
    if !filter.contains('"') && filter.matches('\'').count() >= 2 {
        let text = filter.replace('\'', "\"");
        return Some(Repair { text, change: ("'".to_owned(), "\"".to_owned()) });
    }
    for name in ["sub", "gsub", "limit", "split", "range", "until", "ltrimstr"] {
        if let Some(repair) = semicolons(filter, name) {
            return Some(repair);
        }
    }
    None
}

/// Puts the dot before a field that jq takes for the unknown function of `message`, as in `sort_by(net)`.
pub(crate) fn without_dot(filter: &str, message: &str, paths: &FieldPaths) -> Option<Repair> {
    let name = message.strip_prefix("unknown function ")?.strip_suffix("/0")?;
    if !paths.top().any(|field| field == name) {
        return None;
    }
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    let text = map_code(filter, |code| {
        let mut out = String::new();
        let mut rest = code;
        while let Some(at) = rest.find(name) {
            let (before, found) = rest.split_at(at);
            let behind = &found[name.len()..];
            out.push_str(before);
            let is_whole = !out.ends_with(|c: char| is_name(c) || c == '.' || c == '$')
                && !behind.starts_with(is_name);
            // The name of a member: `{net: .net}`.
            let is_key = behind.trim_start().starts_with(':');
            if is_whole && !is_key {
                out.push('.');
            }
            out.push_str(name);
            rest = behind;
        }
        out.push_str(rest);
        out
    });
    let change = (name.to_owned(), format!(".{name}"));
    (text != filter).then_some(Repair { text, change })
}

/// Puts `[]` behind a field that is an array of objects, as in `.labels.name`.
pub(crate) fn iterate_arrays(filter: &str, paths: &FieldPaths) -> Option<Repair> {
    for path in paths.arrays() {
        if !path.iter().all(|name| is_plain(name)) {
            continue;
        }
        let old = format!(".{}", path.join("."));
        let text = map_code(filter, |code| {
            let mut out = String::new();
            let mut rest = code;
            while let Some(at) = rest.find(&old) {
                let (before, found) = rest.split_at(at);
                let behind = &found[old.len()..];
                out.push_str(before);
                out.push_str(&old);
                let is_start =
                    !before.ends_with(|c: char| c.is_alphanumeric() || "_])\"?".contains(c));
                if is_start && behind.starts_with('.') && !behind.starts_with("..") {
                    out.push_str("[]");
                }
                rest = behind;
            }
            out.push_str(rest);
            out
        });
        if text != filter {
            return Some(Repair { text, change: (old.clone(), format!("{old}[]")) });
        }
    }
    None
}

/// The filter with field `name` replaced by another.
pub(crate) fn with_field(filter: &str, name: &str, other: &str) -> Option<String> {
    let new = if is_plain(other) { other.to_owned() } else { serde_json::json!(other).to_string() };
    let text = map_code(filter, |code| {
        let mut out = String::new();
        let mut rest = code;
        while let Some(at) = rest.find(name) {
            let (before, found) = rest.split_at(at);
            let behind = &found[name.len()..];
            out.push_str(before);
            let starts = before.ends_with('.');
            let ends = !behind.starts_with(|c: char| c.is_alphanumeric() || c == '_');
            out.push_str(if starts && ends { &new } else { name });
            rest = behind;
        }
        out.push_str(rest);
        out
    });
    (text != filter).then_some(text)
}

/// The first field that the filter reads.
pub(crate) fn first_field(filter: &str) -> Option<String> {
    let mut rest = filter;
    while let Some(first) = rest.chars().next() {
        if first == '"' {
            rest = &rest[string_end(rest)..];
            continue;
        }
        rest = &rest[first.len_utf8()..];
        if first == '.' {
            let quoted = rest.strip_prefix("[\"").or_else(|| rest.strip_prefix('"'));
            if let Some(inside) = quoted {
                return inside.split('"').next().map(str::to_owned);
            }
            let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len());
            let name = &rest[..end];
            if name.starts_with(|c: char| c.is_alphabetic() || c == '_') {
                return Some(name.to_owned());
            }
        }
    }
    None
}

/// The filter with a path before its first `[]` replaced by the input: `.results[]` becomes `.[]`.
pub(crate) fn over_the_array(filter: &str) -> Option<String> {
    let end = filter.find("[]")?;
    let is_path = |c: char| c.is_alphanumeric() || c == '_' || c == '.';
    let start = filter[..end]
        .rfind(|c| !is_path(c))
        .map_or(0, |at| at + filter[at..].chars().next().map_or(1, char::len_utf8));
    let path = &filter[start..end];
    (path.len() > 1 && path.starts_with('.'))
        .then(|| format!("{}.{}", &filter[..start], &filter[end..]))
}

/// Whether the filter reads its input as a map, as in `to_entries[] | …`.
pub(crate) fn is_for_maps(filter: &str) -> bool {
    let filter = filter.trim_start().trim_start_matches(['[', '(']).trim_start();
    let filter = filter.strip_prefix(". |").map_or(filter, str::trim_start);
    let end = filter.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(filter.len());
    ["to_entries", "with_entries", "keys", "keys_unsorted", "map_values"].contains(&&filter[..end])
}

/// Whether the filter begins with an element or a range of its input, as in `.[0]` or `.[:5]`.
pub(crate) fn begins_with_index(filter: &str) -> bool {
    let filter = filter.trim_start().trim_start_matches(['[', '(']).trim_start();
    let index = filter.strip_prefix(".[").map(str::trim_start);
    index.is_some_and(|index| {
        index.starts_with(|c: char| c.is_ascii_digit() || c == '-' || c == ':')
    })
}

/// Whether the filter is usually written for an array, although a record is an input, too.
pub(crate) fn is_for_arrays(filter: &str) -> bool {
    let filter = filter.trim_start().trim_start_matches(['[', '(']).trim_start();
    let filter = filter.strip_prefix('.').map_or(filter, |rest| {
        // `. | length` is `length`.
        rest.trim_start().strip_prefix('|').map_or(filter, str::trim_start)
    });
    if filter.starts_with(".[]") {
        return true;
    }
    let end = filter.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(filter.len());
    let (word, rest) = filter.split_at(end);
    let rest = rest.trim_start();
    match word {
        "length" | "keys" | "add" | "first" | "last" | "limit" | "min" | "max" | "unique"
        | "sort" | "reverse" | "flatten" | "any" | "all" => {
            rest.is_empty()
                || rest.starts_with(['|', ']', ')'])
                || rest.contains("; .[]")
                || rest.starts_with("(.[]")
        }
        "map" | "group_by" | "sort_by" | "unique_by" | "min_by" | "max_by" => true,
        _ => false,
    }
}

fn is_plain(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// The filter of `jq -r '.name'` or `-r .name`.
fn without_command(filter: &str) -> Option<Repair> {
    let mut rest = filter.trim();
    let mut stripped = false;
    if let Some(behind) = rest.strip_prefix("jq ") {
        (rest, stripped) = (behind.trim_start(), true);
    }
    while let Some(option) = rest.strip_prefix('-') {
        let Some((name, behind)) = option.split_once(' ') else { break };
        if !name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '-') {
            break;
        }
        (rest, stripped) = (behind.trim_start(), true);
    }
    let quoted = rest.strip_prefix('\'').and_then(|inside| inside.strip_suffix('\''));
    if let Some(inside) = quoted
        && !inside.contains('\'')
    {
        (rest, stripped) = (inside, true);
    }
    stripped.then(|| Repair { text: rest.to_owned(), change: (filter.to_owned(), rest.to_owned()) })
}

/// `=` inside `select(…)` assigns, and every record is selected.
fn comparison(filter: &str) -> Option<Repair> {
    let mut out = String::new();
    let mut rest = filter;
    let mut changed = false;
    while let Some(at) = rest.find("select(") {
        let start = at + "select(".len();
        out.push_str(&rest[..start]);
        rest = &rest[start..];
        let end = closing(rest);
        let inside = map_code(&rest[..end], |code| {
            let mut text = String::new();
            let bytes = code.as_bytes();
            for (at, c) in code.char_indices() {
                text.push(c);
                let before = at.checked_sub(1).map(|i| bytes[i]);
                let behind = bytes.get(at + 1);
                let joins = before.is_some_and(|b| b"=!<>|+-*/%".contains(&b))
                    || matches!(behind, Some(b'=' | b'~'));
                if c == '=' && !joins {
                    text.push('=');
                }
            }
            text
        });
        changed |= inside != rest[..end];
        out.push_str(&inside);
        rest = &rest[end..];
    }
    out.push_str(rest);
    changed.then(|| Repair { text: out, change: ("=".to_owned(), "==".to_owned()) })
}

/// `test("x", "i")` runs once for each of the two texts.
fn flags(filter: &str) -> Option<Repair> {
    for name in ["test", "match", "capture", "scan"] {
        let call = format!("{name}(");
        let Some(at) = filter.find(&call) else { continue };
        let rest = &filter[at + call.len()..];
        if !rest.trim_start().starts_with('"') {
            continue;
        }
        let lead = rest.len() - rest.trim_start().len();
        let end = lead + string_end(&rest[lead..]);
        let Some(behind) = rest[end..].trim_start().strip_prefix(',') else { continue };
        let flags = behind.trim_start();
        let Some((letters, _)) = flags.strip_prefix('"').and_then(|f| f.split_once('"')) else {
            continue;
        };
        let is_flags = !letters.is_empty() && letters.chars().all(|c| "gimnpslx".contains(c));
        if is_flags {
            let text = format!("{}{}; {flags}", &filter[..at + call.len()], &rest[..end]);
            return Some(Repair { text, change: (",".to_owned(), ";".to_owned()) });
        }
    }
    None
}

/// Replaces the commas between the arguments of a call by semicolons.
fn semicolons(filter: &str, name: &str) -> Option<Repair> {
    let call = format!("{name}(");
    let at = filter.find(&call)?;
    if filter[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_') {
        return None;
    }
    let rest = &filter[at + call.len()..];
    let end = closing(rest);
    let mut depth = 0_i32;
    let arguments = map_code(&rest[..end], |code| {
        code.chars()
            .map(|c| {
                depth += i32::from("([{".contains(c)) - i32::from(")]}".contains(c));
                if c == ',' && depth == 0 { ';' } else { c }
            })
            .collect()
    });
    if arguments == rest[..end] || rest[..end].contains(';') {
        return None;
    }
    let text = format!("{}{call}{arguments}{}", &filter[..at], &rest[end..]);
    Some(Repair { text, change: (",".to_owned(), ";".to_owned()) })
}

/// Maps the text outside of strings.
fn map_code(filter: &str, mut map: impl FnMut(&str) -> String) -> String {
    let mut out = String::new();
    let mut rest = filter;
    while let Some(at) = rest.find('"') {
        out.push_str(&map(&rest[..at]));
        let end = at + string_end(&rest[at..]);
        out.push_str(&rest[at..end]);
        rest = &rest[end..];
    }
    out.push_str(&map(rest));
    out
}

/// The end of the string at the beginning of `text`. An interpolation is a part of it.
fn string_end(text: &str) -> usize {
    let mut at = 1;
    let bytes = text.as_bytes();
    while at < bytes.len() {
        match bytes[at] {
            b'"' => return at + 1,
            b'\\' if bytes.get(at + 1) == Some(&b'(') => at += 2 + closing(&text[at + 2..]) + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    // The text may be cut within a character.
    text.len()
}

/// The offset of the parenthesis that closes the one before `text`.
fn closing(text: &str) -> usize {
    let bytes = text.as_bytes();
    let (mut at, mut depth) = (0, 0_u32);
    while at < bytes.len() {
        match bytes[at] {
            b'"' => {
                at += string_end(&text[at..]);
                continue;
            }
            b'(' => depth += 1,
            b')' if depth == 0 => return at,
            b')' => depth -= 1,
            _ => {}
        }
        at += 1;
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use lro_query::Bytes;

    use super::*;

    #[test]
    fn g18_mistakes_that_jq_accepts_are_corrected() {
        for (filter, expected) in [
            ("select(.a = \"b\") | .c = 1", Some("select(.a == \"b\") | .c = 1")),
            ("select(.a == \"=\" and .b >= 2)", None),
            ("select(.a |= 1)", None),
            ("select(.t | test(\"x\", \"i\"))", Some("select(.t | test(\"x\"; \"i\"))")),
            ("select(.t | test(\"x\"; \"i\"))", None),
            ("test(\"a\", \"no flags\")", None),
            ("jq -r '.name'", Some(".name")),
            ("-r .name", Some(".name")),
            ("'.name'", Some(".name")),
            ("-1 | . + 2", None),
            ("select(.a =~ /x/i)", Some("select((.a | test(\"x\"; \"i\")))")),
            ("select(.a =~ $x)", None),
            (
                "select(.n >= 2 and .a | test(\"x\"))",
                Some("select(.n >= 2 and (.a | test(\"x\")))"),
            ),
        ] {
            let repair = before_run(filter).map(|repair| repair.text);
            assert_eq!(repair.as_deref(), expected, "{filter}");
        }
    }

    #[test]
    fn g18_mistakes_that_jq_refuses_are_corrected() {
        for (filter, expected) in [
            ("select(.a==1 && .b==\"&&\")", Some("select(.a==1  and  .b==\"&&\")")),
            ("select(.a == 'x')", Some("select(.a == \"x\")")),
            ("sub(\"a, b\", \"c\")", Some("sub(\"a, b\"; \"c\")")),
            ("limit(5, .[] | [.a, .b])", Some("limit(5; .[] | [.a, .b])")),
            ("select(", None),
        ] {
            let repair = after_refusal(filter).map(|repair| repair.text);
            assert_eq!(repair.as_deref(), expected, "{filter}");
        }
    }

    #[test]
    fn g18_a_field_without_its_dot_gets_it() {
        let records = b"{\"net\":1,\"country\":\"DE\"}\n";
        let paths = FieldPaths::read(&Bytes(&records[..]), 0).unwrap();
        for (filter, name, expected) in [
            ("sort_by(net) | reverse | first", "net", Some("sort_by(.net) | reverse | first")),
            (
                "{net: net, n: .net, $net} | \"net\"",
                "net",
                Some("{net: .net, n: .net, $net} | \"net\""),
            ),
            ("net_total", "net_total", None),
            ("map(country)", "net", None),
        ] {
            let message = format!("unknown function {name}/0");
            let repair = without_dot(filter, &message, &paths).map(|repair| repair.text);
            assert_eq!(repair.as_deref(), expected, "{filter}");
        }
        assert_eq!(without_dot("net(1)", "unknown function net/1", &paths), None);
    }

    #[test]
    fn g18_fields_are_found_and_replaced_outside_of_strings() {
        assert_eq!(first_field("[.items[] | .a]").as_deref(), Some("items"));
        assert_eq!(first_field("\".x\" | .[\"a b\"]").as_deref(), Some("a b"));
        assert_eq!(first_field(".[] | length"), None);
        assert_eq!(first_field("\"\\(.b)\" | .c").as_deref(), Some("c"));
        assert_eq!(
            with_field("select(.nme == \".nme\") | .nme, .nmes", "nme", "name").as_deref(),
            Some("select(.name == \".nme\") | .name, .nmes")
        );
        assert_eq!(with_field(".nme", "nme", "na me").as_deref(), Some(".\"na me\""));
        assert_eq!(over_the_array("[.a.b[] | .c]").as_deref(), Some("[.[] | .c]"));
        assert_eq!(over_the_array(".[] | .a"), None);
        assert_eq!(over_the_array("x"), None);
        assert!(is_for_arrays("length") && is_for_arrays("[.[] | .x] | add"));
        assert!(is_for_arrays(". | length") && is_for_arrays("limit(5; .[])"));
        assert!(!is_for_arrays(".tags | length") && !is_for_arrays("mapper"));
        assert!(is_for_maps("[to_entries[] | .value]") && is_for_maps(". | keys[]"));
        assert!(!is_for_maps(".a | to_entries") && !is_for_maps("keys_of"));
        assert!(begins_with_index(".[0].a") && begins_with_index("[.[-5:][] | .a]"));
        assert!(!begins_with_index(".[] | .a") && !begins_with_index(".a[0]"));
        assert!(!is_for_arrays("first(.tags[])") && !is_for_arrays("any(.tags[]; . == 1)"));
        let records = b"{\"labels\":[{\"name\":\"bug\"}],\"tags\":[\"a\"]}\n";
        let paths = FieldPaths::read(&Bytes(records), 0).unwrap();
        let repair = iterate_arrays("select(.labels.name == \".labels.name\")", &paths).unwrap();
        assert_eq!(repair.text, "select(.labels[].name == \".labels.name\")");
        assert_eq!(iterate_arrays(".labels[].name, .tags", &paths), None);
    }
}
